"""Local features as data: what they are made of, selection by rows and by a box."""

import dataclasses

import numpy as np
import pytest

from faemb.errors import InputError
from faemb.features.local_features import Grids, LocalFeatures, frames_from


def make(count: int = 30, size: tuple[int, int] = (100, 80), dimension: int = 8) -> LocalFeatures:
    rng = np.random.default_rng(7)
    frames = rng.normal(size=(count, 6)).astype(np.float32)
    frames[:, :2] = rng.uniform(0, np.array(size or (100, 80)) - 1, (count, 2))
    descriptors = rng.normal(size=(count, dimension)).astype(np.float32)
    return LocalFeatures(descriptors, frames, -np.sort(-rng.uniform(size=count).astype(np.float32)), size, "abc")


def at(*places: tuple[float, float], size: tuple[int, int] = (100, 80)) -> LocalFeatures:
    frames = np.array([(x, y, 1, 0, 0, 1) for x, y in places], np.float32).reshape(-1, 6)
    count = len(frames)
    return LocalFeatures(np.arange(count, dtype=np.float32)[:, None], frames, np.ones(count, np.float32), size)


def rows_of(features: LocalFeatures) -> list[int]:
    """Indices of the features kept: the descriptors of `at` are their numbers."""
    return features.descriptors[:, 0].astype(int).tolist()


# What they are made of


def test_a_frame_is_a_centre_and_a_matrix_by_rows() -> None:
    frames = np.array([[10, 20, 1, 2, 3, 4]], np.float32)
    features = LocalFeatures(np.zeros((1, 3), np.float32), frames, np.ones(1, np.float32), (50, 50))
    assert len(features) == 1
    assert features.centres.tolist() == [[10, 20]]
    assert features.shapes.tolist() == [[[1, 2], [3, 4]]]


def test_features_print_as_one_line() -> None:
    features = make(1000, dimension=128)
    assert repr(features) == "LocalFeatures(1000 of 128 dimensions, image of 100 x 80 pixels)"
    unknown = dataclasses.replace(features.select(slice(0)), image_size=(0, 0))
    assert repr(unknown) == "LocalFeatures(0 of 128 dimensions, image of unknown size)"
    grids = Grids(np.array([[4, 5], [2, 3]], np.int32), np.zeros((1000, 3), np.int32))
    assert repr(dataclasses.replace(features, grids=grids)).endswith(
        "pixels, Grids(1000 cells of maps of 4 x 5, 2 x 3))"
    )


@pytest.mark.parametrize("count", [0, 1, 17])
def test_frames_are_put_together_and_taken_apart(count: int, rng: np.random.Generator) -> None:
    centres, shapes = rng.normal(size=(count, 2)), rng.normal(size=(count, 2, 2))
    frames = frames_from(centres, shapes)
    assert (frames.shape, frames.dtype) == ((count, 6), np.dtype(np.float32))
    assert frames.flags.c_contiguous
    features = LocalFeatures(np.zeros((count, 4), np.float32), frames, np.zeros(count, np.float32), (9, 9))
    np.testing.assert_array_equal(features.centres, centres.astype(np.float32))
    np.testing.assert_array_equal(features.shapes, shapes.astype(np.float32))


@pytest.mark.parametrize("dimension", [1, 128])
def test_none_is_a_set_like_any_other(dimension: int) -> None:
    none = LocalFeatures.none(dimension, (30, 40))
    assert len(none) == 0
    assert (none.descriptors.shape, none.frames.shape, none.scores.shape) == ((0, dimension), (0, 6), (0,))
    assert (none.centres.shape, none.shapes.shape) == ((0, 2), (0, 2, 2))
    assert {array.dtype for array in (none.descriptors, none.frames, none.scores)} == {np.dtype(np.float32)}
    assert none.image_size == (30, 40)
    assert none.fingerprint == ""
    assert len(none.inside((1, 1, 9, 9))) == 0
    assert len(none.select(slice(5))) == 0


def test_features_are_not_changed_in_place() -> None:
    features = make()
    with pytest.raises(dataclasses.FrozenInstanceError):
        features.image_size = (1, 1)  # type: ignore[misc]


def test_features_are_compared_by_identity() -> None:
    """Comparing arrays gives no single truth value."""
    features = make()
    assert features in [features]
    assert features != make()


# Selection


