"""Queries that are turned by quarter turns, in collections of upright features."""

from collections.abc import Iterator

import numpy as np
import pytest

from faemb import InputError
from faemb.collection import Collection, Model
from faemb.features import FeatureFiles, HessianAffine
from faemb.features.files import write_npz
from pictures import pictures, pixels
from small_collections import make_features, new_tiny_model

SIZE = (200, 150)
SHOWN = 3
"""The picture that the tests search for."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    folder = pictures(tmp_path_factory.mktemp("turned"), range(10), SIZE)
    with Collection.create(folder / "c.faemb", new_tiny_model(200)) as made:
        made.add(folder)
        yield made


def turned(quarters: int) -> np.ndarray:
    return np.ascontiguousarray(np.rot90(pixels(SHOWN, SIZE), quarters))


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_picture_that_lies_on_its_side_is_found(stored, quarters):
    (plain,), (answer,) = stored.search(turned(quarters)), stored.search(turned(quarters), turned=True)
    assert all(hit.verdict == "unsure" for hit in plain.hits)
    assert (answer.hits[0].path.name, answer.hits[0].verdict) == (f"{SHOWN:03}.png", "same")
    assert all(hit.verdict == "unsure" for hit in answer.hits[1:])


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_the_transform_turns_the_query_back(stored, quarters):
    (hit, *_) = stored.search(turned(quarters), turned=True)[0].hits
    rows, columns = np.indices(SIZE[::-1])
    places = np.rot90(np.stack([columns, rows], axis=-1), quarters)  # x, y in the stored image of each query pixel
    height, width = places.shape[:2]
    for x, y in ((20, 20), (width - 20, 20), (20, height - 20), (width // 2, height // 2)):
        found = hit.verification.transform @ [x, y, 1]
        np.testing.assert_allclose(found[:2] / found[2], places[y, x], atol=2)


def test_an_upright_query_is_found_as_before(stored):
    image = stored.layout.folder.parent / f"{SHOWN:03}.png"
    hit = stored.search(image, turned=True)[0].hits[0]
    assert (hit.path, hit.similarity, hit.itself, hit.confidence) == (image, 1.0, True, 1.0)


def test_the_nearest_turn_counts(stored):
    quarter, plain = (stored.search(turned(1), verify=0, turned=each)[0] for each in (True, False))
    before = {hit.path: hit.similarity for hit in plain.hits}
    assert all(hit.similarity >= before[hit.path] for hit in quarter.hits)
    assert quarter.hits[0].similarity > before[quarter.hits[0].path] + 0.3


def test_a_box_is_that_of_the_picture_as_it_was_given(stored):
    image = pixels(0, SIZE).copy()
    image[:, 100:] = turned(2)[:, 100:]  # the left half of the picture, upside down
    hits = stored.search(image, turned=True, box=(100, 0, 199, 149))[0].hits
    assert (hits[0].path.name, hits[0].verdict) == (f"{SHOWN:03}.png", "same")
    assert hits[0].verification.points[:, 0].min() >= 100


def test_other_queries_of_the_same_call_are_answered_as_alone(stored):
    images = [turned(1), np.full((60, 60), 128, np.uint8), pixels(7, SIZE)]
    for image, answer in zip(images, stored.search(images, turned=True), strict=True):
        alone = stored.search(image, turned=True)[0]
        assert [(hit.path, hit.similarity) for hit in answer.hits] == [(hit.path, hit.similarity) for hit in alone.hits]


def test_an_explanation_shows_what_the_search_found(stored):
    hit = stored.search(turned(1), turned=True)[0].hits[0]
    explained = stored.explain(turned(1), hit.path, turned=True)
    assert (explained.similarity, explained.confidence) == pytest.approx((hit.similarity, hit.confidence), abs=1e-6)
    np.testing.assert_array_equal(explained.verification.matches, hit.verification.matches)
    assert explained.verdict == "same"
    assert stored.explain(turned(1), hit.path).verdict == "unsure"


class TestRefusals:
    def test_features_that_match_however_a_picture_is_turned(self, tmp_path):
        model = Model(HessianAffine(max_features=60, rotation_invariant=True), new_tiny_model().encoder)
        with Collection.create(tmp_path / "c.faemb", model) as made:
            made.add(pictures(tmp_path / "p", range(4)))
            with pytest.raises(InputError, match=r"match however a picture lies.*leave out turned"):
                made.search(pixels(1), turned=True)

    def test_a_collection_of_feature_files(self, tmp_path):
        files = [make_features(tmp_path / "f" / f"{seed}.npz", seed) for seed in range(4)]
        with Collection.create(tmp_path / "c.faemb", Model(FeatureFiles.of(files), new_tiny_model().encoder)) as made:
            made.add(files)
            with pytest.raises(InputError, match="are read from files; leave out turned"):
                made.search(files[0], turned=True)

    def test_a_query_that_is_a_file_of_features(self, stored, tmp_path):
        write_npz(tmp_path / "q.npz", stored.model.extractor.extract(turned(1)))
        assert stored.search(tmp_path / "q.npz")[0].hits
        with pytest.raises(InputError, match=r"q\.npz is a file of features, which cannot be turned"):
            stored.search(tmp_path / "q.npz", turned=True)

    def test_expansion_by_vectors(self, stored):
        with pytest.raises(InputError, match="'average' is for queries with one vector; leave turned out"):
            stored.search("any.jpg", turned=True, verify=0, expand="average")
