"""Patches: regions normalised to discs, sampled bilinearly, with one blur whatever their size; and their gradients."""

import math

import numpy as np
import pytest

from faemb.features.hessian_affine.patches import (
    PATCH_BLUR,
    Gradients,
    Source,
    blur_matrices,
    gradients,
    sampled,
    sources,
)
from faemb.features.hessian_affine.pyramid import octaves

SIGMA, SIDE = 1.6, 41


def turn(angle: float) -> np.ndarray:
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def random_shapes(rng: np.random.Generator, count: int, size: float) -> np.ndarray:
    """Turned, stretched by up to 2, of about this radius."""
    stretch = rng.uniform(1, 1.41, count)
    diagonal = np.stack([np.diag([size * s, size / s]) for s in stretch]) * rng.uniform(0.8, 1.2, (count, 1, 1))
    return np.stack([turn(a) @ d @ turn(b) for a, b, d in zip(*rng.uniform(0, 7, (2, count)), diagonal, strict=True)])


def all_sources(image: np.ndarray, enlarge: bool = False) -> list[Source]:
    grey = image.astype(np.float32, copy=False)
    return sources(grey, list(octaves(grey, sigma=SIGMA, per_octave=3, enlarge=enlarge)), SIGMA)


# Samples


def bilinear(image: np.ndarray, x: float, y: float) -> float:
    """One sample; beyond the edge the image goes on with its last pixel."""
    height, width = image.shape
    x, y = min(max(x, 0.0), width - 1.0), min(max(y, 0.0), height - 1.0)
    left, top = min(int(x), width - 2), min(int(y), height - 2)
    u, v = x - left, y - top
    above = (1 - u) * float(image[top, left]) + u * float(image[top, left + 1])
    below = (1 - u) * float(image[top + 1, left]) + u * float(image[top + 1, left + 1])
    return (1 - v) * above + v * below


def sampled_by_the_book(image: np.ndarray, centre: np.ndarray, step: np.ndarray, side: int) -> np.ndarray:
    middle = side // 2
    patch = np.empty((side, side))
    for row in range(side):
        for column in range(side):
            x, y = centre + step @ [column - middle, row - middle]
            patch[row, column] = bilinear(image, x, y)
    return patch


@pytest.mark.parametrize("side", [1, 9, 19])
@pytest.mark.parametrize("size", [0.3, 1.0, 4.0])
def test_samples_are_those_of_the_book(side: int, size: float, rng: np.random.Generator) -> None:
    """Within the image and far beyond its edge, from several images."""
    images = [rng.uniform(0, 255, shape).astype(np.float32) for shape in ((20, 30), (31, 17), (40, 40))]
    which = np.sort(rng.integers(0, 3, 12))
    centres = rng.uniform(-5, 40, (12, 2))
    steps = random_shapes(rng, 12, size)
    patches = sampled(images, which, centres, steps, side)
    assert (patches.shape, patches.dtype) == ((12, side, side), np.dtype(np.float32))
    for patch, image, centre, step in zip(patches, which, centres, steps, strict=True):
        # OpenCV before 5 rounds places to 1/32 of a pixel: of noise from 0 to 255 that may be 255 / 64 twice
        np.testing.assert_allclose(patch, sampled_by_the_book(images[image], centre, step, side), atol=8)
        np.testing.assert_allclose(
            patch.mean(), sampled_by_the_book(images[image], centre, step, side).mean(), atol=4 if side == 1 else 1
        )


def test_samples_at_whole_pixels_are_the_pixels(rng: np.random.Generator) -> None:
    image = rng.uniform(0, 255, (30, 40)).astype(np.float32)
    patches = sampled([image], np.zeros(1, np.int64), np.array([[20.0, 15.0]]), np.eye(2)[None], 11)
    np.testing.assert_array_equal(patches[0], image[10:21, 15:26])


