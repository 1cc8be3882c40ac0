"""Images from arrays, grey and RGB, and the reduction to a largest side."""

import inspect
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL.JpegImagePlugin import JpegImageFile

from faemb.errors import InputError
from faemb.features.image import DEFAULT_MAX_SIDE, Image, as_image, read_image
from faemb.features.image import image as module


@pytest.fixture
def rgb(rng) -> np.ndarray:
    return rng.integers(0, 256, (30, 50, 3)).astype(np.uint8)


# Arrays


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (1, 500), (500, 1), (4, 5, 3), (1, 1, 3)])
def test_small_and_flat_arrays_are_images(shape):
    array = np.full(shape, 7, np.uint8)
    image = as_image(array, None)
    assert (image.size, image.name) == ((shape[1], shape[0]), "the array")
    np.testing.assert_array_equal(image.pixels, array)
    np.testing.assert_array_equal(image.grey(), np.full(shape[:2], 7))
    np.testing.assert_array_equal(image.rgb(), np.full((*shape[:2], 3), 7))


@pytest.mark.parametrize(
    ("array", "levels", "dtype"),
    [
        (np.array([[0, 9, 255]], np.uint8), [[0, 9, 255]], np.uint8),
        (np.array([[False, True]]), [[0, 255]], np.uint8),
        (np.array([[0, 257, 65535]], np.uint16), [[0, 1, 255]], np.float32),
        (np.array([[0, 257, 65535]], ">u2"), [[0, 1, 255]], np.float32),
        (np.array([[0, 0.5, 1]], np.float32), [[0, 127.5, 255]], np.float32),
        (np.array([[0, 0.5, 1]], np.float64), [[0, 127.5, 255]], np.float32),
        (np.array([[-5e-4, 1 + 5e-4]], np.float64), [[0, 255]], np.float32),
    ],
    ids=lambda value: str(value.dtype) if isinstance(value, np.ndarray) else "",
)
def test_numbers_become_levels(array, levels, dtype):
    given = array.copy()
    image = as_image(array, None)
    assert image.pixels.dtype == dtype
    np.testing.assert_allclose(image.pixels, levels, rtol=1e-6)
    np.testing.assert_array_equal(array, given)


def test_one_channel_is_grey(rgb):
    np.testing.assert_array_equal(as_image(rgb[..., :1], None).pixels, rgb[..., 0])


@pytest.mark.parametrize("scale", [1, np.uint16(257), np.float32(1 / 255)], ids=["uint8", "uint16", "float32"])
def test_transparent_arrays_lie_on_white(scale, rng):
    rgba = rng.integers(0, 256, (20, 30, 4)).astype(np.uint8)
    rgba[0, :, 3], rgba[1, :, 3] = 0, 255
    opacity = rgba[..., 3:] / 255
    image = as_image(rgba * scale, None)
    np.testing.assert_allclose(
        image.pixels, rgba[..., :3] * opacity + 255 * (1 - opacity), atol=0.51 if scale == 1 else 1e-3
    )
    assert (image.pixels[0] == 255).all()
    np.testing.assert_allclose(image.pixels[1], rgba[1, :, :3], atol=1e-4)


def test_views_are_made_contiguous_and_read_only_arrays_taken(rgb):
    rgb.flags.writeable = False
    for view in (rgb[::-1], rgb[:, ::2], rgb.transpose(1, 0, 2), rgb[..., ::-1], rgb[5:9, 3:8, 1]):
        image = as_image(view, 16)
        assert image.pixels.flags.c_contiguous
        np.testing.assert_array_equal(as_image(view, None).pixels, view)
        assert np.isfinite(image.grey()).all()