@pytest.mark.parametrize(
    "rows",
    [
        slice(5),
        slice(None),
        slice(2, 20, 3),
        slice(100),
        np.array([3, 3, 0]),
        np.arange(30) % 2 == 0,
        np.zeros(30, bool),
        np.array([], int),
    ],
    ids=["first", "all", "some", "more than all", "repeated", "mask", "none by mask", "none"],
)
def test_selection_keeps_rows_together(rows: np.ndarray | slice) -> None:
    features = make()
    chosen = features.select(rows)
    for name in ("descriptors", "frames", "scores"):
        np.testing.assert_array_equal(getattr(chosen, name), getattr(features, name)[rows])
    assert (chosen.image_size, chosen.fingerprint) == (features.image_size, features.fingerprint)
    assert len(chosen) == len(chosen.descriptors)


def test_selection_leaves_the_original() -> None:
    features = make()
    before = features.frames.copy()
    features.select(np.array([1, 2]))
    features.inside((0, 0, 50, 50))
    np.testing.assert_array_equal(features.frames, before)
    assert len(features) == 30


# A box


def test_a_box_keeps_what_lies_in_it() -> None:
    features = make(200)
    x1, y1, x2, y2 = 20.0, 10.0, 60.0, 70.0
    kept = features.inside((x1, y1, x2, y2))
    expected = [k for k, (x, y) in enumerate(features.centres.tolist()) if x1 <= x <= x2 and y1 <= y <= y2]
    assert 20 < len(expected) < 180
    np.testing.assert_array_equal(kept.frames, features.frames[expected])
    np.testing.assert_array_equal(kept.descriptors, features.descriptors[expected])
    assert (kept.image_size, kept.fingerprint) == ((100, 80), "abc")


def test_corners_and_sides_belong_to_the_box() -> None:
    features = at((10, 20), (30, 40), (10, 40), (30, 20), (20, 20), (9.99, 30), (30.01, 30), (20, 19.99), (20, 40.01))
    assert rows_of(features.inside((10, 20, 30, 40))) == [0, 1, 2, 3, 4]


def test_only_centres_count() -> None:
    """A large region whose centre lies outside is outside."""
    frames = np.array([[50, 50, 40, 0, 0, 40]], np.float32)
    features = LocalFeatures(np.zeros((1, 2), np.float32), frames, np.ones(1, np.float32), (100, 100))
    assert len(features.inside((0, 0, 49, 49))) == 0
    assert len(features.inside((49, 49, 51, 51))) == 1


@pytest.mark.parametrize("size", [(100, 80), (0, 0)], ids=["known size", "unknown size"])
def test_a_box_larger_than_the_image_keeps_all(size: tuple[int, int]) -> None:
    features = at((0, 0), (99, 79), (50, 40), size=size)
    assert rows_of(features.inside((-10, -10, 1000, 1000))) == [0, 1, 2]


def test_of_an_image_of_unknown_size_the_box_is_taken_as_it_is() -> None:
    """Another tool may put the centre of its first pixel elsewhere, and a feature a little outside."""
    features = at((-0.4, 5), (5, -0.3), (-20, 5), size=(0, 0))
    assert rows_of(features.inside((-10, -10, 50, 50))) == [0, 1]


def test_a_box_may_hold_no_feature() -> None:
    none = at((10, 10)).inside((20, 20, 30, 30))
    assert (len(none), none.descriptors.shape) == (0, (0, 1))


@pytest.mark.parametrize(
    ("box", "fault"),
    [
        ((200, 0, 300, 50), "lies outside the image, which is 100 x 80 pixels"),
        ((30, 30, 20, 40), "is empty"),
        ((1, 2, 3), "expected four finite numbers"),
    ],
)
def test_a_box_that_cannot_be_is_explained(box: tuple, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        make().inside(box)


def test_of_an_image_of_unknown_size_no_box_lies_outside() -> None:
    features = at((5000, 4000), (1, 1), size=(0, 0))
    assert rows_of(features.inside((4000, 3000, 6000, 5000))) == [0]


def test_descriptors_without_geometry_have_no_box() -> None:
    frames = np.full((3, 6), np.nan, np.float32)
    features = LocalFeatures(np.zeros((3, 2), np.float32), frames, np.ones(3, np.float32), (0, 0))
    with pytest.raises(InputError, match="descriptors without geometry, which a box cannot select"):
        features.inside((0, 0, 10, 10))
    assert len(features.select(slice(2))) == 2


def test_boxes_within_boxes_are_their_intersection() -> None:
    features = make(200)
    twice = features.inside((10, 10, 60, 60)).inside((40, 30, 90, 70))
    np.testing.assert_array_equal(twice.frames, features.inside((40, 30, 60, 60)).frames)
