"""Files that cannot be read or are too large: a message with the file, the fault and the cure."""

import errno
import io
import os
import re
import struct
import sys
import zlib
from types import SimpleNamespace

import numpy as np
import PIL.Image
import PIL.ImageFile
import PIL.PngImagePlugin
import pytest

from faemb.errors import FaembError, InputError, MissingExtraError, ReadError, reason
from faemb.features.image import decoders, decoding, read_image

UNREADABLE = "is not an image of a known format; expected JPEG, PNG, WebP, TIFF, BMP, GIF, HEIC or AVIF"
AGAIN = "it is damaged, truncated or of a rare kind: copy or download it again, or save it as PNG"


def encoded(file_format: str, mode: str = "RGB", size: tuple[int, int] = (60, 40), **options) -> bytes:
    rng = np.random.default_rng(1)
    picture = PIL.Image.fromarray(rng.integers(0, 256, (*size[::-1], 3)).astype(np.uint8)).convert(mode)
    stream = io.BytesIO()
    picture.save(stream, file_format, **options)
    return stream.getvalue()


def png_of_size(width: int, height: int) -> bytes:
    """A header without pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return encoded("PNG")[:8] + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", zlib.compress(b"\0"))


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_with(chunk: bytes) -> bytes:
    """A chunk put in before the pixels."""
    whole = encoded("PNG")
    return whole[:33] + chunk + whole[33:]


def read_bytes(tmp_path, data: bytes, max_side: int | None = 1024):
    (tmp_path / "image.jpg").write_bytes(data)
    return read_image(tmp_path / "image.jpg", max_side)


def assert_refused(path, *parts: str, max_side: int | None = 1024) -> None:
    with pytest.raises(InputError) as caught:
        read_image(path, max_side)
    message = str(caught.value)
    assert "\n" not in message
    for part in (str(path), *parts):
        assert part in message


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        pytest.param(b"", ["is empty, 0 bytes", "copy or download it again"], id="empty"),
        pytest.param(b"\xff", [UNREADABLE], id="one byte"),
        pytest.param(b"These are my holidays.", [UNREADABLE], id="text"),
        pytest.param(b"<svg xmlns='http://www.w3.org/2000/svg'/>", [UNREADABLE], id="svg"),
        pytest.param(encoded("EPS"), [UNREADABLE], id="eps"),
        pytest.param(encoded("PPM"), [UNREADABLE], id="ppm"),
        pytest.param(encoded("TGA"), [UNREADABLE], id="tga"),
        pytest.param(b"8BPS\0\1" + bytes(100), [UNREADABLE], id="psd"),
        pytest.param(b"\0\0\0\x18ftypisom\0\0\0\0isommp41" + bytes(50), [UNREADABLE], id="film"),
        pytest.param(encoded("JPEG")[:-500], ["cannot be decoded: image file is truncated", AGAIN], id="cut jpeg"),
        pytest.param(encoded("PNG")[:-500], ["cannot be decoded: image file is truncated", AGAIN], id="cut png"),
        pytest.param(encoded("BMP")[:-500], ["cannot be decoded: image file is truncated", AGAIN], id="cut bmp"),
        pytest.param(encoded("GIF")[:-500], ["cannot be decoded: image file is truncated", AGAIN], id="cut gif"),
        pytest.param(encoded("WEBP")[:-500], ["cannot be decoded: ", AGAIN], id="cut webp"),
        pytest.param(encoded("TIFF")[:-500], ["cannot be decoded: ", AGAIN], id="cut tiff"),
        pytest.param(b"\xff\xd8\xff" + bytes(100), ["cannot be decoded: ", AGAIN], id="only a jpeg's signature"),
        pytest.param(b"BMW is a maker of cars", ["cannot be decoded: ", AGAIN], id="text like bmp"),
        pytest.param(b"II*\0" + b"\xff" * 90, ["cannot be decoded: ", AGAIN], id="only a tiff's signature"),
        pytest.param(
            png_of_size(50_000, 50_000),
            ["is 50000 x 50000 pixels; expected at most 250,000,000 in all: save a smaller copy of it"],
            id="bomb",
        ),
        pytest.param(png_of_size(2**31 - 1, 2**31 - 1), ["at most 250,000,000 in all"], id="greatest bomb"),
        pytest.param(png_of_size(0, 10), ["cannot be decoded: "], id="no width"),
    ],
)
def test_bad_files(data, parts, tmp_path):
    (tmp_path / "image.jpg").write_bytes(data)
    assert_refused(tmp_path / "image.jpg", *parts)


def test_paths_that_lead_to_no_image(tmp_path):
    assert_refused(tmp_path / "gone.jpg", "there is no file", "check the path")
    assert_refused(tmp_path, "is a folder; expected an image file")
    (tmp_path / "file").touch()
    assert_refused(tmp_path / "file" / "a.jpg", "there is no file")
    (tmp_path / "link.jpg").symlink_to(tmp_path / "gone.jpg")
    assert_refused(tmp_path / "link.jpg", "there is no file")
    assert_refused(
        str(tmp_path / ("a" * 300)), "cannot be opened: File name too long; expected an image file: check the path"
    )
    with pytest.raises(InputError, match=r"cannot be opened: .*embedded null (byte|character)"):
        read_image("a\0b.jpg")
    with pytest.raises(InputError, match="there is no file ''"):
        read_image("")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in folders")
def test_a_pipe_is_refused_without_waiting_for_its_other_end(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert_refused(
        tmp_path / "pipe", "is a pipe, a socket or a device; expected an image file: save the content to a file"
    )
    assert_refused(os.devnull, "is a pipe, a socket or a device")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "may not be read: permission denied; change its permissions"),
        (errno.EIO, "cannot be read: Input/output error"),
    ],
    ids=["permission", "disk"],
)
def test_a_file_that_the_system_cannot_read(tmp_path, monkeypatch, number, words):
    """Made up, since the superuser may read anything."""

    def fail(*args):
        raise OSError(number, os.strerror(number))

    (tmp_path / "image.jpg").write_bytes(encoded("JPEG"))
    monkeypatch.setattr(decoding, "BoundedStream", fail)
    with pytest.raises(ReadError, match=words):
        read_image(tmp_path / "image.jpg")


def test_a_failure_of_memory_is_no_fault_of_the_file(tmp_path, monkeypatch):
    def exhausted(*args):
        raise MemoryError

    (tmp_path / "image.jpg").write_bytes(encoded("JPEG"))
    monkeypatch.setattr(decoding, "loaded", exhausted)
    with pytest.raises(MemoryError):
        read_image(tmp_path / "image.jpg")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(5, "Input/output error"), "Input/output error"),
        (KeyError(), "KeyError"),
        (ValueError("first\nsecond"), "first"),
        (RuntimeError("long " * 100), "long long long"),
        (OverflowError(" spaced. "), "spaced"),
    ],
)
def test_reasons_are_one_short_line(error, expected):
    assert reason(error).startswith(expected)
    assert len(reason(error)) <= 200
    assert "\n" not in reason(error)


# Readers that are not installed


def test_heic_without_its_reader_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    path = tmp_path / "photo.heic"
    path.write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100))
    cure = re.escape(f"reading {path}, a HEIC image, needs the extra 'heic': pip install \"faemb[heic]\"")
    with pytest.raises(MissingExtraError, match=cure):
        read_image(path)


def test_avif_without_its_reader(tmp_path, monkeypatch):
    path = tmp_path / "photo.avif"
    path.write_bytes(b"\0\0\0\x18ftypmif1\0\0\0\0mif1avif" + bytes(100))
    monkeypatch.setitem(sys.modules, "PIL.AvifImagePlugin", None)
    assert_refused(path, "is AVIF, which this Pillow cannot decode; pip install --upgrade pillow")
    monkeypatch.setitem(sys.modules, "PIL.AvifImagePlugin", SimpleNamespace(SUPPORTED=False, AvifImageFile=None))
    assert_refused(path, "is AVIF, which this Pillow cannot decode")


@pytest.mark.parametrize(
    ("head", "brands"),
    [
        (b"", set()),
        (b"\0\0\0\x10moov", set()),
        (b"\0\0\0\x10ftypheic\0\0\0\0avif", {b"heic"}),
        (b"\0\0\0\x18ftypmif1\0\0\0\0heicmiaf", {b"mif1", b"heic", b"miaf"}),
        (b"\xff\xff\xff\xffftypmif1\0\0\0\0he", {b"mif1", b"he"}),
    ],
)
def test_brands(head, brands):
    assert decoders.brands_in(head) == brands


# Bounds


def test_more_pixels_than_pillow_opens_are_read_without_a_word(tmp_path):
    """PIL.Image.open warns of 90 million and refuses 179 million; these are 182."""
    path = tmp_path / "map.png"
    PIL.Image.new("1", (13_000, 14_000), 1).save(path, compress_level=1)
    image = read_image(path)
    assert (image.size, image.pixels.shape) == ((13_000, 14_000), (1024, 951))
    assert (image.pixels == 255).all()


@pytest.mark.parametrize("file_format", ["TIFF", "WEBP"])
def test_the_limit_of_pillow_itself_is_told_as_ours(file_format, tmp_path, monkeypatch):
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 1000)
    (tmp_path / "image").write_bytes(encoded(file_format))
    assert_refused(tmp_path / "image", "is too large: Image size (2400 pixels) exceeds limit of 2000 pixels")


@pytest.mark.parametrize("file_format", ["JPEG", "PNG"])
def test_a_panorama_is_read_with_a_cap_only(file_format, tmp_path):
    path = tmp_path / "panorama"
    PIL.Image.new("L", (40_000, 8), 50).save(path, file_format)
    assert read_image(path).pixels.shape == (1, 1024)
    assert_refused(path, "is 40000 x 8 pixels; without max_side", "at most 32766: give max_side", max_side=None)


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF"])
def test_nothing_is_decoded_before_the_size_is_checked(file_format, tmp_path, monkeypatch):
    def decoded(self):
        raise AssertionError("decoded")

    (tmp_path / "image").write_bytes(encoded(file_format))
    monkeypatch.setattr(decoding, "MAX_PIXELS", 2399)
    monkeypatch.setattr(PIL.ImageFile.ImageFile, "load", decoded)
    assert_refused(tmp_path / "image", "is 60 x 40 pixels; expected at most 2,399 in all")


def test_chunks_that_unpack_to_far_more_are_not_unpacked(tmp_path):
    packed = zlib.compress(bytes(50_000_000))
    for chunk in (png_chunk(b"zTXt", b"a\0\0" + packed), png_chunk(b"iCCP", b"a\0\0" + packed)):
        with pytest.raises(FaembError, match="too large"):
            read_bytes(tmp_path, png_with(chunk))


def test_pillow_is_left_as_it_was(tmp_path):
    kept = (PIL.Image.MAX_IMAGE_PIXELS, PIL.ImageFile.LOAD_TRUNCATED_IMAGES, PIL.PngImagePlugin.MAX_TEXT_CHUNK)
    read_bytes(tmp_path, encoded("PNG"))
    assert kept == (
        PIL.Image.MAX_IMAGE_PIXELS,
        PIL.ImageFile.LOAD_TRUNCATED_IMAGES,
        PIL.PngImagePlugin.MAX_TEXT_CHUNK,
    )