@pytest.mark.parametrize(
    ("array", "fault"),
    [
        (np.zeros(5, np.uint8), r"the array has the shape \(5,\); expected \(H, W\) grey, \(H, W, 3\) RGB or"),
        (np.zeros((), np.uint8), r"the array has the shape \(\)"),
        (np.zeros((0, 5), np.uint8), r"the array has the shape \(0, 5\); .* not empty"),
        (np.zeros((5, 5, 2), np.uint8), r"the array has the shape \(5, 5, 2\)"),
        (np.zeros((3, 50, 40), np.uint8), r"the array has the shape \(3, 50, 40\)"),
        (np.zeros((1, 5, 5, 3), np.uint8), r"the array has the shape \(1, 5, 5, 3\)"),
        (np.zeros((5, 5), np.int64), "the array holds int64; expected uint8, uint16, bool, or float32 or float64 in"),
        (np.zeros((5, 5), np.float16), "the array holds float16"),
        (np.zeros((5, 5), complex), "the array holds complex128"),
        (np.zeros((5, 5), object), "the array holds object"),
        (np.full((5, 5), "a"), "the array holds <U1"),
        (
            np.array([[0.0, 255.0]]),
            r"the array reaches 255, but floats are taken as 0\.\.1: divide by 255 or use uint8",
        ),
        (np.array([[-0.5, 0.5]]), r"the array reaches -0\.5, but floats are taken as 0\.\.1"),
        (np.array([[1.01]], np.float32), r"the array reaches 1\.01, but"),
        (np.array([[0.0, np.nan]]), "the array holds NaN or infinity; expected numbers in"),
        (np.array([[0.0, -np.inf]]), "the array holds NaN or infinity"),
    ],
)
def test_arrays_that_are_no_images(array, fault):
    with pytest.raises(InputError, match=f"^{fault}"):
        as_image(array, None)


@pytest.mark.parametrize("source", [None, 3, [[1, 2]], b"a.jpg"])
def test_other_sources_are_refused(source):
    kind = type(source).__name__
    with pytest.raises(InputError, match=f"an image is given as {kind}; expected a path, a Pillow image"):
        as_image(source, None)


def test_an_image_prints_as_one_line(rgb):
    assert repr(as_image(rgb, 20)) == "Image('the array', 50 x 30 pixels, read as 20 x 12)"


# Grey and RGB


@pytest.mark.parametrize(("scale", "tolerance"), [(1, 0.51), (np.uint16(257), 1e-3)], ids=["uint8", "uint16"])
def test_grey_weighs_the_colours(rgb, scale, tolerance):
    grey = as_image(rgb * scale, None).grey()
    assert grey.dtype == np.float32
    assert grey.flags.c_contiguous
    np.testing.assert_allclose(grey, rgb @ np.array([0.299, 0.587, 0.114]), atol=tolerance)


def test_rgb_has_the_type_of_the_pixels(rgb):
    np.testing.assert_array_equal(as_image(rgb, None).rgb(), rgb)
    for grey in (rgb[..., 0], rgb[..., 0] / np.float32(255)):
        image = as_image(grey, None)
        assert image.rgb().dtype == image.pixels.dtype
        np.testing.assert_array_equal(image.rgb(), np.repeat(image.pixels[..., None], 3, axis=2))


def test_grey_is_a_copy(rgb):
    array = rgb[..., 0] / np.float32(255)
    image = as_image(array, None)
    image.grey()[:] = -1
    assert image.pixels.min() >= 0


# Reduction


@pytest.mark.parametrize(
    ("size", "max_side", "expected"),
    [
        ((300, 200), None, (300, 200)),
        ((300, 200), 300, (300, 200)),
        ((300, 200), 1024, (300, 200)),
        ((300, 200), 150, (150, 100)),
        ((200, 300), 100, (67, 100)),
        ((1, 5000), 1024, (1, 1024)),
        ((5000, 1), 16, (16, 1)),
        ((9, 5000), 1024, (2, 1024)),
        ((3, 3), 16, (3, 3)),
    ],
)
@pytest.mark.parametrize("source", ["JPEG", "PNG", "PNG of 16 bits", "array", "image"])
def test_the_largest_side_is_capped(source, size, max_side, expected, tmp_path: Path):
    array = np.full(size[::-1], 100, np.uint16 if source == "PNG of 16 bits" else np.uint8)
    whole: np.ndarray | Image | Path = array
    if source == "image":
        whole = as_image(array, None)
    elif source != "array":
        whole = tmp_path / "image"
        PIL.Image.fromarray(array).save(whole, source[:4].strip())
    image = as_image(whole, max_side)
    assert image.pixels.shape == expected[::-1]
    assert image.pixels.flags.c_contiguous
    assert image.size == size


def test_an_image_keeps_its_name_and_size_when_it_is_reduced_again(rgb, tmp_path):
    PIL.Image.fromarray(rgb).save(tmp_path / "a.png")
    once = read_image(tmp_path / "a.png", 40)
    twice = as_image(once, 20)
    assert (once.pixels.shape, twice.pixels.shape) == ((24, 40, 3), (12, 20, 3))
    assert (twice.size, twice.name) == ((50, 30), str(tmp_path / "a.png"))
    assert as_image(once, 40).pixels is once.pixels


