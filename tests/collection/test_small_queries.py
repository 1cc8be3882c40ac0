"""Queries with few features, which are described at twice their size too."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from faemb.collection import Collection, queries
from faemb.collection.packing import rounded
from faemb.collection.queries import DescribeQuery, QueryFeatures
from faemb.features import HessianAffine
from faemb.features.files import write_npz
from faemb.features.image import ImageLike
from pictures import pixels
from small_collections import new_tiny_model

DETAIL = 3
SIZE = (120, 90)
CROP = (slice(20, 65), slice(30, 90))
"""Part of a picture with fewer features than are enough, and with many at twice its size."""


def detailed(seed: int, size: tuple[int, int] = SIZE) -> np.ndarray:
    """Blobs of three pixels, of which the detector finds few but in an enlarged image."""
    coarse = np.random.default_rng(seed).integers(0, 256, (size[1] // DETAIL, size[0] // DETAIL)).astype(np.uint8)
    return np.asarray(PIL.Image.fromarray(coarse).resize(size, PIL.Image.Resampling.BICUBIC))


def described(image: ImageLike, box: tuple[float, ...] | None = None) -> QueryFeatures:
    return DescribeQuery(HessianAffine(), box)((0, image)).features()


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    """Twelve pictures, and crops of the first four of other twelve, which are small and have few features."""
    folder = tmp_path_factory.mktemp("small")
    for seed in range(12):
        PIL.Image.fromarray(detailed(seed)).save(folder / f"{seed}.png")
    for seed in range(12, 16):
        PIL.Image.fromarray(detailed(seed)[CROP]).save(folder / f"{seed}.png")
    with Collection.create(folder / "c.faemb", new_tiny_model(200)) as made:
        made.add(folder)
        yield made


class TestDescription:
    def test_features_of_the_enlarged_image_follow_those_of_the_image(self):
        image = detailed(0)[CROP]
        found, plain = described(image), rounded(HessianAffine().extract(image))
        assert len(plain) < queries.ENOUGH_FEATURES
        assert len(found.features) > 2 * queries.ENOUGH_FEATURES
        for kept in (found.plain, found.features.select(slice(len(plain)))):
            np.testing.assert_array_equal(kept.descriptors, plain.descriptors)
            np.testing.assert_array_equal(kept.frames, plain.frames)

    def test_they_lie_in_the_image_as_it_was_given(self):
        found = described(detailed(0)[CROP]).features
        assert found.image_size == (60, 45)
        assert (found.centres >= 0).all()
        assert (found.centres < (60, 45)).all()
        assert (found.centres.max(0) > (45, 33)).all()

    def test_an_image_with_enough_features_is_not_enlarged(self):
        assert not described(detailed(0)).others

    def test_nor_is_a_large_image_where_it_would_take_long(self, monkeypatch):
        monkeypatch.setattr(queries, "LARGEST_ENLARGED", 59)
        assert not described(detailed(0)[CROP]).others

    def test_nor_is_a_file_of_features(self, tmp_path):
        write_npz(tmp_path / "few.npz", HessianAffine().extract(detailed(0)[CROP]))
        assert not described(tmp_path / "few.npz").others

    def test_an_extractor_that_enlarges_already_does_it_once(self):
        assert HessianAffine(enlarge=True).enlarging() is None

    def test_a_box_selects_among_all_of_them(self):
        box = (30.0, 20.0, 70.0, 55.0)
        found = described(detailed(0), box)
        assert found.others
        assert (found.features.centres >= box[:2]).all()
        assert (found.features.centres <= box[2:]).all()

    def test_an_image_that_has_features_at_twice_its_size_alone_is_known_by_those(self):
        image = detailed(2)[20:60, 30:70]
        assert len(HessianAffine().extract(image)) == 0
        found = described(image)
        assert len(found.plain) == len(found.features) > 0


class TestSearch:
    def test_a_small_image_of_the_collection_has_similarity_one_to_itself(self, stored):
        for seed in range(12, 16):
            hit = stored.search(detailed(seed)[CROP])[0].hits[0]
            assert (hit.path.name, hit.similarity) == (f"{seed}.png", 1.0)

    def test_a_crop_that_has_features_at_twice_its_size_alone_has_an_answer(self, stored):
        (answer,) = stored.search(detailed(2)[20:60, 30:70])
        assert answer.features > 0
        assert answer.hits[0].verification is not None

    def test_an_image_is_as_similar_as_the_nearer_of_both_descriptions(self, stored):
        image = detailed(3)[CROP]
        local = DescribeQuery(stored.model.extractor, None)((0, image)).features()
        each = [stored.search_features([features], verify=0, top=20)[0] for features in (local.plain, local.features)]
        scores = [{hit.path: hit.similarity for hit in answer.hits} for answer in each]
        assert scores[0] != scores[1]
        for hit in stored.search(image, verify=0, top=20)[0].hits:
            assert hit.similarity == pytest.approx(max(one[hit.path] for one in scores), abs=1e-3)

    def test_other_queries_of_the_same_call_are_answered_as_alone(self, stored):
        images = [pixels(0), detailed(3)[CROP], detailed(5)]
        together = stored.search(images)
        for image, answer in zip(images, together, strict=True):
            alone = stored.search(image)[0]
            assert [(hit.path, hit.similarity) for hit in answer.hits] == [
                (hit.path, hit.similarity) for hit in alone.hits
            ]

    def test_an_explanation_shows_what_the_search_found(self, stored):
        image = detailed(2)[CROP]
        hit = stored.search(image)[0].hits[0]
        explained = stored.explain(image, hit.path)
        assert hit.path == Path(hit.path).with_name("2.png")
        assert (explained.similarity, explained.confidence) == pytest.approx((hit.similarity, hit.confidence), abs=1e-6)
        np.testing.assert_array_equal(explained.verification.matches, hit.verification.matches)
