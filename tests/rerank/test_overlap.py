"""The region that two images share: cut at their borders and at the horizon, in the pixels of both."""

import numpy as np
import pytest

from faemb.rerank import area, mapped, overlap

WHOLE = np.eye(3)


def moved(x: float, y: float, scale: float = 1.0) -> np.ndarray:
    return np.array([[scale, 0, x], [0, scale, y], [0, 0, 1.0]])


def box(polygon: np.ndarray) -> list[float]:
    """Left, top, right and bottom."""
    return [*polygon.min(0), *polygon.max(0)]


def test_equal_images_share_everything():
    for region in overlap(WHOLE, (101, 51), (101, 51)):
        np.testing.assert_allclose(box(region), [0, 0, 100, 50], atol=1e-9)
        assert area(region) == pytest.approx(5000)


def test_a_part_lies_inside_the_whole():
    """The second image shows the first from (20, 10) on, twice as large."""
    whole, part = overlap(moved(-40, -20, 2), (101, 51), (61, 41))
    np.testing.assert_allclose(box(whole), [20, 10, 50, 30], atol=1e-9)
    np.testing.assert_allclose(box(part), [0, 0, 60, 40], atol=1e-9)


def test_images_beside_each_other_share_nothing():
    for region in overlap(moved(500, 0), (101, 51), (101, 51)):
        assert region.shape == (0, 2)
        assert area(region) == 0


def test_a_turned_image_gives_a_polygon_of_more_corners():
    angle = np.pi / 4
    turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    whole, part = overlap(moved(50, 50) @ turn @ moved(-50, -50), (101, 101), (101, 101))
    assert len(whole) == len(part) == 8
    np.testing.assert_allclose(area(whole), area(part))
    np.testing.assert_allclose(area(whole), 100**2 * 2 * (np.sqrt(2) - 1))  # a regular octagon


def test_every_corner_of_a_perspective_overlap_is_in_both_images(rng):
    for _ in range(200):
        transform = np.eye(3) + rng.normal(0, 1, (3, 3)) * [[0.3, 0.3, 30], [0.3, 0.3, 30], [2e-3, 2e-3, 0]]
        first, second = overlap(transform, (200, 150), (120, 300))
        for region, size in ((first, (200, 150)), (second, (120, 300))):
            assert (region >= -1e-6).all()
            assert (region <= np.array(size) - 1 + 1e-6).all()
        np.testing.assert_allclose(mapped(transform, first), second)


def test_beyond_the_horizon_nothing_is_shared():
    """Depth 1 in the middle of the first image, 0 at x = 75, negative from there on."""
    transform = np.array([[1, 0, 0], [0, 1, 0], [-0.04, 0, 3.0]])
    first, _ = overlap(transform, (101, 101), (10**6, 10**6))
    assert first[:, 0].max() == pytest.approx(75, abs=0.1)


@pytest.mark.parametrize("transform", [np.zeros((3, 3)), -np.eye(3)], ids=["nothing", "negated"])
def test_odd_transforms(transform):
    first, second = overlap(transform, (11, 11), (11, 11))
    assert len(first) == len(second)
    if transform.any():  # the same transform as the identity
        np.testing.assert_allclose(box(first), [0, 0, 10, 10])
