"""Files made by real encoders: every format, mode and orientation gives the image that a viewer shows."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import PIL.features
import PIL.Image
import pytest

from faemb.errors import InputError
from faemb.features.image import read_image

needs_avif = pytest.mark.skipif("avif" not in PIL.features.get_supported(), reason="this Pillow has no AVIF")


def smooth_picture(width: int = 96, height: int = 64) -> np.ndarray:
    """RGB without any symmetry, and smooth, so that lossy formats keep it."""
    y, x = np.mgrid[:height, :width]
    blue = 120 + 100 * np.sin(x / 11) * np.cos(y / 17)
    return np.stack([230 * x / width, 200 * y / height, blue], axis=-1).astype(np.uint8)


def save(path: Path, image: PIL.Image.Image, file_format: str, **options) -> Path:
    if file_format == "HEIF":
        pytest.importorskip("pillow_heif").from_pillow(image).save(path, **options)
    else:
        image.save(path, file_format, **options)
    return path


def exif(orientation: int) -> bytes:
    tags = PIL.Image.Exif()
    tags[0x0112] = orientation
    return tags.tobytes()


@pytest.mark.parametrize(
    ("file_format", "options", "tolerance"),
    [
        pytest.param("PNG", {}, 0, id="png"),
        pytest.param("TIFF", {}, 0, id="tiff"),
        pytest.param("TIFF", {"compression": "tiff_lzw"}, 0, id="tiff lzw"),
        pytest.param("TIFF", {"compression": "tiff_deflate", "big_tiff": True}, 0, id="tiff of 64 bits"),
        pytest.param("BMP", {}, 0, id="bmp"),
        pytest.param("WEBP", {"lossless": True}, 0, id="webp lossless"),
        pytest.param("WEBP", {"quality": 95}, 3, id="webp"),
        pytest.param("JPEG", {"quality": 95}, 2, id="jpeg"),
        pytest.param("JPEG", {"quality": 95, "progressive": True}, 2, id="jpeg progressive"),
        pytest.param("MPO", {"quality": 95}, 2, id="mpo"),
        pytest.param("HEIF", {"quality": 95}, 3, id="heic"),
        pytest.param("AVIF", {"quality": 95}, 3, id="avif", marks=needs_avif),
    ],
)
def test_formats(file_format, options, tolerance, tmp_path):
    picture = smooth_picture()
    path = save(tmp_path / "no suffix", PIL.Image.fromarray(picture), file_format, **options)
    image = read_image(path)
    assert (image.pixels.dtype, image.size, image.name) == (np.dtype(np.uint8), (96, 64), str(path))
    assert image.pixels.flags.c_contiguous
    assert np.abs(image.pixels.astype(float) - picture).mean() <= tolerance


@pytest.mark.parametrize("file_format", ["GIF", "WEBP", "TIFF", "PNG"])
def test_the_first_picture_of_several_is_read(file_format, tmp_path):
    first, second = (PIL.Image.new("RGB", (20, 10), colour) for colour in ("red", "blue"))
    options = {"lossless": True} if file_format == "WEBP" else {}
    path = save(tmp_path / "several", first, file_format, save_all=True, append_images=[second], **options)
    np.testing.assert_array_equal(read_image(path).pixels, np.full((10, 20, 3), (255, 0, 0)))


# Modes


def test_grey_modes_stay_grey(tmp_path):
    grey = smooth_picture()[..., 2]
    picture = PIL.Image.fromarray(grey)
    np.testing.assert_array_equal(read_image(save(tmp_path / "l", picture, "PNG")).pixels, grey)
    bilevel = picture.point(lambda level: 255 * (level > 120)).convert("1")
    np.testing.assert_array_equal(read_image(save(tmp_path / "1", bilevel, "PNG")).pixels, (grey > 120) * 255)
    assert read_image(save(tmp_path / "jpeg", picture, "JPEG")).pixels.ndim == 2


@pytest.mark.parametrize("file_format", ["PNG", "BMP", "TIFF", "GIF"])
def test_palettes_become_colours(file_format, tmp_path):
    picture = PIL.Image.fromarray(smooth_picture()).quantize(100)
    path = save(tmp_path / "palette", picture, file_format)
    np.testing.assert_array_equal(read_image(path).pixels, np.asarray(picture.convert("RGB")))


@pytest.mark.parametrize(
    ("mode", "file_format", "options", "tolerance"),
    [
        ("CMYK", "JPEG", {}, 3),
        ("CMYK", "TIFF", {}, 0),
        ("YCbCr", "JPEG", {}, 3),
        ("YCbCr", "TIFF", {"compression": "jpeg"}, 3),  # Pillow 11 cannot read back its own without compression
        ("LAB", "TIFF", {}, 2),
    ],
    ids=str,
)
def test_colour_spaces_become_rgb(mode, file_format, options, tolerance, tmp_path):
    picture = smooth_picture()
    stored = PIL.Image.fromarray(picture).convert(mode)
    image = read_image(save(tmp_path / "image", stored, file_format, **options))
    assert image.pixels.shape == picture.shape
    assert np.abs(image.pixels.astype(float) - picture).mean() <= tolerance


def test_an_inverted_jpeg_of_adobe_is_shown_as_others_show_it(tmp_path):
    path = save(tmp_path / "cmyk.jpg", PIL.Image.fromarray(smooth_picture()).convert("CMYK"), "JPEG")
    assert b"Adobe" in path.read_bytes()[:200]
    shown_by_opencv = cv2.imread(str(path))
    assert shown_by_opencv is not None
    assert np.abs(read_image(path).pixels.astype(int) - shown_by_opencv[..., ::-1]).max() <= 3


# 16 bits and more


@pytest.fixture
def deep(rng) -> np.ndarray:
    values = rng.integers(0, 65536, (40, 50)).astype(np.uint16)
    values[0, :2] = 0, 65535
    return values


@pytest.mark.parametrize("stored_as", ["png", "tiff", "tiff big-endian", "tiff of 32 bits"])
def test_16_bits_are_scaled_not_clipped(stored_as, deep, tmp_path):
    picture = PIL.Image.fromarray(deep)
    if stored_as == "tiff big-endian":
        picture = PIL.Image.frombytes("I;16B", picture.size, deep.astype(">u2").tobytes())
    if stored_as == "tiff of 32 bits":
        picture = PIL.Image.fromarray(deep.astype(np.int32))
    path = save(tmp_path / "deep", picture, "PNG" if stored_as == "png" else "TIFF")
    image = read_image(path)
    assert image.pixels.dtype == np.float32
    np.testing.assert_allclose(image.pixels, deep * (255 / 65535), rtol=1e-6)
    assert (image.pixels.min(), image.pixels.max()) == (0, 255)


def test_16_bits_are_reduced_by_areas(deep, tmp_path):
    image = read_image(save(tmp_path / "deep", PIL.Image.fromarray(deep), "PNG"), 25)
    means = deep.reshape(20, 2, 25, 2).mean(axis=(1, 3)) * (255 / 65535)
    np.testing.assert_allclose(image.pixels, means, rtol=1e-5)


def test_a_transparent_value_of_16_bits_is_white(deep, tmp_path):
    deep[5, 7] = 1234
    path = save(tmp_path / "deep", PIL.Image.fromarray(deep), "PNG", transparency=1234)
    assert read_image(path).pixels[5, 7] == 255
    assert read_image(path).pixels[0, 0] == 0


@pytest.mark.parametrize("suffix", [".png", ".tiff"])
def test_colours_of_16_bits_keep_their_upper_8(suffix, rng, tmp_path):
    colours = rng.integers(0, 65536, (20, 30, 3)).astype(np.uint16)
    path = tmp_path / f"deep{suffix}"
    cv2.imwrite(str(path), colours[..., ::-1])
    np.testing.assert_array_equal(read_image(path).pixels, colours >> 8)


def test_float_files_hold_0_to_1(rng, tmp_path):
    values = rng.random((20, 30)).astype(np.float32)
    image = read_image(save(tmp_path / "float", PIL.Image.fromarray(values), "TIFF"))
    np.testing.assert_allclose(image.pixels, values * 255, rtol=1e-6)


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        (np.full((3, 3), 200, np.float32), "reaches 200, but floats are taken as 0..1"),
        (np.full((3, 3), np.nan, np.float32), "holds NaN or infinity"),
        (np.array([[-1, 70000]], np.int32), "has values from -1 to 70000; expected 0 to 65535: save it with 16 bits"),
    ],
)
def test_values_of_unknown_meaning_are_refused(values, fault, tmp_path):
    path = save(tmp_path / "values.tiff", PIL.Image.fromarray(values), "TIFF")
    with pytest.raises(InputError, match=rf"values\.tiff {fault}"):
        read_image(path)


# Transparency


@pytest.fixture
def layered(rng) -> np.ndarray:
    """RGBA with random colours in its transparent pixels."""
    rgba = rng.integers(0, 256, (30, 40, 4)).astype(np.uint8)
    rgba[:10, :, 3], rgba[10:20, :, 3] = 0, 255
    return rgba


def over_white_by_the_book(rgba: np.ndarray) -> np.ndarray:
    opacity = rgba[..., 3:] / 255
    return rgba[..., :3] * opacity + 255 * (1 - opacity)


@pytest.mark.parametrize(
    ("file_format", "options"), [("PNG", {}), ("TIFF", {}), ("WEBP", {"lossless": True, "exact": True})]
)
def test_transparency_is_laid_over_white(file_format, options, layered, tmp_path):
    shown = read_image(save(tmp_path / "image", PIL.Image.fromarray(layered), file_format, **options)).pixels
    assert (shown[:10] == 255).all()
    np.testing.assert_array_equal(shown[10:20], layered[10:20, :, :3])
    np.testing.assert_allclose(shown, over_white_by_the_book(layered), atol=1)


@needs_avif
def test_transparency_of_avif(tmp_path):
    picture = np.dstack([smooth_picture(), np.zeros((64, 96), np.uint8)])
    path = save(tmp_path / "image", PIL.Image.fromarray(picture), "AVIF")
    assert (read_image(path).pixels == 255).all()


def test_transparent_grey_stays_grey(layered, tmp_path):
    picture = PIL.Image.fromarray(np.ascontiguousarray(layered[..., 2:]))
    assert picture.mode == "LA"
    shown = read_image(save(tmp_path / "image", picture, "PNG")).pixels
    np.testing.assert_allclose(shown, over_white_by_the_book(layered)[..., 2], atol=1)


@pytest.mark.parametrize(("file_format", "transparency"), [("PNG", 7), ("GIF", 7), ("PNG", bytes(range(0, 200, 2)))])
def test_transparent_palettes(file_format, transparency, tmp_path):
    picture = PIL.Image.fromarray(smooth_picture()).quantize(100)
    path = save(tmp_path / "image", picture, file_format, transparency=transparency)
    opacity = np.full(256, 255)
    if isinstance(transparency, bytes):
        opacity[: len(transparency)] = list(transparency)
    else:
        opacity[transparency] = 0
    rgba = np.dstack([np.asarray(picture.convert("RGB")), opacity[np.asarray(picture)]])
    np.testing.assert_allclose(read_image(path).pixels, over_white_by_the_book(rgba), atol=1)


def test_a_palette_with_an_alpha_channel(tmp_path):
    picture = PIL.Image.fromarray(smooth_picture()).quantize(100).convert("PA")
    picture.putalpha(PIL.Image.fromarray(smooth_picture()[..., 0]))
    assert picture.mode == "PA"
    shown = read_image(save(tmp_path / "image", picture, "TIFF")).pixels
    np.testing.assert_allclose(shown, over_white_by_the_book(np.asarray(picture.convert("RGBA"))), atol=1)


@pytest.mark.parametrize(("mode", "key"), [("L", 9), ("RGB", (9, 9, 9))])
def test_one_transparent_colour(mode, key, tmp_path):
    picture = PIL.Image.new(mode, (6, 4), key)
    picture.putpixel((2, 1), 0 if mode == "L" else (0, 0, 0))
    shown = read_image(save(tmp_path / "image", picture, "PNG", transparency=key)).pixels
    expected = np.full_like(shown, 255)
    expected[1, 2] = 0
    np.testing.assert_array_equal(shown, expected)


# Orientation

# [EXIF 2.3, 4.6.4 A]: the side of the shown picture on which row 0 of the file lies, and column 0.
SIDES = {
    1: ("top", "left"),
    2: ("top", "right"),
    3: ("bottom", "right"),
    4: ("bottom", "left"),
    5: ("left", "top"),
    6: ("right", "top"),
    7: ("right", "bottom"),
    8: ("left", "bottom"),
}


def shown_by_the_book(stored: np.ndarray, orientation: int) -> np.ndarray:
    """Pixel by pixel, from the table."""
    rows, columns = stored.shape[:2]
    shape = (columns, rows) if orientation >= 5 else (rows, columns)
    shown = np.empty(shape + stored.shape[2:], stored.dtype)
    for row in range(rows):
        for column in range(columns):
            place = {}
            for side, position, last in zip(SIDES[orientation], (row, column), (rows - 1, columns - 1), strict=True):
                axis = "y" if side in ("top", "bottom") else "x"
                place[axis] = position if side in ("top", "left") else last - position
            shown[place["y"], place["x"]] = stored[row, column]
    return shown


@pytest.mark.parametrize("orientation", SIDES)
@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "TIFF", "HEIF", pytest.param("AVIF", marks=needs_avif)])
def test_orientation(file_format, orientation, tmp_path):
    stored = smooth_picture(48, 32)
    lossless: dict[str, dict[str, Any]] = {
        "WEBP": {"lossless": True},
        "HEIF": {"quality": 95},
        "AVIF": {"quality": 95},
        "JPEG": {"quality": 98},
    }
    options = lossless.get(file_format, {}) | {"exif": exif(orientation)}
    image = read_image(save(tmp_path / "image", PIL.Image.fromarray(stored), file_format, **options))
    assert image.size == ((32, 48) if orientation >= 5 else (48, 32))
    assert image.pixels.flags.c_contiguous
    expected = shown_by_the_book(stored, orientation)
    assert np.abs(image.pixels.astype(float) - expected).mean() < (4 if lossless.get(file_format) else 0.001)


@pytest.mark.parametrize("orientation", SIDES)
@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "TIFF"])
def test_reduction_does_not_depend_on_orientation(file_format, orientation, rng, tmp_path):
    stored = PIL.Image.fromarray(rng.integers(0, 256, (151, 231, 3)).astype(np.uint8))
    upright = read_image(save(tmp_path / "upright", stored, file_format), 40)
    turned = read_image(save(tmp_path / "turned", stored, file_format, exif=exif(orientation)), 40)
    expected = shown_by_the_book(upright.pixels, orientation)
    # Pillow turns a TIFF before it can be reduced, and rounds between the two directions of the reduction.
    np.testing.assert_allclose(turned.pixels, expected.astype(int), atol=2 if file_format == "TIFF" else 0)


@pytest.mark.parametrize("tags", [exif(0), exif(9), b"Exif\0\0nonsense", b"Exif\0\0MM\0*\0\0\0\x08\0\x05\x01"])
def test_an_orientation_that_means_nothing_is_ignored(tags, tmp_path):
    path = save(tmp_path / "image.jpg", PIL.Image.fromarray(smooth_picture()), "JPEG", exif=tags)
    assert read_image(path).size == (96, 64)


def test_profiles_are_ignored(tmp_path):
    picture = smooth_picture()
    path = save(tmp_path / "image.png", PIL.Image.fromarray(picture), "PNG", icc_profile=b"no profile at all")
    np.testing.assert_array_equal(read_image(path).pixels, picture)
