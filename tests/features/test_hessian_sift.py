"""SIFT: weights of gradients in orientations and cells, one at a time; length, order, clipping. RootSIFT."""

import math
from collections.abc import Callable
from typing import cast

import numpy as np
import pytest

from faemb.errors import InputError
from faemb.features.hessian_affine.patches import Gradients
from faemb.features.hessian_affine.sift import CELLS, DIMENSION, ORIENTATIONS, root_sift, sift

SIDE = 41


def unit(histogram: np.ndarray) -> np.ndarray:
    length = math.sqrt(sum(value * value for value in histogram))
    return histogram / length if length else histogram


def histogram_by_the_book(gx: np.ndarray, gy: np.ndarray) -> np.ndarray:
    """One gradient at a time, shared between two orientations and up to four cells."""
    side, middle = len(gx), len(gx) // 2
    cell = side / 5
    bins = np.zeros((4, 4, 8))
    for row in range(side):
        for column in range(side):
            down, right = row - middle, column - middle
            if down**2 + right**2 > middle**2:
                continue
            x, y = float(gx[row, column]), float(gy[row, column])
            weight = math.hypot(x, y) * math.exp(-(down**2 + right**2) / (2 * (middle / 1.5) ** 2))
            position = math.atan2(y, x) % (2 * math.pi) / (2 * math.pi) * 8
            first, share = int(position), position - int(position)
            for i in range(4):
                for j in range(4):
                    near_row = max(0.0, 1 - abs(down / cell - (i - 1.5)))
                    near_column = max(0.0, 1 - abs(right / cell - (j - 1.5)))
                    bins[i, j, first % 8] += weight * near_row * near_column * (1 - share)
                    bins[i, j, (first + 1) % 8] += weight * near_row * near_column * share
    return bins.ravel()


def sift_by_the_book(gx: np.ndarray, gy: np.ndarray) -> np.ndarray:
    return unit(np.minimum(unit(histogram_by_the_book(gx, gy)), 0.2))


def ramp(degrees: float, slope: float = 3.0, side: int = SIDE) -> Gradients:
    each = np.ones((1, side, side), np.float32)
    angle = math.radians(degrees)
    return Gradients(np.float32(slope * math.cos(angle)) * each, np.float32(slope * math.sin(angle)) * each)


def noise(rng: np.random.Generator, count: int, side: int = SIDE) -> Gradients:
    return Gradients(*rng.normal(size=(2, count, side, side)).astype(np.float32))


def smooth(rng: np.random.Generator, count: int, side: int = SIDE) -> Gradients:
    """Gradients of patches with a few waves, similar to real ones."""
    k = np.linspace(-1, 1, side)
    patches = np.zeros((count, side, side))
    for patch in patches:
        for u, v, phase in rng.uniform(-4, 4, (6, 3)):
            patch += np.sin(u * k + v * k[:, None] + phase)
    gy, gx = cast(tuple[np.ndarray, np.ndarray], np.gradient(patches, axis=(1, 2)))
    return Gradients(gx.astype(np.float32), gy.astype(np.float32))


@pytest.mark.parametrize("kind", [noise, smooth], ids=["noise", "smooth"])
@pytest.mark.parametrize("side", [9, 15, 20, SIDE])
def test_it_is_that_of_the_book(kind: Callable[..., Gradients], side: int, rng: np.random.Generator) -> None:
    gradients = kind(rng, 4, side)
    expected = [sift_by_the_book(gx, gy) for gx, gy in zip(*gradients, strict=True)]
    np.testing.assert_allclose(sift(gradients), expected, atol=1e-3)


def test_a_single_gradient_is_shared_by_four_cells_and_two_orientations() -> None:
    """10 degrees, at the corner where four cells meet in the middle: 45 degrees are one orientation."""
    x, y = (np.zeros((1, SIDE, SIDE), np.float32) for _ in range(2))
    x[0, 20, 20], y[0, 20, 20] = math.cos(math.radians(10)), math.sin(math.radians(10))
    entries = sift(Gradients(x, y))[0].reshape(CELLS, CELLS, ORIENTATIONS)
    assert np.argwhere(entries).tolist() == [[i, j, o] for i in (1, 2) for j in (1, 2) for o in (0, 1)]
    shares = np.minimum(np.array([35, 10]) / math.hypot(35, 10) / 2, 0.2)
    np.testing.assert_allclose(
        entries[1:3, 1:3, :2], np.tile(shares / np.linalg.norm(shares) / 2, (2, 2, 1)), atol=2e-3
    )


