"""Explanations: what matches, where it lies in both images, and what happens where something is missing."""

import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import PIL.Image
import pytest

from faemb import Encoder, FastFAemb, FeatureFiles, Projection, Whitening
from faemb.collection import Collection, Model, gathering
from faemb.errors import InputError
from faemb.features import HessianAffine, LocalFeatures
from faemb.rerank import judging, mapped
from pictures import blank, pixels
from small_collections import damage_vector, make_features, new_tiny_model

SIZE = (320, 240)
VIEW = np.array([[0.9, 0.05, 12], [-0.04, 0.95, 20], [1e-4, 0, 1]])
"""From pixels of the picture to pixels of a photograph of it."""


def photograph(path: Path, seed: int) -> Path:
    """Of the picture of this seed, seen from the side."""
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(cv2.warpPerspective(pixels(seed, SIZE), VIEW, SIZE, borderValue=128)).save(path)
    return path


def picture(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(pixels(seed, SIZE)).save(path)
    return path


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of twelve pictures, and one of them that keeps no features."""
    folder = tmp_path_factory.mktemp("gallery")
    for seed in range(12):
        picture(folder / "photos" / f"{seed}.png", seed)
    model = Model(HessianAffine(max_features=300), new_tiny_model().encoder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathering, "spread", lambda task, items, jobs=None: ((item, task(item)) for item in items))
        for name, keep in (("kept.faemb", True), ("bare.faemb", False)):
            with Collection.create(folder / name, model, keep_features=keep) as made:
                made.add(folder / "photos")
    return folder


@pytest.fixture
def here(gallery: Path, tmp_path: Path) -> Path:
    return shutil.copytree(gallery, tmp_path / "here")


def test_a_photograph_of_a_picture_is_explained(here):
    query = photograph(here / "query.png", 3)
    with Collection.open(here / "kept.faemb") as photos:
        found = photos.explain(query, here / "photos" / "3.png")
        (answer,) = photos.search(query, top=1)
    assert found.verdict == "same"
    assert found.result.in_collection
    assert (found.notes, found.shares) == ((), None)
    assert found.query.size == found.result.size == SIZE
    verification = found.verification
    assert verification is not None
    assert verification.agreeing.sum() >= 20
    # The numbers are those of the search.
    assert (found.similarity, found.confidence) == pytest.approx((answer.hits[0].similarity, answer.hits[0].confidence))


def test_transform_matches_and_overlap_lead_from_query_to_result(here):
    query = photograph(here / "query.png", 3)
    with Collection.open(here / "kept.faemb") as photos:
        found = photos.explain(query, here / "photos" / "3.png")
    verification = found.verification
    assert verification is not None
    assert verification.transform is not None
    planted = np.linalg.inv(VIEW)
    inside = np.array([[60, 60], [250, 60], [150, 180], [60, 180]], float)
    np.testing.assert_allclose(mapped(verification.transform, inside), mapped(planted, inside), atol=2)
    agreeing = verification.points[verification.agreeing].astype(np.float64)
    np.testing.assert_allclose(
        mapped(verification.transform, agreeing[:, :2]), agreeing[:, 2:], atol=17
    )  # 0.04 diagonals
    assert found.query.features is not None
    assert found.result.features is not None
    first, second = verification.matches.T
    np.testing.assert_array_equal(found.query.features.centres[first], verification.points[:, :2])
    np.testing.assert_array_equal(found.result.features.centres[second], verification.points[:, 2:])
    assert found.overlap is not None
    corners = mapped(VIEW, np.array([[0, 0], [319, 0], [319, 239], [0, 239]], float))
    for corner in corners[(corners >= 0).all(1) & (corners <= (319, 239)).all(1)]:
        assert np.hypot(*(found.overlap[0] - corner).T).min() < 6


def test_unrelated_pictures_share_nothing_that_is_claimed(here):
    with Collection.open(here / "kept.faemb") as photos:
        found = photos.explain(photograph(here / "query.png", 3), here / "photos" / "5.png")
    assert found.verdict == "unsure"


def test_a_box_limits_the_query(here):
    query = photograph(here / "query.png", 3)
    with Collection.open(here / "kept.faemb") as photos:
        found = photos.explain(query, here / "photos" / "3.png", box=(20, 30, 160, 900))
        assert found.box == (20, 30, 160, 239)
        assert found.query.features is not None
        assert found.query.features.centres[:, 0].max() <= 160
        with pytest.raises(
            InputError,
            match="in the box, so there is nothing to explain; give a larger or more detailed picture or another box",
        ):
            photos.explain(query, here / "photos" / "3.png", box=(0, 0, 2, 2))


def test_pixels_can_be_given(here):
    query = np.asarray(PIL.Image.open(photograph(here / "query.png", 3)))
    with Collection.open(here / "kept.faemb") as photos:
        found = photos.explain(query, here / "photos" / "3.png")
        assert (found.query.name, found.query.file, found.verdict) == ("the array", None, "same")
        again = photos.explain(query, pixels(3, SIZE))
    assert not again.result.in_collection
    assert again.verdict == "same"


def test_the_same_file_is_surely_the_same(here):
    shutil.copy(here / "photos" / "3.png", here / "copy.png")
    with Collection.open(here / "kept.faemb") as photos:
        found = photos.explain(here / "copy.png", here / "photos" / "3.png")
    assert found.confidence == 1
    assert found.notes == ("both files have the same bytes",)


class TestWhatIsMissing:
    def test_a_result_outside_of_the_collection_is_described_like_a_query(self, here):
        query, other = photograph(here / "query.png", 3), picture(here / "other.png", 3)
        with Collection.open(here / "kept.faemb") as photos:
            found = photos.explain(query, other)
            known = photos.explain(query, here / "photos" / "3.png")
        assert found.notes == (
            "the result is not in the collection: its features were extracted like those of a query",
        )
        assert (found.similarity, found.confidence) == pytest.approx((known.similarity, known.confidence), abs=1e-4)

    def test_a_result_that_is_neither_here_nor_there(self, here):
        (here / "broken.png").write_text("no image")
        query = photograph(here / "query.png", 3)
        with Collection.open(here / "kept.faemb") as photos:
            for name, why in (("gone.png", "there is no file"), ("broken.png", "image")):
                with pytest.raises(
                    InputError, match=f"{name} is not in the collection .*, nor can it be read: .*{why}"
                ):
                    photos.explain(query, here / name)

    def test_a_query_or_a_result_without_features(self, here):
        query, flat = photograph(here / "query.png", 3), blank(here / "flat.png")
        stored = blank(here / "photos" / "flat.png")
        with Collection.open(here / "kept.faemb") as photos:
            photos.add(stored)
            with pytest.raises(
                InputError, match=r"flat\.png has no local features, .*; give a larger or more detailed picture$"
            ):
                photos.explain(flat, here / "photos" / "3.png")
            for result in (flat, stored):
                with pytest.raises(InputError, match=r"flat\.png has no local features, so nothing can be compared"):
                    photos.explain(query, result)

    def test_the_thumbnail_stands_for_a_file_that_is_gone(self, here):
        query, result = photograph(here / "query.png", 3), here / "photos" / "3.png"
        result.unlink()
        with Collection.open(here / "kept.faemb") as photos:
            found = photos.explain(query, result)
        folder = here / "kept.faemb"
        assert found.notes == (
            f"the result is shown by its stored thumbnail: {result} cannot be read; run: faemb update {folder}, "
            f"or if it was moved: faemb relocate {folder} OLD NEW",
        )
        assert found.verdict == "same"
        assert found.result.picture is not None
        assert found.result.picture.size == SIZE
        assert found.result.picture.pixels.shape == (180, 240, 3)

    def test_the_thumbnail_stands_for_a_file_that_has_changed(self, here):
        query, result = photograph(here / "query.png", 3), picture(here / "photos" / "3.png", 99)
        with Collection.open(here / "kept.faemb") as photos:
            found = photos.explain(query, result)
        assert found.notes == (
            f"the result is shown by its stored thumbnail: {result} has changed since it was indexed; "
            f"run: faemb update {here / 'kept.faemb'}",
        )

    def test_without_a_thumbnail_there_are_no_pixels(self, here):
        query, result = photograph(here / "query.png", 3), here / "photos" / "3.png"
        result.unlink()
        (here / "kept.faemb" / "thumbnails.sqlite").unlink()
        with Collection.open(here / "kept.faemb") as photos:
            found = photos.explain(query, result)
        assert found.result.picture is None
        assert found.notes[0].startswith(
            f"the result is shown without its pixels, since no thumbnail is stored: {result} cannot be read; run: "
        )

    def test_features_that_are_not_kept(self, here):
        query, result = photograph(here / "query.png", 3), here / "photos" / "3.png"
        with Collection.open(here / "bare.faemb") as photos:
            found = photos.explain(query, result)
            (answer,) = photos.search(query, top=12)
        assert (found.verification, found.overlap, found.result.features) == (None, None, None)
        assert "are not kept; index the images into a new collection" in found.notes[0]
        assert found.notes[1] == "confidence is that of the vectors alone"
        hit = next(hit for hit in answer.hits if hit.path == result)
        assert (found.similarity, found.confidence) == pytest.approx((hit.similarity, hit.confidence))
        assert found.shares is not None
        assert found.query.features is not None
        assert len(found.shares) == len(found.query.features)
        assert abs(found.shares.sum() - found.similarity) < 2e-3

    def test_features_whose_geometry_says_nothing(self, here, monkeypatch):
        """As those of networks, which put regions on a grid."""
        monkeypatch.setattr(HessianAffine, "largest_turn", None)
        with Collection.open(here / "kept.faemb") as photos:
            found = photos.explain(photograph(here / "query.png", 3), here / "photos" / "3.png")
        assert found.verification is None
        assert found.shares is not None
        assert found.notes == (
            "features of this extractor have no geometry to verify",
            "confidence is that of the vectors alone",
        )

    def test_descriptors_without_geometry(self, here):
        result = here / "photos" / "3.png"
        with Collection.open(here / "kept.faemb") as photos:
            described = photos.features(result)
            bare = replace(described, frames=np.full_like(described.frames, np.nan))
            found = photos.explain_features(bare, result)
        assert found.verification is None
        assert found.notes == (
            "descriptors without geometry cannot be compared",
            "confidence is that of the vectors alone",
        )

    @pytest.mark.parametrize("box", [None, (0, 0, 20, 20)])
    def test_a_query_that_is_described_already_and_has_no_features(self, here, box):
        result = here / "photos" / "3.png"
        where, cure = (" in the box", " or another box") if box else ("", "")
        words = f"the query has no local features{where}, so .*; give a larger or more detailed picture{cure}"
        with Collection.open(here / "kept.faemb") as photos, pytest.raises(InputError, match=f"^{words}$"):
            photos.explain_features(LocalFeatures.none(128, (20, 20)), result, box=box)

    def test_damaged_features(self, here, monkeypatch):
        query, result = photograph(here / "query.png", 3), here / "photos" / "3.png"
        with Collection.open(here / "kept.faemb") as photos:
            entry = next(entry for entry in photos.entries() if entry.path.endswith("/3.png"))
            assert entry.offset is not None
            with photos.layout.features(1).open("r+b") as file:
                file.seek(entry.offset + 20)
                file.write(b"damaged")
            found = photos.explain(query, result)
            monkeypatch.setattr(judging, "MOST_UNCOMPARED", 0.05)  # vectors of this length make nothing surer
            again, (answer,) = photos.explain(pixels(3, SIZE), result), photos.search(pixels(3, SIZE), top=12)
        assert found.verification is None
        (similar,) = (hit for hit in answer.hits if hit.path == result)
        assert (similar.similarity, similar.confidence, again.confidence) == pytest.approx((1, 0.05, 0.05))
        assert "the local features of the result are damaged or lost; run: faemb check" in found.notes[0]

    @pytest.mark.parametrize("name", ["kept.faemb", "bare.faemb"])
    def test_a_damaged_vector(self, here, name):
        query, result = photograph(here / "query.png", 3), here / "photos" / "3.png"
        with Collection.open(here / name) as photos:
            before = photos.explain(query, result)
            damage_vector(photos, result)
            if name == "bare.faemb":
                with pytest.raises(
                    InputError, match=r"the stored vector of .* is damaged; run: faemb check .* --repair"
                ):
                    photos.explain(query, result)
                return
            found = photos.explain(query, result)
        assert "the stored vector of the result is damaged, and computed again from its features" in found.notes[0]
        assert (found.similarity, found.confidence) == pytest.approx((before.similarity, before.confidence), abs=1e-3)

    def test_features_without_geometry_or_pixels(self, tmp_path):
        """Files of another tool: keypoints, no image beside them, and an unknown size."""
        files = [make_features(tmp_path / "files" / f"{seed}.npz", seed) for seed in range(8)]
        encoder = Encoder(FastFAemb(2), projection=Projection(8, unit_after=True), whitening=Whitening(), pooling="sum")
        with Collection.create(tmp_path / "c.faemb", Model(FeatureFiles.of(files), encoder)) as photos:
            photos.add(tmp_path / "files")
            found = photos.explain(files[0], files[1])
        assert (found.query.picture, found.result.picture) == (None, None)
        assert found.overlap is None
        assert found.notes == (
            f"the query is shown without its pixels: no image is beside {files[0]}",
            f"the result is shown without its pixels, since no thumbnail is stored: {files[1]} is a file of features "
            "without an image",
        )

    def test_a_collection_that_has_learned_nothing(self, tmp_path):
        with (
            Collection.create(tmp_path / "new.faemb", Model(HessianAffine(), new_tiny_model().encoder)) as photos,
            pytest.raises(InputError, match="holds no encoded images yet"),
        ):
            photos.explain(pixels(1), pixels(2))
