"""Images that Pillow holds: the same pixels and features as their files, whatever their mode and orientation."""

from pathlib import Path

import numpy as np
import PIL.Image
import PIL.ImageOps
import pytest

from faemb.errors import InputError
from faemb.features import HessianAffine
from faemb.features.image import as_image, read_image
from pictures import pixels

Picture = PIL.Image.Image


def in_mode(mode: str) -> Picture:
    colours = PIL.Image.fromarray(np.stack([pixels(seed) for seed in range(4)], axis=2))  # RGBA
    if mode == "I;16":
        return PIL.Image.fromarray(pixels(0).astype(np.uint16) * 256)
    if mode in ("RGBA", "LA"):
        return colours.convert(mode)
    return colours.convert("RGB").convert(mode)


@pytest.mark.parametrize(
    ("mode", "suffix"),
    [("1", "png"), ("L", "png"), ("LA", "png"), ("P", "png"), ("RGB", "png"), ("RGBA", "png"), ("I;16", "png"),
     ("CMYK", "tif"), ("F", "tif"), ("L", "jpg"), ("RGB", "jpg"), ("CMYK", "jpg"), ("YCbCr", "jpg")],
)  # fmt: skip
def test_an_opened_file_has_the_pixels_of_its_path(mode: str, suffix: str, tmp_path: Path) -> None:
    made = in_mode(mode)
    path = tmp_path / f"a.{suffix}"
    (made.point(lambda value: value * (1 / 255)) if mode == "F" else made).save(path)
    expected = read_image(path, 64)
    with PIL.Image.open(path) as opened:
        image = as_image(opened, 64)
    assert (image.size, image.name) == (expected.size, str(path))
    np.testing.assert_array_equal(image.pixels, expected.pixels)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "YCbCr", "HSV", "PA"])
def test_an_image_in_memory_has_the_pixels_of_a_lossless_file(mode: str, tmp_path: Path) -> None:
    made = in_mode(mode)
    saved = made if mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16") else made.convert("RGB")
    saved.save(tmp_path / "a.png")
    image = as_image(made, None)
    assert (image.size, image.name) == ((120, 90), "the image")
    np.testing.assert_array_equal(image.pixels, read_image(tmp_path / "a.png", None).pixels)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "tif"])
@pytest.mark.parametrize("read_before", [False, True], ids=["lazy", "read"])
def test_the_orientation_is_applied_as_for_files(
    orientation: int, suffix: str, read_before: bool, tmp_path: Path
) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    packed = {"compression": "tiff_lzw"} if suffix == "tif" else {}  # Pillow maps others into memory with sides swapped
    PIL.Image.fromarray(pixels(1)).save(tmp_path / f"a.{suffix}", exif=exif, **packed)
    expected = read_image(tmp_path / f"a.{suffix}", None)
    with PIL.Image.open(tmp_path / f"a.{suffix}") as opened:
        if read_before:
            opened.load()
        image = as_image(opened, None)
        np.testing.assert_array_equal(as_image(PIL.ImageOps.exif_transpose(opened), None).pixels, expected.pixels)
    assert image.size == expected.size == ((120, 90) if orientation < 5 else (90, 120))
    np.testing.assert_array_equal(image.pixels, expected.pixels)


@pytest.mark.parametrize("suffix", ["jpg", "png"])
@pytest.mark.parametrize("max_side", [None, 1024, 100], ids=str)
def test_features_are_those_of_the_path(suffix: str, max_side: int | None, tmp_path: Path) -> None:
    """Also of a JPEG that is reduced: it is decoded at a fraction of its size, as its file is."""
    path = tmp_path / f"a.{suffix}"
    PIL.Image.fromarray(pixels(2, (400, 300))).save(path)
    extractor = HessianAffine(max_features=50, max_side=max_side)
    expected = extractor.extract(path)
    with PIL.Image.open(path) as opened:
        features = extractor.extract(opened)
        again = extractor.extract(opened)
    assert len(expected) > 15
    assert features.image_size == (400, 300)
    for found in (features, again):
        np.testing.assert_array_equal(found.descriptors, expected.descriptors)
        np.testing.assert_array_equal(found.frames, expected.frames)


def test_the_callers_image_stays_as_it_is(tmp_path: Path) -> None:
    made = PIL.Image.fromarray(pixels(3, (400, 300)))
    made.save(tmp_path / "a.jpg")
    with PIL.Image.open(tmp_path / "a.jpg") as opened:
        as_image(opened, 50)
        assert (opened.size, opened.mode) == ((400, 300), "L")
        np.testing.assert_array_equal(np.asarray(opened), read_image(tmp_path / "a.jpg", None).pixels)
        as_image(opened, 50)
        assert opened.size == (400, 300)


def test_a_fraction_that_the_caller_asked_for_is_kept(tmp_path: Path) -> None:
    PIL.Image.fromarray(pixels(3, (400, 300))).save(tmp_path / "a.jpg")
    with PIL.Image.open(tmp_path / "a.jpg") as opened:
        opened.draft(None, (100, 75))
        assert as_image(opened, None).size == (100, 75)


def closed() -> Picture:
    made = PIL.Image.new("L", (9, 9))
    made.close()
    return made


@pytest.mark.parametrize(
    ("made", "fault"),
    [
        (lambda: PIL.Image.new("L", (0, 5)), "the image is 0 x 5 pixels; expected an image that is not empty"),
        (lambda: PIL.Image.new("F", (5, 5), 255.0), r"the image reaches 255, but floats are taken as 0\.\.1"),
        (lambda: PIL.Image.new("I", (5, 5), -1), "the image has values from -1 to -1; expected 0 to 65535"),
        (closed, "the image has pixels that cannot be read: .*; open it again, or convert it to RGB"),
    ],
    ids=["empty", "float", "negative", "closed"],
)
def test_images_that_cannot_be_used(made, fault: str) -> None:
    with pytest.raises(InputError, match=f"^{fault}"):
        as_image(made(), None)