# Order


@pytest.mark.parametrize("orientation", range(8))
def test_a_ramp_fills_one_orientation_of_all_cells(orientation: int) -> None:
    """0 to the right, 2 downwards: angles grow from x to y. Only the corners, outside the disc, have less."""
    entries = sift(ramp(45 * orientation))[0].reshape(16, 8)
    filled = entries[:, orientation]
    np.testing.assert_allclose(np.delete(filled, [0, 3, 12, 15]), 0.267, atol=0.002)
    np.testing.assert_allclose(filled[[0, 3, 12, 15]], 0.19, atol=0.002)
    np.testing.assert_allclose(np.delete(entries, orientation, axis=1), 0, atol=2e-3)


def test_between_two_orientations_both_have_half() -> None:
    entries = sift(ramp(22.5))[0].reshape(16, 8)
    np.testing.assert_allclose(entries[:, 0], entries[:, 1], rtol=0.02)


@pytest.mark.parametrize("row", range(4))
@pytest.mark.parametrize("column", range(4))
def test_cells_are_in_order_of_rows_and_then_columns(row: int, column: int) -> None:
    """A gradient at the centre of a cell belongs to it alone, nearly: centres are not on whole pixels."""
    x, y = (np.zeros((1, SIDE, SIDE), np.float32) for _ in range(2))
    place = [20 + round((i - 1.5) * SIDE / 5) for i in (row, column)]
    x[0, place[0], place[1]] = 1
    entries = sift(Gradients(x, y))[0].reshape(4, 4, 8)
    assert np.unravel_index(entries.argmax(), entries.shape) == (row, column, 0)


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_turned_patch_has_turned_cells_and_orientations(quarters: int, rng: np.random.Generator) -> None:
    """np.rot90 turns a patch, and the gradients in it, by -90 degrees as y goes down."""
    gradients = smooth(rng, 5)
    x, y = (np.rot90(part, quarters, axes=(1, 2)) for part in gradients)
    for _ in range(quarters):
        x, y = y, -x
    before = sift(gradients).reshape(-1, 4, 4, 8)
    after = sift(Gradients(np.ascontiguousarray(x), np.ascontiguousarray(y))).reshape(-1, 4, 4, 8)
    expected = np.roll(np.rot90(before, quarters, axes=(1, 2)), -2 * quarters, axis=3)
    np.testing.assert_allclose(after, expected, atol=2e-3)


# Length and clipping


@pytest.mark.parametrize("kind", [noise, smooth], ids=["noise", "smooth"])
def test_descriptors_have_unit_length_and_no_negative_entry(
    kind: Callable[..., Gradients], rng: np.random.Generator
) -> None:
    descriptors = sift(kind(rng, 100))
    assert (descriptors.shape, descriptors.dtype) == ((100, DIMENSION), np.dtype(np.float32))
    assert descriptors.flags.c_contiguous
    np.testing.assert_allclose(np.linalg.norm(descriptors, axis=1), 1, rtol=1e-6)
    assert descriptors.min() >= 0


@pytest.mark.parametrize("factor", [1e-6, 1e-2, 7.0, 1e6])
def test_contrast_changes_nothing(factor: float, rng: np.random.Generator) -> None:
    gradients = smooth(rng, 5)
    scaled = Gradients(*(part * np.float32(factor) for part in gradients))
    np.testing.assert_allclose(sift(scaled), sift(gradients), atol=1e-3)


