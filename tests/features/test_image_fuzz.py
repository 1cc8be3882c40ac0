"""Damaged image files give an Image or one of the package's errors, and no warnings or output."""

import io
import logging
import warnings
from pathlib import Path

import numpy as np
import PIL.features
import PIL.Image
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faemb.errors import FaembError
from faemb.features.image import Image, decoding, read_image

pillow_heif = pytest.importorskip("pillow_heif")
SIZE = (56, 40)
FLIPPED_VARIANTS = 150
CUTS = 40


def picture(mode: str) -> PIL.Image.Image:
    """A smooth ramp with noise: enough data that damage reaches all parts of the decoders."""
    rng = np.random.default_rng(7)
    ramp = np.linspace(0, 200, SIZE[0])[None, :, None] + rng.integers(0, 50, (SIZE[1], SIZE[0], 3))
    rgb = PIL.Image.fromarray(ramp.astype(np.uint8))
    if mode == "I;16":
        return PIL.Image.fromarray((ramp[..., 0] * 256).astype(np.uint16))
    if mode == "F":
        return PIL.Image.fromarray((ramp[..., 0] / 255).astype(np.float32))
    if mode == "P":
        return rgb.quantize(64)
    return rgb.convert(mode)


def encoded(file_format: str, mode: str = "RGB", **options) -> bytes:
    exif = PIL.Image.Exif()
    if file_format != "TIFF":  # its orientation follows its pixels: without it the image is complete but not upright
        exif[0x0112] = 6
    exif[0x010F] = "a maker of cameras"
    stream = io.BytesIO()
    image = picture(mode)
    if file_format == "HEIF":
        pillow_heif.from_pillow(image).save(stream, exif=exif.tobytes())
    else:
        image.save(stream, file_format, **({} if file_format in ("BMP", "GIF") else {"exif": exif}), **options)
    return stream.getvalue()


SAMPLES = {
    "jpeg": encoded("JPEG"),
    "jpeg-progressive": encoded("JPEG", progressive=True),
    "jpeg-cmyk": encoded("JPEG", "CMYK"),
    "png": encoded("PNG"),
    "png-alpha": encoded("PNG", "RGBA"),
    "png-palette": encoded("PNG", "P", transparency=3),
    "png-16": encoded("PNG", "I;16"),
    "webp": encoded("WEBP"),
    "webp-lossless": encoded("WEBP", "RGBA", lossless=True),
    "tiff": encoded("TIFF"),
    "tiff-lzw": encoded("TIFF", compression="tiff_lzw"),
    "tiff-deflate": encoded("TIFF", "LAB", compression="tiff_adobe_deflate"),
    "tiff-jpeg": encoded("TIFF", compression="jpeg"),
    "tiff-fax": encoded("TIFF", "1", compression="group4"),
    "tiff-float": encoded("TIFF", "F"),
    "bmp": encoded("BMP"),
    "bmp-palette": encoded("BMP", "P"),
    "gif": encoded("GIF", "P", transparency=5),
    "heic": encoded("HEIF"),
    **({"avif": encoded("AVIF")} if "avif" in PIL.features.get_supported() else {}),
}
each_sample = pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES.keys())


@pytest.fixture(autouse=True, scope="module")
def small_bound():
    """A flipped bit of a header may ask for any size; here a few megapixels are as good as hundreds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "MAX_PIXELS", 2_000_000)
        yield


def outcome(path: Path, data: bytes) -> Image | FaembError:
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result: Image | FaembError
        try:
            result = read_image(path, 32)
        except FaembError as error:
            result = error
    assert isinstance(result, Image) or (str(path) in str(result) and "\n" not in str(result))
    return result


def assert_sound(image: Image) -> None:
    height, width = image.pixels.shape[:2]
    assert 1 <= max(height, width) <= 32
    assert image.pixels.flags.c_contiguous
    assert np.isfinite(image.grey()).all()
    assert 0 <= image.pixels.min() <= image.pixels.max() <= 255


@each_sample
def test_cut_files_are_refused_or_whole_but_never_half_shown(sample, tmp_path):
    path = tmp_path / "image"
    whole = outcome(path, sample)
    for length in range(0, len(sample), max(1, len(sample) // CUTS)):
        result = outcome(path, sample[:length])
        if isinstance(result, Image):
            assert isinstance(whole, Image)
            np.testing.assert_array_equal(result.pixels, whole.pixels, err_msg=f"cut to {length} of {len(sample)}")


@each_sample
def test_flipped_bits(sample, rng, tmp_path, request, capfd, caplog):
    for variant in range(FLIPPED_VARIANTS):
        data = bytearray(sample)
        # Every second time only the header, where most faults of decoders are.
        end = len(data) if variant % 2 else min(len(data), 256)
        for place, bit in zip(rng.integers(end, size=1 + variant % 6), rng.integers(8, size=6), strict=False):
            data[place] ^= 1 << bit
        result = outcome(tmp_path / "image", bytes(data))
        if isinstance(result, Image):
            assert_sound(result)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    if "tiff" not in request.node.name:  # libtiff itself writes to stderr, which no caller can prevent
        assert capfd.readouterr() == ("", "")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(head=st.sampled_from(list(SAMPLES.values())), kept=st.integers(2, 400), tail=st.binary(max_size=200))
def test_random_bytes_behind_a_real_header(head, kept, tail, tmp_path):
    result = outcome(tmp_path / "image", head[:kept] + tail)
    if isinstance(result, Image):
        assert_sound(result)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300))
def test_random_bytes(data, tmp_path):
    assert isinstance(outcome(tmp_path / "image", data), FaembError)