def checkerboard(side: int) -> np.ndarray:
    return ((np.indices((side, side)).sum(axis=0) % 2) * 255).astype(np.uint8)


@pytest.mark.parametrize("file_format", ["PNG", "JPEG", "BMP", None])
def test_reduction_does_not_alias(file_format, tmp_path):
    board = checkerboard(400)
    if file_format:
        PIL.Image.fromarray(board).save(tmp_path / "board", file_format)
    image = as_image(tmp_path / "board" if file_format else board, 90)
    assert np.abs(image.pixels.astype(float) - 127.5)[2:-2, 2:-2].max() < 12


def test_reduction_keeps_the_mean_and_the_place(tmp_path):
    """A blob stays at its place, whether or not the sides are multiples of what JPEG decodes at once."""
    y, x = np.mgrid[:603, :1001]
    blob = 255 * np.exp(-((x - 700) ** 2 + (y - 150) ** 2) / 2 / 40**2)
    PIL.Image.fromarray(blob.astype(np.uint8)).save(tmp_path / "blob.jpg", quality=98)
    for image in (read_image(tmp_path / "blob.jpg", 100), as_image(blob.astype(np.uint8), 100)):
        rows, columns = np.indices(image.pixels.shape)
        weights = np.where(image.pixels > 5, image.pixels, 0).astype(float)
        weights /= weights.sum()
        height, width = image.pixels.shape
        assert ((weights * columns).sum() + 0.5) * 1001 / width - 0.5 == pytest.approx(700, abs=0.5)
        assert ((weights * rows).sum() + 0.5) * 603 / height - 0.5 == pytest.approx(150, abs=0.5)


def test_reduced_floats_stay_within_the_levels():
    assert as_image(np.ones((777, 1311), np.float32), 100).pixels.max() <= 255


def read_and_watch(path, max_side) -> tuple[Image, tuple[int, int]]:
    """The image, and the width and height at which the JPEG was decoded."""
    decoded, load = [], JpegImageFile.load

    def watched(self):
        decoded.append(self.size)
        return load(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JpegImageFile, "load", watched)
        return read_image(path, max_side), decoded[0]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(width=st.integers(1, 300), height=st.integers(1, 300), max_side=st.integers(16, 64))
def test_a_jpeg_is_never_decoded_smaller_than_it_is_shown(width, height, max_side, tmp_path):
    PIL.Image.new("RGB", (width, height), "red").save(tmp_path / "red.jpg")
    image, decoded = read_and_watch(tmp_path / "red.jpg", max_side)
    shown = image.pixels.shape[1::-1]
    assert image.size == (width, height)
    assert max(shown) == min(max_side, max(width, height))
    assert decoded[0] >= shown[0]
    assert decoded[1] >= shown[1]


@pytest.mark.parametrize(("max_side", "expected"), [(150, (150, 100)), (151, (300, 200)), (1200, (1200, 800))])
def test_a_large_jpeg_is_decoded_at_a_fraction(max_side, expected, tmp_path):
    PIL.Image.new("L", (1200, 800)).save(tmp_path / "large.jpg")
    assert read_and_watch(tmp_path / "large.jpg", max_side)[1] == expected


@pytest.mark.parametrize("max_side", [0, 15, -3, 2.5, "12", True, 32_767])
def test_max_side_is_checked(max_side, rgb):
    """Unwrapped: only in tests types are checked before."""
    with pytest.raises(InputError, match=r"max_side is .*; expected a whole number, 16 to 32766"):
        inspect.unwrap(as_image)(rgb, max_side)


def test_the_default_cap():
    assert (DEFAULT_MAX_SIDE, module.LEAST_SIDE) == (1024, 16)


def test_a_side_that_cannot_be_addressed_needs_a_cap():
    panorama = np.zeros((1, 40_000), np.uint8)
    with pytest.raises(InputError, match=r"the array is 40000 x 1 pixels; .* at most 32766: give max_side"):
        as_image(panorama, None)
    assert as_image(panorama, 32_766).pixels.shape == (1, 32_766)
    with pytest.raises(InputError, match=r"a\.png is 40000 x 1 pixels"):
        as_image(Image(panorama, (40_000, 1), "a.png"), None)
