"""Scale space: every level is the image blurred by a Gaussian of the right sigma, at the octave's pixel size."""

import math

import numpy as np
import pytest

from faemb.features.hessian_affine.pyramid import Octave, blurred, enlarged, octaves

SIGMA = 1.6


def gaussian_at(image: np.ndarray, row: int, column: int, sigma: float) -> float:
    """One pixel of a blurred image: a weighted mean of all pixels around it, the image's edge repeated outwards."""
    reach = math.ceil(6 * sigma)
    total = weights = 0.0
    for down in range(-reach, reach + 1):
        for right in range(-reach, reach + 1):
            weight = math.exp(-(down**2 + right**2) / (2 * sigma**2))
            y = min(max(row + down, 0), image.shape[0] - 1)
            x = min(max(column + right, 0), image.shape[1] - 1)
            total += weight * float(image[y, x])
            weights += weight
    return total / weights


def sizes(height: int, width: int) -> list[tuple[int, int]]:
    """Sizes of the octaves: each has every second pixel of the one before, while both sides have at least 13."""
    found = []
    while min(height, width) >= 13:
        found.append((height, width))
        height, width = (height + 1) // 2, (width + 1) // 2
    return found


def pyramid(image: np.ndarray, *, sigma: float = SIGMA, per_octave: int = 3, enlarge: bool = False) -> list[Octave]:
    return list(octaves(image.astype(np.float32), sigma=sigma, per_octave=per_octave, enlarge=enlarge))


@pytest.fixture
def noise(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0, 255, (61, 90)).astype(np.float32)