def test_large_entries_are_cut_at_a_fifth_before_the_last_scaling(rng: np.random.Generator) -> None:
    """So the largest are all equal, and one strong edge does not drown the rest."""
    gradients = smooth(rng, 1)
    gradients.x[0, 18:23] += 5
    plain = unit(histogram_by_the_book(gradients.x[0], gradients.y[0]))
    assert (plain > 0.2).sum() >= 2
    descriptor = sift(gradients)[0]
    cut = descriptor[plain > 0.201]
    np.testing.assert_allclose(cut, cut[0], rtol=1e-6)
    assert cut[0] == pytest.approx(0.2 / np.linalg.norm(np.minimum(plain, 0.2)), rel=1e-3)
    kept = plain < 0.199
    np.testing.assert_allclose(descriptor[kept], plain[kept] * (cut[0] / 0.2), atol=1e-3)


def test_a_flat_patch_is_all_zeros() -> None:
    flat = np.zeros((1, SIDE, SIDE), np.float32)
    x, y = (np.concatenate([flat, a, flat]) for a in ramp(30))
    descriptors = sift(Gradients(x, y))
    assert np.linalg.norm(descriptors, axis=1).tolist() == pytest.approx([0, 1, 0])
    np.testing.assert_array_equal(root_sift(descriptors)[[0, 2]], 0)


def test_gradients_outside_the_disc_do_not_count(rng: np.random.Generator) -> None:
    gradients = smooth(rng, 2)
    k = np.arange(SIDE) - SIDE // 2
    outside = k[:, None] ** 2 + k**2 > (SIDE // 2) ** 2
    other = Gradients(*(np.where(outside, np.float32(1e3), part) for part in gradients))
    np.testing.assert_array_equal(sift(other), sift(gradients))


def test_descriptors_do_not_depend_on_each_other_or_on_their_number(rng: np.random.Generator) -> None:
    """More than two blocks of 32, and each alone."""
    gradients = smooth(rng, 70)
    together = sift(gradients)
    alone = [sift(Gradients(gradients.x[i : i + 1], gradients.y[i : i + 1]))[0] for i in range(70)]
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_no_patches_have_no_descriptors() -> None:
    none = np.zeros((0, SIDE, SIDE), np.float32)
    assert sift(Gradients(none, none)).shape == (0, 128)


def test_gradients_are_not_changed_and_the_same_twice(rng: np.random.Generator) -> None:
    """Cached tables must not be changed by the first call."""
    gradients = noise(rng, 5)
    before = [part.copy() for part in gradients]
    first = sift(gradients)
    np.testing.assert_array_equal(sift(gradients), first)
    np.testing.assert_array_equal(gradients, before)


def test_root_sift_of_it_compares_histograms(rng: np.random.Generator) -> None:
    """Products of roots are Bhattacharyya coefficients of the histograms as distributions."""
    descriptors = sift(smooth(rng, 6))
    roots = root_sift(descriptors)
    np.testing.assert_allclose(np.linalg.norm(roots, axis=1), 1, rtol=1e-5)
    shares = descriptors / descriptors.sum(axis=1, keepdims=True)
    expected = [[sum(math.sqrt(p * q) for p, q in zip(a, b, strict=True)) for b in shares] for a in shares]
    np.testing.assert_allclose(roots @ roots.T, expected, atol=1e-5)


# RootSIFT


def root_by_the_book(row: list[float]) -> list[float]:
    total = sum(row)
    return [math.sqrt(value / total) if total else 0.0 for value in row]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_root_sift_is_the_formula(rng: np.random.Generator, dtype: type[np.floating]) -> None:
    rows = rng.integers(0, 256, (20, 128)).astype(dtype)
    result = root_sift(rows)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, [root_by_the_book(row) for row in rows.tolist()], rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(result, axis=1), 1, rtol=1e-6)


def test_rows_of_zeros_stay_so_and_the_input_is_unchanged() -> None:
    rows = np.array([[0, 0], [9, 16]], np.float32)
    np.testing.assert_allclose(root_sift(rows), [[0.0, 0.0], [0.6, 0.8]])
    assert rows.tolist() == [[0, 0], [9, 16]]
    assert root_sift(np.zeros((0, 128), np.float32)).shape == (0, 128)


@pytest.mark.parametrize("value", [-1, np.nan, np.inf])
def test_what_is_no_histogram_is_explained(value: float) -> None:
    with pytest.raises(InputError, match="1 values that are negative, NaN or infinite"):
        root_sift(np.array([[1, value]], np.float32))