def test_columns_of_the_patch_follow_the_first_column_of_the_step(rng: np.random.Generator) -> None:
    """A quarter turn from x to y: what lies below the centre comes to lie right of it."""
    image = rng.uniform(0, 255, (30, 40)).astype(np.float32)
    step = np.array([[[0.0, -1.0], [1.0, 0.0]]])
    patch = sampled([image], np.zeros(1, np.int64), np.array([[20.0, 15.0]]), step, 11)[0]
    np.testing.assert_array_equal(patch, np.rot90(image[10:21, 15:26]))


def test_beyond_the_edge_the_last_pixel_goes_on() -> None:
    image = np.arange(25, dtype=np.float32).reshape(5, 5)
    far = np.array([[-50.0, -50.0], [100.0, 2.0], [2.0, 1000.0]])
    patches = sampled([image], np.zeros(3, np.int64), far, np.tile(np.eye(2), (3, 1, 1)), 3)
    np.testing.assert_array_equal(patches[0], np.zeros((3, 3)))
    np.testing.assert_array_equal(patches[1], [[9] * 3, [14] * 3, [19] * 3])
    np.testing.assert_array_equal(patches[2], [[21, 22, 23]] * 3)


def test_no_regions_have_no_patches() -> None:
    none = np.zeros((0, 2))
    image = np.zeros((20, 20), np.float32)
    assert sampled([image], np.zeros(0, np.int64), none, np.zeros((0, 2, 2)), 9).shape == (0, 9, 9)
    assert gradients(all_sources(image), none, np.zeros((0, 2, 2)), 9).x.shape == (0, 9, 9)


# Blur


@pytest.mark.parametrize("sigma", [0.25, 0.75, 1.5, 3.0])
def test_matrices_blur_a_patch_as_a_gaussian_does(sigma: float, rng: np.random.Generator) -> None:
    """One pixel at a time; at the rim the mean is over what there is."""
    side = 15
    patch = rng.uniform(0, 255, (side, side))
    smooth, _ = blur_matrices(side, sigma)
    result = smooth @ patch @ smooth.T
    for row, column in ((7, 7), (0, 0), (3, 14), (10, 5)):
        total = weights = 0.0
        for y in range(side):
            for x in range(side):
                weight = math.exp(-((y - row) ** 2 + (x - column) ** 2) / (2 * sigma**2))
                total, weights = total + weight * patch[y, x], weights + weight
        assert result[row, column] == pytest.approx(total / weights, rel=1e-4)


@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_derivatives_are_central_differences_of_the_blurred_patch(sigma: float, rng: np.random.Generator) -> None:
    patch = rng.uniform(0, 255, (15, 15))
    smooth, derive = blur_matrices(15, sigma)
    blurred = smooth @ patch @ smooth.T
    expected = (blurred[:, 2:] - blurred[:, :-2]) / 2
    np.testing.assert_allclose((smooth @ patch @ derive.T)[:, 1:-1], expected, atol=1e-3)
    np.testing.assert_allclose((smooth @ patch @ derive.T)[:, 0], blurred[:, 1] - blurred[:, 0], atol=1e-3)


def test_no_blur_is_the_identity() -> None:
    np.testing.assert_array_equal(blur_matrices(9, 0.0)[0], np.eye(9))


def test_sources_are_the_image_and_the_first_level_of_each_octave(rng: np.random.Generator) -> None:
    image = rng.uniform(0, 255, (60, 70)).astype(np.float32)
    plain = all_sources(image)
    assert [(each.pixel, each.blur) for each in plain] == [(1.0, 0.5), (1.0, 1.6), (2.0, 3.2), (4.0, 6.4)]
    assert plain[0].image is image
    assert [each.image.shape for each in plain] == [(60, 70), (60, 70), (30, 35), (15, 18)]
    fine = all_sources(image, enlarge=True)
    assert [each[1:] for each in fine] == [each[1:] for each in plain]  # the enlarged image shows nothing more
    assert [each[1:] for each in sources(image, [], SIGMA)] == [(1.0, 0.5)]


