"""Groups of images that show the same: how pairs become groups, and that edits of an image are found."""

import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import PIL.Image
import pytest

from faemb.collection import Collection, Model, duplicates
from faemb.collection.backends import HNSW
from faemb.collection.duplicates import DEFAULT_THRESHOLD, connected, linked
from faemb.collection.layout import Layout
from faemb.collection.reading import View
from faemb.embedding import FastFAemb
from faemb.encoder import Encoder
from faemb.errors import InputError
from faemb.features import HessianAffine
from faemb.projection import Projection
from faemb.whitening import Whitening
from small_collections import tiny_model, working_here

# Pairs become groups


def groups_of(*pairs: tuple[int, int, float]) -> list[tuple[list[int], float]]:
    return connected(iter(pairs))


def test_no_pairs_are_no_groups():
    assert groups_of() == []


def test_what_is_connected_is_a_group():
    assert groups_of((0, 1, 0.9), (1, 2, 0.5), (5, 7, 0.8)) == [([5, 7], 0.8), ([1, 0, 2], 0.5)]


def test_groups_that_turn_out_to_be_one():
    ((members, score),) = groups_of((0, 1, 0.9), (2, 3, 0.9), (4, 5, 0.9), (1, 2, 0.7), (3, 4, 0.6))
    assert sorted(members) == [0, 1, 2, 3, 4, 5]
    assert score == 0.6


def test_the_most_connected_comes_first_and_then_by_place():
    ((members, _),) = groups_of((1, 4, 0.5), (2, 4, 0.5), (3, 4, 0.5), (1, 3, 0.5))
    assert members == [4, 1, 3, 2]


def test_a_pair_that_is_seen_from_both_sides_counts_once():
    assert groups_of((0, 1, 0.9), (0, 1, 0.9), (1, 2, 0.9)) == groups_of((0, 1, 0.9), (1, 2, 0.9))
    ((members, _),) = groups_of((0, 2, 0.9), (0, 2, 0.9), (1, 2, 0.9), (1, 3, 0.9), (1, 3, 0.9))
    assert members == [1, 2, 0, 3]


def test_a_long_chain():
    ((members, _),) = groups_of(*((i, i + 1, 0.9) for i in range(3000)))
    assert len(members) == 3001


def test_the_strongest_groups_come_first():
    assert [score for _, score in groups_of((0, 1, 0.4), (2, 3, 0.9), (4, 5, 0.6))] == [0.9, 0.6, 0.4]


# Images become pairs


def view_of(folder: Path, vectors: np.ndarray, dead: tuple[int, ...] = ()) -> View:
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    slots = np.setdiff1d(np.arange(len(vectors)), dead)
    return View(Layout(folder), tiny_model(), 1, slots, slots, vectors)


def pairs_by_the_book(view: View, threshold: float) -> set[tuple[int, int]]:
    live = view.vectors[view.slots]
    similarity = np.round(live @ live.T, 5)
    return {(i, j) for i in range(len(live)) for j in range(i + 1, len(live)) if similarity[i, j] >= threshold}


def links(view: View, threshold: float, kind=None, few=(), calls=lambda *call: None):
    """`few` are the places of images with few features."""
    return linked(view, np.isin(np.arange(len(view.slots)), few), threshold, kind, calls)


def found_pairs(view: View, threshold: float, kind=None, few=()) -> set[tuple[int, int]]:
    return {(a, b) for a, b, _ in links(view, threshold, kind, few)}


@pytest.mark.parametrize("threshold", [-1, 0.2, 0.5, 1])
@pytest.mark.parametrize("block", [3, 256])
def test_every_pair_that_is_similar_enough(rng, tmp_path, monkeypatch, threshold, block):
    monkeypatch.setattr(duplicates, "_BLOCK", block)
    view = view_of(tmp_path, rng.standard_normal((25, 4)), dead=(0, 7, 24))
    assert found_pairs(view, threshold) == pairs_by_the_book(view, threshold)


def test_an_approximate_index_finds_the_same_few(rng, tmp_path):
    pytest.importorskip("faiss")
    view = view_of(tmp_path, rng.standard_normal((25, 4)), dead=(3,))
    assert found_pairs(view, 0.5, HNSW) == pairs_by_the_book(view, 0.5)


def test_a_group_larger_than_the_neighbours_that_are_looked_at(tmp_path):
    """Each image is compared with 32 others only."""
    view = view_of(tmp_path, np.ones((100, 4)))
    ((members, score),) = connected(links(view, 0.9))
    assert sorted(members) == list(range(100))
    assert score == 1


@pytest.mark.parametrize("few", [(), (0,), (1,), (0, 1), (0, 1, 2, 3)])
@pytest.mark.parametrize("threshold", [-1, 0.5, 0.97])
def test_an_image_with_few_features_is_linked_to_its_copies_only(tmp_path, few, threshold):
    """The first two are alike, the last two are copies."""
    view = view_of(tmp_path, np.array([[1, 0.5, 0], [1, -0.5, 0], [0, 0, 1], [0, 0, 1.0]]))
    expected = {(a, b) for a, b in pairs_by_the_book(view, threshold) if (a, b) == (2, 3) or not {a, b} & set(few)}
    assert found_pairs(view, threshold, few=few) == expected


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_images_to_be_similar(tmp_path, count):
    assert found_pairs(view_of(tmp_path, np.ones((count, 4))), -1) == set()


