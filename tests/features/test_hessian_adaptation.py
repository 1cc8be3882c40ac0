"""Affine adaptation: second moments of gradients, their inverse square root, and the shape with isotropic gradients."""

import math

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from faemb.features.hessian_affine.adaptation import (
    MAX_ANISOTROPY,
    WINDOW,
    adapted,
    anisotropy,
    inverse_root,
    second_moments,
)
from faemb.features.hessian_affine.detector import upright

# Second moments


def moments_by_the_book(window: np.ndarray) -> list[float]:
    """One pixel at a time: differences across it, a Gaussian of a quarter of the side, cut to a disc."""
    side, middle = len(window), len(window) // 2
    xx = xy = yy = 0.0
    for row in range(1, side - 1):
        for column in range(1, side - 1):
            squared = (row - middle) ** 2 + (column - middle) ** 2
            if squared > middle**2:
                continue
            weight = math.exp(-squared / (2 * (side / 4) ** 2))
            gx = float(window[row, column + 1]) - float(window[row, column - 1])
            gy = float(window[row + 1, column]) - float(window[row - 1, column])
            xx, xy, yy = xx + weight * gx * gx, xy + weight * gx * gy, yy + weight * gy * gy
    return [xx, xy, yy]


@pytest.mark.parametrize("side", [5, 11, WINDOW])
def test_second_moments_are_those_of_the_book(side: int, rng: np.random.Generator) -> None:
    windows = rng.uniform(0, 255, (6, side, side)).astype(np.float32)
    expected = np.array([moments_by_the_book(window) for window in windows])
    np.testing.assert_allclose(second_moments(windows), expected, rtol=1e-4, atol=1e-4 * expected.max())


@pytest.mark.parametrize("angle", range(0, 180, 20))
def test_the_moments_of_a_ramp_lie_along_it(angle: float) -> None:
    k = np.arange(WINDOW, dtype=np.float32) - WINDOW // 2
    direction = np.array([math.cos(math.radians(angle)), math.sin(math.radians(angle))])
    window = (direction[0] * k + direction[1] * k[:, None]).astype(np.float32)
    xx, xy, yy = second_moments(window[None])[0]
    expected = np.outer(direction, direction) * (xx + yy)
    np.testing.assert_allclose([[xx, xy], [xy, yy]], expected, atol=1e-3 * (xx + yy))


def test_a_flat_window_has_no_moments_and_no_windows_none() -> None:
    assert second_moments(np.full((2, WINDOW, WINDOW), 200, np.float32)).tolist() == [[0, 0, 0]] * 2
    assert second_moments(np.zeros((0, WINDOW, WINDOW), np.float32)).shape == (0, 3)


# Inverse root


def random_moments(rng: np.random.Generator, count: int) -> np.ndarray:
    roots = rng.normal(size=(count, 2, 2)) * rng.uniform(0.01, 1000, (count, 1, 1))
    squares = roots @ roots.transpose(0, 2, 1)
    return np.stack([squares[:, 0, 0], squares[:, 0, 1], squares[:, 1, 1]], axis=1)


def test_the_inverse_root_is_that_of_scipy(rng: np.random.Generator) -> None:
    moments = random_moments(rng, 100)
    stretch, roundness = inverse_root(moments)
    for (a, b, c), result, ratio in zip(moments, stretch, roundness, strict=True):
        expected = scipy.linalg.inv(scipy.linalg.sqrtm(np.array([[a, b], [b, c]])))
        np.testing.assert_allclose(result, expected / math.sqrt(np.linalg.det(expected)), rtol=1e-5, atol=1e-8)
        least, greatest = np.linalg.eigvalsh([[a, b], [b, c]])
        assert ratio == pytest.approx(math.sqrt(least / greatest), rel=1e-5)


def test_it_makes_the_moments_round(rng: np.random.Generator) -> None:
    moments = random_moments(rng, 100)
    stretch, _ = inverse_root(moments)
    for (a, b, c), each in zip(moments, stretch, strict=True):
        after = each @ [[a, b], [b, c]] @ each
        np.testing.assert_allclose(after / math.sqrt(a * c - b * b), np.eye(2), atol=1e-4)


@given(least=st.floats(0, 1), greatest=st.floats(1e-3, 1e9), angle=st.floats(0, math.pi, allow_nan=False))
def test_it_is_finite_symmetric_and_keeps_area_for_any_moments(least: float, greatest: float, angle: float) -> None:
    """Also for moments of one direction only."""
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    (a, b), (_, c) = turn @ np.diag([greatest, least * greatest]) @ turn.T
    stretch, roundness = inverse_root(np.array([[a, b, c]]))
    assert np.isfinite(stretch).all()
    assert stretch[0, 0, 1] == stretch[0, 1, 0]
    assert 0 < roundness[0] <= 1
    if least > 1e-9:
        assert np.linalg.det(stretch[0]) == pytest.approx(1, rel=1e-3)