def blob_gradients(deviation: float, shape: np.ndarray, blur: float, side: int) -> Gradients:
    """Gradients of a blob in the middle of the patch, round in the image; `blur` is in pixels of the patch.

    The patch pixel k shows the place shape @ k / radius, so the covariance of the blob in the patch is M M^T with
    M = radius shape^-1 deviation. Heights: a blob of height 200 keeps its integral when it is blurred.
    """
    radius = side // 2
    spread = radius * np.linalg.inv(shape) * deviation
    covariance = spread @ spread.T
    wider = covariance + blur**2 * np.eye(2)
    k = np.arange(side) - radius
    offsets = np.stack(np.broadcast_arrays(k, k[:, None]), axis=-1)
    squared = np.einsum("...i,ij,...j", offsets, np.linalg.inv(wider), offsets)
    patch = 200 * math.sqrt(np.linalg.det(covariance) / np.linalg.det(wider)) * np.exp(-squared / 2)
    gy, gx = np.gradient(patch)
    return Gradients(gx, gy)


@pytest.mark.parametrize(
    ("radius", "tolerance"), [(10.0, 0.1), (21.4, 0.05), (30.0, 0.05), (55.0, 0.05), (90.0, 0.05), (120.0, 0.05)]
)
@pytest.mark.parametrize("angle", [0.0, 0.6])
@pytest.mark.parametrize("enlarge", [False, True])
def test_every_patch_has_the_same_blur_whatever_its_size(
    radius: float, tolerance: float, angle: float, enlarge: bool
) -> None:
    """Taken from the image or an octave: the same as a blob that is blurred by 1.5 pixels of the patch.

    The blob is a sixth of the region; of its blur half a pixel is the camera's. A small region is magnified, and linear
    interpolation has kinks.
    """
    y, x = np.mgrid[:257, :257]
    deviation = radius / 6
    seen = math.sqrt(deviation**2 + 0.5**2)
    height = 200 * deviation**2 / seen**2
    image = height * np.exp(-((x - 128) ** 2 + (y - 128) ** 2) / (2 * seen**2))
    shape = radius * turn(angle)
    result = gradients(all_sources(image, enlarge), np.array([[128.0, 128.0]]), shape[None], SIDE)
    expected = blob_gradients(deviation, shape, PATCH_BLUR, SIDE)
    largest = np.abs(expected.x).max()
    for part, wanted in zip(result, expected, strict=True):
        np.testing.assert_allclose(part[0][2:-2, 2:-2], wanted[2:-2, 2:-2], atol=tolerance * largest)


def test_a_patch_is_taken_from_the_coarsest_image_that_is_not_too_blurred() -> None:
    """Steps are in pixels of the original per pixel of the patch. Ramps of different slopes tell which was sampled."""
    ramp = np.tile(np.arange(100, dtype=np.float32), (100, 1))
    from_ = [Source(ramp * slope, 1.0, blur) for slope, blur in ((1, 0.5), (2, 1.6), (3, 3.2), (4, 6.4))]
    chosen = {0.2: 1, 1 / 3: 1, 1.0: 1, 1.06: 1, 1.07: 2, 2.13: 2, 2.14: 3, 4.2: 3, 4.3: 4, 9.0: 4}
    steps = np.array(list(chosen))
    result = gradients(from_, np.full((len(steps), 2), 50.0), np.eye(2) * 4 * steps[:, None, None], 9)
    assert np.rint(result.x[:, 4, 4] / steps).astype(int).tolist() == list(chosen.values())


# Gradients