def smooth(shape: tuple[int, int], rng: np.random.Generator, deviation: float = 5.0) -> np.ndarray:
    """Gaussian blobs of one width, some light and some dark, away from the edge."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    image = np.full(shape, 128.0)
    for centre_x, centre_y, height in zip(
        rng.uniform(20, shape[1] - 20, 12),
        rng.uniform(20, shape[0] - 20, 12),
        rng.uniform(-60, 60, 12),
        strict=True,
    ):
        image += height * np.exp(-((x - centre_x) ** 2 + (y - centre_y) ** 2) / (2 * deviation**2))
    return image.astype(np.float32)


# Blur


@pytest.mark.parametrize("sigma", [0.6, 1.25, 3.0])
def test_a_blurred_pixel_is_the_weighted_mean_of_those_around_it(noise: np.ndarray, sigma: float) -> None:
    image = blurred(noise, sigma)
    for row, column in ((0, 0), (0, 45), (60, 89), (30, 2), (33, 47)):
        assert image[row, column] == pytest.approx(gaussian_at(noise, row, column, sigma), abs=0.05)


@pytest.mark.parametrize(("sigma", "per_octave"), [(1.6, 3), (1.6, 1), (1.2, 2), (2.5, 5)])
def test_every_level_has_the_blur_it_is_said_to_have(noise: np.ndarray, sigma: float, per_octave: int) -> None:
    """Blur in pixels of the image, less IMAGE_BLUR: variances add. Far from the edge."""
    for octave in pyramid(noise, sigma=sigma, per_octave=per_octave)[:2]:
        for k, level in enumerate(octave.levels):
            blur = sigma * octave.pixel * 2 ** (k / per_octave)
            row, column = (side // 2 for side in level.shape)
            place = (row * int(octave.pixel), column * int(octave.pixel))
            expected = gaussian_at(noise, *place, math.sqrt(blur**2 - 0.5**2))
            assert level[row, column] == pytest.approx(expected, abs=0.25)  # of noise from 0 to 255


def test_the_octaves_of_an_enlarged_image_are_one_finer_and_then_the_same(rng: np.random.Generator) -> None:
    """But for the little blur of interpolation."""
    image = smooth((100, 121), rng)
    plain, fine = pyramid(image), pyramid(image, enlarge=True)
    assert [octave.pixel for octave in fine] == [0.5, *(octave.pixel for octave in plain)]
    for one, other in zip(plain, fine[1:], strict=True):
        for level, same in zip(one.levels, other.levels, strict=True):
            np.testing.assert_allclose(same, level, atol=0.6)
    for row, column in ((20, 20), (41, 33), (77, 101)):
        expected = gaussian_at(image, row, column, math.sqrt((SIGMA / 2) ** 2 - 0.5**2))
        assert fine[0].levels[0][2 * row, 2 * column] == pytest.approx(expected, abs=0.5)


# Sizes


@pytest.mark.parametrize("shape", [(13, 13), (61, 90), (64, 64), (65, 65), (13, 400), (200, 27), (51, 100)])
@pytest.mark.parametrize("per_octave", [1, 3, 4])
def test_octaves_halve_until_a_side_is_under_13(
    shape: tuple[int, int], per_octave: int, rng: np.random.Generator
) -> None:
    found = pyramid(rng.uniform(0, 255, shape), per_octave=per_octave)
    assert [octave.levels[0].shape for octave in found] == sizes(*shape)
    assert [octave.pixel for octave in found] == [2.0**o for o in range(len(found))]
    for octave in found:
        assert len(octave.levels) == per_octave + 2
        for level in octave.levels:
            assert (level.shape, level.dtype) == (octave.levels[0].shape, np.dtype(np.float32))
            assert level.flags.c_contiguous


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (12, 12), (12, 500), (500, 12), (1, 500)])
@pytest.mark.parametrize("enlarge", [False, True])
def test_an_image_under_13_pixels_has_no_octaves(shape: tuple[int, int], enlarge: bool) -> None:
    assert pyramid(np.zeros(shape), enlarge=enlarge) == []


def test_the_smallest_image_has_one_octave_more_when_it_is_enlarged() -> None:
    assert [octave.pixel for octave in pyramid(np.zeros((13, 13)))] == [1.0]
    assert [(octave.pixel, octave.levels[0].shape) for octave in pyramid(np.zeros((13, 13)), enlarge=True)] == [
        (0.5, (25, 25)),
        (1.0, (13, 13)),
    ]


# Sources


@pytest.mark.parametrize("shape", [(13, 13), (20, 31), (31, 20), (2, 2), (1, 5)])
def test_an_enlarged_image_keeps_every_pixel_at_twice_its_place(
    shape: tuple[int, int], rng: np.random.Generator
) -> None:
    image = rng.uniform(0, 255, shape).astype(np.float32)
    large = enlarged(image)
    assert large.shape == (2 * shape[0] - 1, 2 * shape[1] - 1)
    for row in range(large.shape[0]):
        for column in range(large.shape[1]):
            corners = [image[r, c] for r in {row // 2, -(-row // 2)} for c in {column // 2, -(-column // 2)}]
            assert large[row, column] == pytest.approx(np.mean(corners), abs=1e-3)


@pytest.mark.parametrize("enlarge", [False, True])
def test_a_ramp_stays_the_same_ramp_at_every_level(enlarge: bool) -> None:
    """Nothing shifts by half a pixel on the way down. Checked away from the edge, where a repeated edge bends it."""
    y, x = np.mgrid[:240, :260].astype(np.float32)
    for octave in pyramid(0.5 * x + 0.25 * y + 10, enlarge=enlarge):
        for k, level in enumerate(octave.levels):
            margin = math.ceil(10 * SIGMA * 2 ** (k / 3))
            rows, columns = np.indices(level.shape) * octave.pixel
            inner = (slice(margin, -margin), slice(margin, -margin))
            np.testing.assert_allclose(level[inner], (0.5 * columns + 0.25 * rows + 10)[inner], atol=1e-2)


@pytest.mark.parametrize("shape", [(65, 97), (129, 97)])
def test_a_mirrored_image_has_mirrored_levels(shape: tuple[int, int], rng: np.random.Generator) -> None:
    """With sides of the form 32 n + 1 the pixels of the first octaves lie alike from both ends."""
    image = rng.uniform(0, 255, shape).astype(np.float32)
    for octave, mirrored in zip(pyramid(image), pyramid(image[:, ::-1]), strict=True):
        for level, same in zip(octave.levels, mirrored.levels, strict=True):
            np.testing.assert_allclose(same[:, ::-1], level, atol=1e-3)


@pytest.mark.parametrize("level", [0, 100, 255])
@pytest.mark.parametrize("enlarge", [False, True])
def test_a_flat_image_stays_flat(level: int, enlarge: bool) -> None:
    for octave in pyramid(np.full((40, 50), level), enlarge=enlarge):
        for image in octave.levels:
            np.testing.assert_allclose(image, level, atol=1e-3)


def test_the_image_is_not_changed(noise: np.ndarray) -> None:
    given = noise.copy()
    pyramid(noise, enlarge=True)
    np.testing.assert_array_equal(noise, given)


def test_octaves_are_made_one_at_a_time(noise: np.ndarray) -> None:
    """So that a caller can free levels that it does not need."""
    first = next(iter(octaves(noise, sigma=SIGMA, per_octave=3)))
    assert first.pixel == 1