def test_round_moments_are_left_as_they_are() -> None:
    stretch, roundness = inverse_root(np.array([[7.0, 0.0, 7.0]]))
    np.testing.assert_allclose(stretch, [np.eye(2)], atol=1e-12)
    np.testing.assert_allclose(roundness, 1)


# Anisotropy


def test_anisotropy_is_the_ratio_of_singular_values(rng: np.random.Generator) -> None:
    shapes = rng.normal(size=(200, 2, 2)) * rng.uniform(0.1, 50, (200, 1, 1))
    longest, shortest = np.linalg.svd(shapes, compute_uv=False).T
    np.testing.assert_allclose(anisotropy(shapes), longest / shortest, rtol=1e-5)


@pytest.mark.parametrize("size", [1e-3, 1.0, 300.0])
def test_anisotropy_of_round_flat_and_mirrored_shapes(size: float) -> None:
    shapes = size * np.array([np.eye(2), np.diag([1, -1]), [[0, 2], [1, 0]], [[1, 1], [1, 1]]], float)
    result = anisotropy(shapes)
    np.testing.assert_allclose(result[:3], [1, 1, 2], rtol=1e-6)
    assert result[3] > 1e6  # a line: no warning, and no shape to keep


# Adaptation


def gaussian(side: int, covariance: np.ndarray, centre: tuple[float, float] | None = None) -> np.ndarray:
    """exp(-d' S^-1 d / 2) over a square, 200 high; by default around its middle."""
    x, y = centre or (side // 2, side // 2)
    offsets = np.stack(np.broadcast_arrays(np.arange(side) - x, np.arange(side)[:, None] - y), axis=-1)
    squared = np.einsum("...i,ij,...j", offsets, np.linalg.inv(covariance), offsets)
    return (200 * np.exp(-squared / 2)).astype(np.float32)


def covariance(ratio: float, angle: float, deviation: float) -> np.ndarray:
    """With the longer axis `ratio` times the other, and so turned; `deviation` is their geometric mean."""
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    return deviation**2 * turn @ np.diag([ratio, 1 / ratio]) @ turn.T


def adapt(
    levels: list[np.ndarray],
    centres: list[tuple[float, float]],
    *,
    which: list[int] | None = None,
    steps: float | list[float] = 1.0,
    iterations: int = 16,
    convergence: float = 0.05,
) -> tuple[np.ndarray, np.ndarray]:
    count = len(centres)
    return adapted(
        levels,
        np.array(which if which is not None else [0] * count, np.int64),
        np.array(centres, float).reshape(-1, 2),
        np.broadcast_to(np.array(steps, float), count),
        iterations=iterations,
        convergence=convergence,
    )


@pytest.mark.parametrize("ratio", [1.0, 1.5, 2.5, 3.2])
@pytest.mark.parametrize("angle", [0.0, 0.5, math.pi / 4, 2.0])
@pytest.mark.parametrize(("convergence", "tolerance"), [(0.05, 0.06), (0.005, 0.01)])
def test_a_gaussian_gets_the_shape_of_its_covariance(
    ratio: float, angle: float, convergence: float, tolerance: float
) -> None:
    """exp(-x' S^-1 x / 2) is round in the coordinates x = L u, where L L' = S: upright, the Cholesky factor."""
    spread = covariance(ratio, angle, 5.0)
    shapes, converged = adapt([gaussian(121, spread)], [(60, 60)], convergence=convergence, iterations=60)
    assert converged.all()
    assert np.linalg.det(shapes[0]) == pytest.approx(1, rel=1e-3)
    factor = np.linalg.cholesky(spread)
    expected = factor / math.sqrt(np.linalg.det(factor))
    np.testing.assert_allclose(upright(shapes)[0], expected, atol=tolerance * ratio)


def test_the_shape_does_not_depend_on_contrast_or_brightness() -> None:
    image = gaussian(81, covariance(2.0, 0.7, 4.0))
    shapes, _ = adapt([image, 0.25 * image, 255 - image, image + 50], [(40, 40)] * 4, which=[0, 1, 2, 3])
    np.testing.assert_allclose(shapes, np.broadcast_to(shapes[0], (4, 2, 2)), atol=1e-3)


def test_the_shape_does_not_depend_on_the_scale_of_both() -> None:
    """A level of twice the blob, sampled at twice the step, shows the same window."""
    small, large = (gaussian(201, covariance(2.0, 0.7, deviation)) for deviation in (4.0, 8.0))
    shapes, converged = adapt([small, large], [(100, 100)] * 2, which=[0, 1], steps=[1.0, 2.0])
    assert converged.all()
    np.testing.assert_allclose(shapes[0], shapes[1], atol=0.02)


@pytest.mark.parametrize("level", [0.0, 128.0, 255.0])
def test_a_flat_window_does_not_converge_and_stays_round(level: float) -> None:
    shapes, converged = adapt([np.full((50, 60), level, np.float32)], [(25, 25), (0, 0), (59, 49), (-30, 200)])
    assert not converged.any()
    np.testing.assert_array_equal(shapes, np.tile(np.eye(2), (4, 1, 1)))


@pytest.mark.parametrize("angle", [0.0, 0.4, math.pi / 4])
def test_a_window_of_one_direction_does_not_converge(angle: float) -> None:
    """An edge can be stretched along itself without limit."""
    y, x = np.mgrid[-40:41, -40:41]
    side = x * math.cos(angle) + y * math.sin(angle)
    image = (255 / (1 + np.exp(-side / 2))).astype(np.float32)
    shapes, converged = adapt([image], [(40, 40)])
    assert not converged.any()
    assert np.isfinite(shapes).all()


def test_what_is_longer_than_the_limit_is_not_usable() -> None:
    """Nor are shapes near the limit: the first measurement, in a round window, overestimates their length."""
    ratios = [3.2, MAX_ANISOTROPY + 2]
    levels = [gaussian(161, covariance(ratio, 0.3, 5.0)) for ratio in ratios]
    _, converged = adapt(levels, [(80, 80)] * 2, which=[0, 1], iterations=60)
    assert converged.tolist() == [True, False]


def test_two_round_measurements_are_needed() -> None:
    """So one iteration is never enough, and a round blob needs only two."""
    image = gaussian(61, covariance(1.0, 0.0, 4.0))
    assert [adapt([image], [(30, 30)], iterations=n)[1].tolist() for n in (1, 2)] == [[False], [True]]


@pytest.fixture
def levels(rng: np.random.Generator) -> list[np.ndarray]:
    """Three levels of different sizes, full of turned blobs, light and dark."""
    images = []
    for side in (90, 60, 40):
        blobs = [
            rng.choice([-0.5, 0.5]) * gaussian(side, covariance(ratio, angle, deviation), (x, y))
            for ratio, angle, deviation, x, y in rng.uniform([1, 0, 2, 0, 0], [3, 3, 5, side, side], (20, 5))
        ]
        images.append(np.asarray(np.sum(blobs, axis=0, dtype=np.float32)))
    return images


def random_features(rng: np.random.Generator, count: int) -> tuple[list[int], list[tuple[float, float]], list[float]]:
    which = rng.integers(0, 3, count)
    centres = rng.uniform(0, np.array([90, 60, 40])[which][:, None], (count, 2))
    return which.tolist(), [tuple(each) for each in centres], rng.uniform(0.8, 1.6, count).tolist()


def test_features_do_not_depend_on_each_other_or_their_order(
    levels: list[np.ndarray], rng: np.random.Generator
) -> None:
    which, centres, steps = random_features(rng, 60)
    shapes, converged = adapt(levels, centres, which=which, steps=steps)
    assert 10 < converged.sum() < 60
    same = []
    for i in range(60):
        shape, alone = adapt(levels, centres[i : i + 1], which=which[i : i + 1], steps=steps[i : i + 1])
        assert alone[0] == converged[i]
        if alone[0]:
            same.append(np.allclose(shape[0], shapes[i], atol=1e-3))
    assert same.count(False) <= 1  # rounding depends on their number, and may decide which step is the last


def test_many_features_are_adapted_in_blocks_all_the_same(levels: list[np.ndarray], rng: np.random.Generator) -> None:
    """More than a block of 2048, in no order: the same 60 again and again."""
    which, centres, steps = random_features(rng, 60)
    once = adapt(levels, centres, which=which, steps=steps)
    often = adapt(levels, centres * 40, which=which * 40, steps=steps * 40)
    np.testing.assert_array_equal(often[1], np.tile(once[1], 40))
    good = often[1]
    np.testing.assert_allclose(often[0][good], np.tile(once[0], (40, 1, 1))[good], atol=1e-3)


def test_shapes_keep_area_and_stay_within_the_limit(levels: list[np.ndarray], rng: np.random.Generator) -> None:
    which, centres, steps = random_features(rng, 300)
    shapes, converged = adapt(levels, centres, which=which, steps=steps)
    assert np.isfinite(shapes).all()
    np.testing.assert_allclose(np.linalg.det(shapes[converged]), 1, rtol=1e-3)
    assert anisotropy(shapes[converged]).max() <= MAX_ANISOTROPY


def test_no_features_give_none(levels: list[np.ndarray]) -> None:
    shapes, converged = adapt(levels, [])
    assert (shapes.shape, converged.shape) == ((0, 2, 2), (0,))


def test_levels_and_input_are_not_changed(levels: list[np.ndarray], rng: np.random.Generator) -> None:
    which, centres, steps = (np.array(part) for part in random_features(rng, 20))
    given_levels, given_input = [level.copy() for level in levels], (which.copy(), centres.copy(), steps.copy())
    adapted(levels, which, centres, steps, iterations=4, convergence=0.05)
    for level, before in zip([*levels, which, centres, steps], [*given_levels, *given_input], strict=True):
        np.testing.assert_array_equal(level, before)
