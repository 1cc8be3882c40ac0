"""Dominant orientations: peaks of a smoothed histogram of gradient angles."""

import math

import numpy as np
import pytest

from faemb.features.hessian_affine.orientation import BINS, PEAK, orientation_histograms, orientations
from faemb.features.hessian_affine.patches import Gradients

SIDE = 41
FULL = 2 * math.pi


def of(patch: np.ndarray) -> Gradients:
    """Central differences of one patch."""
    gy, gx = np.gradient(patch)
    return Gradients(gx[None].astype(np.float32), gy[None].astype(np.float32))


def ramp(angle: float, slope: float = 3.0) -> Gradients:
    each = np.ones((1, SIDE, SIDE), np.float32)
    return Gradients(np.float32(slope * math.cos(angle)) * each, np.float32(slope * math.sin(angle)) * each)


def mixed(angles: list[float], lengths: list[float], shares: list[float], rng: np.random.Generator) -> Gradients:
    """Every pixel has one of these gradients, at random."""
    which = rng.choice(len(angles), (1, SIDE, SIDE), p=shares)
    angle, length = np.array(angles)[which], np.array(lengths)[which]
    return Gradients((length * np.cos(angle)).astype(np.float32), (length * np.sin(angle)).astype(np.float32))


def apart(one: np.ndarray | float, other: np.ndarray | list[float] | float) -> np.ndarray:
    """The angle between two directions."""
    return np.abs((np.asarray(one) - other + math.pi) % FULL - math.pi)


# The histogram


def histogram_by_the_book(gx: np.ndarray, gy: np.ndarray) -> np.ndarray:
    """One pixel at a time: length times a Gaussian of a quarter of the side, shared between the two nearest bins."""
    side, middle = len(gx), len(gx) // 2
    bins = [0.0] * 36
    for row in range(side):
        for column in range(side):
            squared = (row - middle) ** 2 + (column - middle) ** 2
            if squared > middle**2:
                continue
            x, y = float(gx[row, column]), float(gy[row, column])
            position = math.atan2(y, x) % FULL / FULL * 36
            first, share = int(position), position - int(position)
            weight = math.hypot(x, y) * math.exp(-squared / (2 * (side / 4) ** 2))
            bins[first % 36] += weight * (1 - share)
            bins[(first + 1) % 36] += weight * share
    for _ in range(6):
        bins = [(bins[k - 1] + bins[k] + bins[(k + 1) % 36]) / 3 for k in range(36)]
    return np.array(bins)


@pytest.mark.parametrize("side", [9, 21, SIDE])
def test_the_histogram_is_that_of_the_book(side: int, rng: np.random.Generator) -> None:
    gradients = Gradients(*rng.normal(size=(2, 4, side, side)).astype(np.float32))
    expected = np.array([histogram_by_the_book(gx, gy) for gx, gy in zip(*gradients, strict=True)])
    np.testing.assert_allclose(orientation_histograms(gradients), expected, rtol=5e-3)


def test_nothing_is_lost_and_nothing_added(rng: np.random.Generator) -> None:
    """The bins sum to the weighted length of all gradients within the disc."""
    gradients = Gradients(*rng.normal(size=(2, 3, SIDE, SIDE)).astype(np.float32))
    k = np.arange(SIDE) - 20
    squared = k[:, None] ** 2 + k**2
    weight = np.exp(-squared / (2 * (SIDE / 4) ** 2)) * (squared <= 400)
    expected = (np.hypot(*gradients) * weight).sum(axis=(1, 2))
    np.testing.assert_allclose(orientation_histograms(gradients).sum(axis=1), expected, rtol=1e-5)


# Angles


@pytest.mark.parametrize("degrees", range(0, 360, 15))
def test_a_ramp_has_its_own_direction(degrees: int) -> None:
    """On a bin or midway between two, where the parabola is symmetric: as good as OpenCV's angles."""
    which, angle = orientations(ramp(math.radians(degrees)))
    assert which.tolist() == [0]
    assert apart(angle, math.radians(degrees)).max() < math.radians(0.05)


@pytest.mark.parametrize("degrees", np.linspace(0, 360, 50).tolist())
def test_any_direction_is_told_within_a_quarter_of_a_degree(degrees: float) -> None:
    _, angle = orientations(ramp(math.radians(degrees)))
    assert len(angle) == 1
    assert apart(angle, math.radians(degrees)).max() < math.radians(0.25)


@pytest.mark.parametrize("slope", [1e-6, 1.0, 1e6])
def test_contrast_does_not_matter(slope: float) -> None:
    which, angle = orientations(ramp(1.0, slope))
    assert which.tolist() == [0]
    assert apart(angle, 1.0).max() < math.radians(0.25)