@pytest.mark.parametrize("size", [8.0, 20.0, 40.0])
@pytest.mark.parametrize("side", [21, 41])
def test_the_gradients_of_a_ramp_are_constant(size: float, side: int, rng: np.random.Generator) -> None:
    """Slope g in the image is shape^T g / radius in the patch; the rim, where blur sees one side only, left out.

    Exactly in the mean; OpenCV before 5 rounds the places of samples to 1/32 of a pixel.
    """
    y, x = np.mgrid[:401, :421]
    slope = np.array([0.3, -0.2])
    image = 100 + slope[0] * x + slope[1] * y
    shapes = random_shapes(rng, 10, size)
    result = gradients(all_sources(image), rng.uniform(190, 210, (10, 2)), shapes, side)
    inner = slice(6, -6)
    for gx, gy, shape in zip(*result, shapes, strict=True):
        expected = shape.T @ slope / (side // 2)
        length = float(np.linalg.norm(expected))
        for part, wanted in ((gx[inner, inner], expected[0]), (gy[inner, inner], expected[1])):
            np.testing.assert_allclose(part, wanted, atol=0.15 * length)
            assert part.mean() == pytest.approx(wanted, abs=0.01 * length)


def test_a_flat_image_has_no_gradients(rng: np.random.Generator) -> None:
    result = gradients(all_sources(np.full((90, 90), 255.0)), np.full((8, 2), 45.0), random_shapes(rng, 8, 20), SIDE)
    np.testing.assert_allclose(result, 0, atol=1e-3)


def waves(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A smooth pattern without end."""
    return 128 + 40 * np.sin(0.11 * x + 0.05 * y) + 35 * np.cos(0.03 * x - 0.13 * y) + 20 * np.sin(0.08 * (x + y))


@pytest.mark.parametrize(
    "warp",
    [turn(0.4), turn(math.pi / 2), 1.5 * turn(-1.0), np.array([[1.2, 0.3], [0.0, 0.9]]), np.diag([1.3, 0.8])],
    ids=["turned", "a quarter", "turned and enlarged", "sheared", "stretched"],
)
def test_the_patch_of_a_warped_region_of_a_warped_image_is_the_same(warp: np.ndarray, rng: np.random.Generator) -> None:
    """Place p of the first image is B (p - c) + c in the second, and shape A becomes B A.

    All but the rim, where more or less of the blur is added within the patch, which ends there.
    """
    y, x = np.mgrid[:301, :301]
    middle = np.array([150.0, 150.0])
    back = np.linalg.inv(warp)
    u, v = (back[i, 0] * (x - 150) + back[i, 1] * (y - 150) + 150 for i in (0, 1))
    centres = rng.uniform(110, 190, (8, 2))
    shapes = random_shapes(rng, 8, 24)
    before = gradients(all_sources(waves(x, y)), centres, shapes, SIDE)
    after = gradients(all_sources(waves(u, v)), (centres - middle) @ warp.T + middle, warp @ shapes, SIDE)
    largest = np.abs(before.x).max()
    for part, same in zip(before, after, strict=True):
        np.testing.assert_allclose(same[:, 4:-4, 4:-4], part[:, 4:-4, 4:-4], atol=0.05 * largest)


def test_rows_are_as_given_and_do_not_depend_on_each_other(rng: np.random.Generator) -> None:
    """Sources and blurs are sorted inside; what comes out is not."""
    from_ = all_sources(rng.uniform(0, 255, (120, 130)))
    shapes = np.concatenate([random_shapes(rng, 10, size) for size in (3, 8, 20, 45, 90)])
    order = rng.permutation(50)
    shapes, centres = shapes[order], rng.uniform(0, 120, (50, 2))
    together = gradients(from_, centres, shapes, SIDE)
    for i in range(50):
        alone = gradients(from_, centres[i : i + 1], shapes[i : i + 1], SIDE)
        np.testing.assert_allclose(together.x[i], alone.x[0], atol=0.1)
        np.testing.assert_allclose(together.y[i], alone.y[0], atol=0.1)


def test_a_mirrored_shape_mirrors_the_patch(rng: np.random.Generator) -> None:
    from_ = all_sources(rng.uniform(0, 255, (90, 90)))
    centre, shape = np.array([[44.0, 45.0]]), np.diag([15.0, 18.0])[None]
    plain, mirrored = (gradients(from_, centre, shape * sign, SIDE) for sign in (1, np.array([-1.0, 1.0])))
    np.testing.assert_allclose(mirrored.x[0], -plain.x[0][:, ::-1], atol=0.2)
    np.testing.assert_allclose(mirrored.y[0], plain.y[0][:, ::-1], atol=0.2)
