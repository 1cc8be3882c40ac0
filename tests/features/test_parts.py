"""Overlapping parts of an image."""

import numpy as np
import pytest

from faemb.features import LocalFeatures
from faemb.features.local_features import without_geometry
from faemb.features.parts import MOST_PER_SIDE, parts_of


def at(centres: np.ndarray, size: tuple[int, int]) -> LocalFeatures:
    """Features whose descriptors are their numbers."""
    frames = np.concatenate([centres, np.tile([1, 0, 0, 1], (len(centres), 1))], axis=1).astype(np.float32)
    numbers = np.arange(len(centres), dtype=np.float32)
    return LocalFeatures(numbers[:, None], frames, numbers, size)


def held(part: LocalFeatures) -> set[int]:
    return set(part.descriptors[:, 0].astype(int).tolist())


def test_rows_of_parts_from_the_left_to_the_right():
    corners = np.array([[10.0, 5], [190, 5], [10, 95], [190, 95]])
    assert [held(part) for part in parts_of(at(corners, (200, 100)), 2)] == [{0}, {1}, {2}, {3}]


def test_what_lies_where_parts_overlap_is_in_all_of_them():
    assert [held(part) for part in parts_of(at(np.array([[100.0, 50]]), (200, 100)), 2)] == [{0}] * 4


@pytest.mark.parametrize("per_side", range(2, MOST_PER_SIDE + 1))
def test_every_feature_is_in_a_part_and_no_part_has_all(rng, per_side):
    features = at(rng.uniform(0, 1, (500, 2)) * [320, 240], (320, 240))
    parts = [held(part) for part in parts_of(features, per_side)]
    assert len(parts) == per_side**2
    assert set.union(*parts) == set(range(500))
    assert max(map(len, parts)) < 2.5 * 500 / per_side**2


def test_no_parts_if_none_are_wanted():
    assert parts_of(at(np.zeros((3, 2)), (10, 10)), 0) == []


def test_of_an_image_of_unknown_size_the_features_tell_the_extent():
    corners = np.array([[0.0, 0], [80, 0], [0, 40], [80, 40]])
    assert [held(part) for part in parts_of(at(corners, (0, 0)), 2)] == [{0}, {1}, {2}, {3}]


def test_features_without_geometry_lie_in_no_part():
    features = LocalFeatures(np.ones((4, 3), np.float32), without_geometry(4), np.ones(4, np.float32), (0, 0))
    assert [len(part) for part in parts_of(features, 2)] == [0, 0, 0, 0]
