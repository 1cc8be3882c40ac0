"""Plane transforms, many at a time, beside one at a time."""

import numpy as np
import pytest

from faemb.rerank.transforms import apply, apply_affine, local_affine


def affine_maps(rng: np.random.Generator, count: int) -> np.ndarray:
    maps = np.zeros((count, 3, 3))
    maps[:, :2] = rng.normal(0, 1, (count, 2, 3))
    maps[:, 2, 2] = 1
    return maps


def test_affine_transforms_are_applied_as_any_others_are(rng):
    maps, points = affine_maps(rng, 7), rng.normal(0, 0.5, (11, 2))
    (mapped, scale), (expected, scales) = apply_affine(maps, points), apply(maps, points)
    np.testing.assert_allclose(mapped, expected, atol=1e-12)
    np.testing.assert_allclose(np.broadcast_to(scale, scales.shape), scales)


def test_points_under_each_transform_by_the_book(rng):
    maps, points = affine_maps(rng, 3), rng.normal(0, 0.5, (5, 2))
    maps[:, 2, :2] = rng.normal(0, 0.3, (3, 2))
    mapped, _ = apply(maps, points)
    for h, transform in enumerate(maps):
        for m, (x, y) in enumerate(points):
            across, down, depth = transform @ (x, y, 1)
            expected = (across / depth, down / depth) if depth > 0.1 else (np.nan, np.nan)
            np.testing.assert_allclose(mapped[h, :, m], expected)


@pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 1e30])
def test_the_map_of_a_match_takes_region_to_region(rng, size):
    """Shapes may be as small and large as float32 allows."""
    x, y = rng.normal(0, 1, (2, 6, 2))
    shape_x, shape_y = rng.normal(0, 1, (2, 6, 2, 2)) * size
    maps = local_affine(x, y, shape_x, shape_y)
    for m in range(6):
        np.testing.assert_allclose(maps[m, :2, :2] @ shape_x[m], shape_y[m], atol=1e-9 * size)
        np.testing.assert_allclose(maps[m] @ (*x[m], 1), (*y[m], 1), atol=1e-9)