def turned(patch: np.ndarray, quarters: int) -> np.ndarray:
    return np.rot90(patch, quarters)


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_turned_patch_has_turned_angles(quarters: int, rng: np.random.Generator) -> None:
    """np.rot90 turns from y to x: by -90 degrees, as y goes down."""
    for _ in range(10):
        patch = rng.normal(size=(SIDE, SIDE)).cumsum(axis=0).cumsum(axis=1)
        _, before = orientations(of(patch))
        _, after = orientations(of(turned(patch, quarters)))
        expected = np.sort((before - quarters * math.pi / 2) % FULL)
        assert len(after) == len(before) > 0
        assert apart(np.sort(after % FULL), expected).max() < 0.01


def test_a_mirrored_patch_has_mirrored_angles(rng: np.random.Generator) -> None:
    patch = rng.normal(size=(SIDE, SIDE)).cumsum(axis=0).cumsum(axis=1)
    _, before = orientations(of(patch))
    _, after = orientations(of(patch[:, ::-1]))
    assert apart(np.sort(after % FULL), np.sort((math.pi - before) % FULL)).max() < 0.01


# How many


@pytest.mark.parametrize(("ratio", "count"), [(1.0, 2), (PEAK + 0.08, 2), (PEAK - 0.08, 1), (0.3, 1)])
def test_every_peak_of_four_fifths_counts(ratio: float, count: int, rng: np.random.Generator) -> None:
    angles = [0.5, 0.5 + math.radians(150)]
    which, found = orientations(mixed(angles, [1.0, ratio], [0.5, 0.5], rng))
    assert which.tolist() == [0] * count
    assert apart(np.sort(found), angles[:count]).max() < 0.01


def test_three_directions_give_three(rng: np.random.Generator) -> None:
    angles = [0.2, 0.2 + FULL / 3, 0.2 + 2 * FULL / 3]
    _, found = orientations(mixed(angles, [1.0] * 3, [1 / 3] * 3, rng))
    assert apart(np.sort(found), angles).max() < 0.01


def test_directions_close_together_are_one(rng: np.random.Generator) -> None:
    """Nearer than smoothing can tell apart."""
    _, found = orientations(mixed([1.0, 1.0 + math.radians(25)], [1.0, 1.0], [0.5, 0.5], rng))
    assert apart(found, 1.0 + math.radians(12.5)).max() < 0.05
    assert len(found) == 1


def test_flat_patches_have_none_and_the_others_keep_their_number() -> None:
    flat = np.zeros((1, SIDE, SIDE), np.float32)
    x, y = (np.concatenate([flat, a, flat, b, flat]) for a, b in zip(ramp(1.0), ramp(4.0), strict=True))
    which, angle = orientations(Gradients(x, y))
    assert which.tolist() == [1, 3]
    assert apart(angle, [1.0, 4.0]).max() < math.radians(0.25)


def test_gradients_outside_the_disc_do_not_count() -> None:
    """The corners of the patch turn differently."""
    k = np.arange(SIDE) - SIDE // 2
    outside = k[:, None] ** 2 + k**2 > (SIDE // 2) ** 2
    one, other = ramp(1.0), ramp(3.0, slope=1e4)
    _, angle = orientations(Gradients(*(np.where(outside, b, a) for a, b in zip(one, other, strict=True))))
    assert apart(angle, 1.0).max() < math.radians(0.25)


def test_patches_come_in_order_and_do_not_depend_on_each_other(rng: np.random.Generator) -> None:
    gradients = Gradients(*rng.normal(size=(2, 30, SIDE, SIDE)).astype(np.float32))
    which, angle = orientations(gradients)
    assert (np.diff(which) >= 0).all()
    for i in range(30):
        alone = orientations(Gradients(gradients.x[i : i + 1], gradients.y[i : i + 1]))[1]
        np.testing.assert_allclose(angle[which == i], alone, atol=1e-5)
        assert len(alone) > 0


def test_no_patches_have_no_orientations() -> None:
    none = np.zeros((0, SIDE, SIDE), np.float32)
    assert orientation_histograms(Gradients(none, none)).shape == (0, BINS)
    which, angle = orientations(Gradients(none, none))
    assert (len(which), len(angle)) == (0, 0)


def test_gradients_are_not_changed(rng: np.random.Generator) -> None:
    gradients = Gradients(*rng.normal(size=(2, 3, SIDE, SIDE)).astype(np.float32))
    before = [part.copy() for part in gradients]
    orientations(gradients)
    np.testing.assert_array_equal(gradients, before)