def test_progress(rng, tmp_path, monkeypatch):
    monkeypatch.setattr(duplicates, "_BLOCK", 10)
    calls: list[tuple[str, int, int]] = []
    list(links(view_of(tmp_path, rng.standard_normal((25, 4))), 0.5, calls=lambda *call: calls.append(call)))
    assert calls == [("duplicates", done, 25) for done in (0, 10, 20, 25)]


# Edited images

SCENES = 4


def textured(seed: int, size: tuple[int, int] = (200, 150)) -> np.ndarray:
    """Blobs of three sizes."""
    rng = np.random.default_rng(seed)
    shown = np.zeros(size[::-1])
    for cell in (10, 20, 40):
        coarse = rng.integers(0, 256, (size[1] // cell + 2, size[0] // cell + 2)).astype(np.uint8)
        shown += np.asarray(PIL.Image.fromarray(coarse).resize(size, PIL.Image.Resampling.BICUBIC), float)
    return (shown / 3).astype(np.uint8)


def in_quality(pixels: np.ndarray, quality: int) -> np.ndarray:
    stream = io.BytesIO()
    PIL.Image.fromarray(pixels).save(stream, "JPEG", quality=quality)
    return np.asarray(PIL.Image.open(stream))


def edits(pixels: np.ndarray) -> dict[str, np.ndarray]:
    """The crop has 70 % of the pixels."""
    height, width = (np.array(pixels.shape) * 0.7**0.5).astype(int)
    return {
        "original": pixels,
        "jpeg": in_quality(pixels, 50),
        "crop": pixels[6 : 6 + height, 9 : 9 + width],
        "bright": np.clip(pixels * 1.2 + 10, 0, 255).astype(np.uint8),
    }


@pytest.fixture(scope="module")
def edited(tmp_path_factory) -> Iterator[Collection]:
    """A folder for each scene, with its edits and a copy."""
    folder = tmp_path_factory.mktemp("edited")
    for scene in range(SCENES):
        (folder / "photos" / str(scene)).mkdir(parents=True)
        for name, pixels in edits(textured(scene)).items():
            PIL.Image.fromarray(pixels).save(folder / "photos" / str(scene) / f"{name}.png")
        shutil.copy(folder / "photos" / str(scene) / "original.png", folder / "photos" / str(scene) / "copy.png")
    encoder = Encoder(
        FastFAemb(2, unit_residuals=True),
        projection=Projection(16, unit_after=True),
        whitening=Whitening(),
        pooling="sum",
    )
    model = Model(HessianAffine(max_features=150), encoder)
    with working_here(), Collection.create(folder / "photos.faemb", model) as made:
        made.add(folder / "photos")
        yield made


def test_edits_are_grouped_with_their_original_and_with_nothing_else(edited):
    groups = edited.duplicates()
    scenes = [{path.parent.name for path in group.paths} for group in groups]
    assert sorted(map(sorted, scenes)) == [[str(scene)] for scene in range(SCENES)]
    for group in groups:
        names = [path.stem for path in group.paths]
        assert sorted(names) == ["bright", "copy", "crop", "jpeg", "original"]
        assert group.score >= DEFAULT_THRESHOLD


def test_a_high_threshold_leaves_exact_copies(edited):
    groups = edited.duplicates(1.0)
    assert len(groups) == SCENES
    assert all(sorted(path.stem for path in group.paths) == ["copy", "original"] for group in groups)
    assert {group.score for group in groups} == {1.0}


def test_a_low_threshold_throws_all_together(edited):
    (group,) = edited.duplicates(-1)
    assert len(group.paths) == 5 * SCENES


@pytest.mark.parametrize("kind", ["hnsw", "ivf-pq", "binary"])
def test_every_index_finds_the_same_groups(edited, kind):
    pytest.importorskip("faiss")
    found, expected = (edited.duplicates(index=name) for name in (kind, "exact"))
    assert [set(group.paths) for group in found] == [set(group.paths) for group in expected]


@pytest.mark.parametrize("threshold", [1.5, -2, float("nan")])
def test_a_wrong_threshold_is_refused(edited, threshold):
    with pytest.raises(InputError, match="threshold is"):
        edited.duplicates(threshold)


def test_images_of_the_night(tmp_path):
    """One spot of light each: too few features to link them, except copies."""
    for name, place in {"a": (40, 40), "b": (60, 30), "c": (30, 50)}.items():
        night = np.zeros((90, 120), np.uint8)
        cv2.circle(night, place, 9, 255, -1)
        PIL.Image.fromarray(night).save(tmp_path / f"{name}.png")
    shutil.copy(tmp_path / "a.png", tmp_path / "copy.png")
    with Collection.create(tmp_path / "c", tiny_model()) as collection:
        collection.add(tmp_path)
        assert all(0 < entry.features < 10 for entry in collection.entries())
        groups = collection.duplicates(0.3)
    assert {path.stem for group in groups for path in group.paths} >= {"a", "copy"}
    assert all(group.score >= 0.95 for group in groups)
