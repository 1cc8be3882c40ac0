"""Files that would take far more memory or time than an honest image of their size: refused before they are decoded."""

import io
import os
import re
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import PIL.features
import PIL.Image
import PIL.ImageFile
import pytest

from faemb.errors import InputError, LimitError
from faemb.features.image import decoding, exif, memory, read_image, scans, stream

needs_avif = pytest.mark.skipif("avif" not in PIL.features.get_supported(), reason="this Pillow has no AVIF")
EMPTY_GIF = b"GIF89a\x3c\x00\x28\x00\x00\x00\x00"
"""60 x 40 pixels, no palette, and none of its blocks."""


def encoded(mode: str, file_format: str, size: tuple[int, int] = (60, 40), **options) -> bytes:
    if file_format == "HEIF":
        pytest.importorskip("pillow_heif").register_heif_opener()
    buffer = io.BytesIO()
    PIL.Image.new(mode, size).save(buffer, file_format, **options)
    return buffer.getvalue()


def written(folder: Path, *parts: bytes) -> Path:
    (folder / "image").write_bytes(b"".join(parts))
    return folder / "image"


def sparse(path: Path, length: int) -> Path:
    os.truncate(path, length)
    return path


def assert_refused(path: Path, *parts: str, kind: type[Exception] = InputError, max_side: int | None = 1024) -> None:
    with pytest.raises(InputError) as caught:
        read_image(path, max_side)
    assert type(caught.value) is kind, caught.value
    for part in (str(path), *parts):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


# Memory


@pytest.mark.parametrize(
    ("mode", "file_format", "options"),
    [
        pytest.param("P", "GIF", {"transparency": 0}, id="GIF with transparency"),
        pytest.param("P", "PNG", {"transparency": 0}, id="palette with transparency"),
        pytest.param("F", "TIFF", {"compression": "tiff_lzw"}, id="float TIFF"),
        pytest.param("RGB", "JPEG", {"progressive": True}, id="progressive JPEG"),
        pytest.param("RGB", "WEBP", {"lossless": True}, id="WebP"),
        pytest.param("RGB", "AVIF", {}, id="AVIF", marks=needs_avif),
        pytest.param("RGB", "HEIF", {}, id="HEIC"),
    ],
)
def test_an_image_that_would_take_too_much_memory_is_not_decoded(mode, file_format, options, tmp_path, monkeypatch):
    def decoded(self):
        raise AssertionError("decoded")

    path = written(tmp_path, encoded(mode, file_format, (1000, 750), **options))
    assert read_image(path).size == (1000, 750)
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "2500KB")
    monkeypatch.setattr(PIL.ImageFile.ImageFile, "load", decoded)
    assert_refused(path, "of memory; one file may take 2.5 MB", "FAEMB_ITEM_MEMORY=1GB", kind=LimitError)


def test_an_image_that_pillow_holds_is_counted_too(monkeypatch):
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "10MB")
    with pytest.raises(LimitError, match=r"the image needs 27\.9 MB of memory"):
        decoding.levels_of(PIL.Image.new("CMYK", (1200, 1000)), 1024, "the image")


@pytest.mark.parametrize(
    ("mode", "file_format", "size", "options"),
    [
        ("RGB", "JPEG", (11_600, 8_700), {"quality": 30}),
        ("RGB", "JPEG", (11_600, 8_700), {"quality": 30, "progressive": True}),
        ("RGBA", "PNG", (8_000, 6_000), {}),
        ("P", "PNG", (8_000, 6_000), {"transparency": 0}),
        ("RGB", "TIFF", (8_000, 6_000), {"compression": "tiff_lzw"}),
        ("RGB", "WEBP", (8_000, 6_000), {}),
        ("RGB", "AVIF", (8_000, 6_000), {}),
        ("I;16", "PNG", (8_000, 6_000), {}),
    ],
    ids=str,
)
def test_photographs_of_today_fit_in_the_memory_of_one_file(mode, file_format, size, options, monkeypatch):
    """Counted for a header of that size, and not made: each would take seconds."""
    if file_format == "AVIF" and "avif" not in PIL.features.get_supported():
        pytest.skip("this Pillow has no AVIF")
    image = PIL.Image.open(io.BytesIO(encoded(mode, file_format, (64, 48), **options)))
    several = options.get("progressive", False)
    monkeypatch.setattr(image, "_size", tuple(side // 4 for side in size) if file_format == "JPEG" else size)
    needed = memory.bytes_needed(image, (1024, 768), size[0] * size[1] if several else 0)
    assert needed < 1_000_000_000


def samples(folder: Path, height: int, width: int) -> list[Path]:
    """One file for each way to decode and to convert."""
    folder.mkdir()
    y, x = np.mgrid[:height, :width]
    colours = np.stack([x % 256, y % 256, (x + y) // 20 % 256], axis=-1).astype(np.uint8)
    rgb, grey = PIL.Image.fromarray(colours), PIL.Image.fromarray(colours[..., 2])
    rgba = rgb.copy()
    rgba.putalpha(grey)
    palette, deep = rgb.quantize(100), colours[..., 0].astype(np.uint16) * 200
    turned = PIL.Image.Exif()
    turned[0x0112] = 6
    saved: dict[str, tuple[PIL.Image.Image, dict[str, Any]]] = {
        "1.png": (grey.convert("1"), {}),
        "l.png": (grey, {}),
        "la.png": (grey.convert("LA"), {}),
        "l transparent.png": (grey, {"transparency": 9}),
        "p.gif": (palette, {}),
        "p transparent.png": (palette, {"transparency": 7}),
        "rgb.png": (rgb, {}),
        "rgb transparent.png": (rgb, {"transparency": (1, 2, 3)}),
        "rgba.png": (rgba, {}),
        "i16.png": (PIL.Image.fromarray(deep), {}),
        "i.tif": (PIL.Image.fromarray(deep.astype(np.int32)), {}),
        "f.tif": (PIL.Image.fromarray(deep / np.float32(65535)), {}),
        "rgb.tif": (rgb, {"compression": "tiff_lzw"}),
        "one strip.tif": (rgb, {"compression": "tiff_lzw", "strip_size": 1 << 30}),
        "turned.tif": (rgb, {"exif": turned.tobytes()}),
        "rgb.bmp": (rgb, {}),
        "l.jpg": (grey, {}),
        "rgb.jpg": (rgb, {}),
        "cmyk.jpg": (rgb.convert("CMYK"), {}),
        "progressive.jpg": (rgb, {"progressive": True}),
        "progressive full.jpg": (rgb, {"progressive": True, "subsampling": 0}),
        "rgb.webp": (rgb, {"method": 0}),
        "lossless.webp": (rgba, {"method": 0, "lossless": True, "quality": 0}),
    }
    if "avif" in PIL.features.get_supported():
        saved |= {"rgb.avif": (rgb, {"speed": 10}), "rgba.avif": (rgba, {"speed": 10})}
    for name, (image, options) in saved.items():
        image.save(folder / name, **options)
    cv2.imwrite(str(folder / "rgb16.png"), colours.astype(np.uint16) * 256)
    return sorted(folder.iterdir())


MEASURE = """
import io, os, sys
import PIL.features, PIL.Image
from faemb.features.image import decoding, read_image

def most():
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

counted = []
decoding.require_memory = lambda needed, name: counted.append(needed)
for path in sys.argv[2:]:
    for max_side in (1024, None):
        if not os.fork():
            for side in (32, None):  # the code that it will run, which is mapped anew after a fork
                read_image(os.path.join(sys.argv[1], os.path.basename(path)), side).grey()
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
            before = most()
            read_image(path, max_side).grey()
            print(most() - before, counted[-1], max_side, path, flush=True)
            os._exit(0)
        os.wait()
"""


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="only Linux measures memory in this way")
def test_the_counted_memory_is_that_which_is_taken(tmp_path):
    """In processes of their own, each with fresh memory: at least what is taken, and not twice as much."""
    samples(tmp_path / "small", 48, 64)
    command = [
        sys.executable,
        "-c",
        MEASURE,
        str(tmp_path / "small"),
        *map(str, samples(tmp_path / "large", 1000, 1200)),
    ]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()  # noqa: S603
    assert len(lines) >= 2 * 24
    for line in lines:
        taken, counted, *_ = line.split()
        assert int(taken) <= int(counted) <= 2 * int(taken) + 16_000_000, line


# Bytes


@pytest.mark.parametrize("file_format", ["JPEG", "GIF", "PNG", "TIFF", "WEBP", "HEIF"])
def test_a_huge_file_is_refused_before_it_is_opened(file_format, tmp_path):
    path = sparse(written(tmp_path, encoded("RGB", file_format)), 1_000_000_001)
    assert_refused(path, "is a file of 1 GB; expected an image file of at most 1 GB", kind=LimitError)


@pytest.mark.parametrize("file_format", ["WEBP", "HEIF", pytest.param("AVIF", marks=needs_avif)])
def test_a_file_that_is_read_whole_counts_twice(file_format, tmp_path, monkeypatch):
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "10MB")
    path = sparse(written(tmp_path, encoded("RGB", file_format)), 6_000_000)
    assert_refused(path, "needs 12 MB of memory", kind=LimitError)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((EMPTY_GIF, bytes(100_000)), id="GIF of zeros"),
        pytest.param((EMPTY_GIF, b"!\xfe", b"\x01a" * 30_000, b"\0"), id="GIF with an endless comment"),
        pytest.param(
            (EMPTY_GIF, b"!\xff\x0bXMP DataXMP", b"\x01a" * 30_000, b"\0"), id="GIF with an endless extension"
        ),
        pytest.param((b"\xff\xd8\xff", bytes(100_000)), id="JPEG of zeros"),
        pytest.param((b"\xff\xd8", b"\xff" * 100_000), id="JPEG with endless padding"),
        pytest.param((b"\xff\xd8", b"\xff\xe5\0\2" * 30_000), id="JPEG with endless segments"),
        pytest.param(
            (
                encoded("RGB", "PNG")[:33],
                chunk(b"zTXt", b"\0\0" + zlib.compress(bytes(1000))) * 10_000,
                encoded("RGB", "PNG")[33:],
            ),
            id="PNG with endless texts",
        ),
    ],
)
def test_headers_of_endless_pieces_are_not_read_to_their_end(parts, tmp_path):
    assert_refused(written(tmp_path, *parts), "has more than 20,000 pieces of data before its pixels; save it again")


@pytest.mark.parametrize("file_format", ["PNG", "JPEG"])
def test_headers_that_keep_the_processor_busy_are_not_read_to_their_end(file_format, tmp_path, monkeypatch):
    """Chunks that unpack to a megabyte each, EXIF segments that are joined one by one."""
    busy = {
        "PNG": (33, chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(1_000_000))) * 300),
        "JPEG": (2, (b"\xff\xe1\xff\xffExif\0\0" + bytes(65_527)) * 300),
    }
    place, pieces = busy[file_format]
    whole = encoded("RGB", file_format)
    monkeypatch.setattr(stream, "HEADER_SECONDS", 0.05)
    assert read_image(written(tmp_path, whole)).size == (60, 40)
    path = written(tmp_path, whole[:place], pieces, whole[place:])
    assert_refused(path, "takes longer than 0.05 s to read up to its pixels; save it again")


def test_long_headers_are_refused_and_ordinary_ones_read(tmp_path, monkeypatch):
    whole = encoded("RGB", "JPEG")
    segment = b"\xff\xe5" + struct.pack(">H", 60_002) + bytes(60_000)
    assert read_image(written(tmp_path, whole[:2], segment * 160, whole[2:])).size == (60, 40)
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "100MB")
    path = written(tmp_path, whole[:2], segment * 160, whole[2:])
    assert_refused(path, "has more than 6.25 MB of data beside its pixels", "FAEMB_ITEM_MEMORY", kind=LimitError)


def tiff_with_tags(tags: int, length: int) -> bytes:
    """Each tag claims the same bytes."""
    entries = [(256, 4, 1, 60), (257, 4, 1, 40), *((40_000 + number, 7, length, 8) for number in range(tags))]
    listed = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + listed + bytes(4 + length)


def test_bytes_that_are_read_again_and_again_are_counted_each_time(tmp_path, monkeypatch):
    """As the values of a TIFF's tags, with a Pillow that does not count them itself."""
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "20MB")
    with stream.BoundedStream(written(tmp_path, tiff_with_tags(1, 100_000))) as opened:
        opened.allow_large_header()
        for _ in range(200):
            opened.seek(8)
            assert len(opened.read(100_000)) == 100_000
        opened.seek(8)
        with pytest.raises(LimitError, match="has more than 20 MB of data beside its pixels"):
            opened.read(100_000)


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP"])
def test_exif_tags_that_claim_the_same_bytes_are_not_read(file_format, tmp_path, monkeypatch):
    def load(self, data):
        raise AssertionError("read")

    data = b"Exif\0\0" + tiff_with_tags(600, 40_000)
    assert exif.bytes_of_values(data[6:]) == 600 * 40_000 + 8
    path = written(tmp_path, encoded("RGB", file_format, exif=data))
    monkeypatch.setattr(PIL.Image.Exif, "load", load)
    assert read_image(path).size == (60, 40)


# Time


def with_scans(times: int, size: tuple[int, int] = (60, 40)) -> bytes:
    """A progressive JPEG whose last scan is there so many times more."""
    whole = encoded("RGB", "JPEG", size, progressive=True)
    last = whole.rindex(b"\xff\xda")
    return whole[:-2] + whole[last:-2] * times + whole[-2:]


@pytest.mark.parametrize("layout", ["progressive", "one component at a time"])
def test_a_jpeg_of_many_scans_is_not_decoded(layout, tmp_path, monkeypatch):
    data = with_scans(90)
    if layout == "one component at a time":
        data = encoded("L", "JPEG")
        scan = data.index(b"\xff\xda")
        components = b"\x01\x11\x00\x02\x11\x00\x03\x11\x00"
        frame = b"\xff\xc0\0\x11\x08\0\x28\0\x3c\x03" + components
        start = data.index(b"\xff\xc0")
        data = data[:start] + frame + data[start + 13 : scan] + data[scan:-2] * 100 + data[-2:]
    path = written(tmp_path, data)
    monkeypatch.setattr(scans, "MAX_SCANNED", 60 * 40 * 100)
    assert read_image(path).size == (60, 40)
    monkeypatch.setattr(scans, "MAX_SCANNED", 60 * 40 * 99)
    monkeypatch.setattr(PIL.ImageFile.ImageFile, "load", None)
    assert_refused(path, "has more than 99 scans of 60 x 40 pixels, which takes too long to decode; save it again")


@pytest.mark.parametrize("block", [7, 1 << 16])
def test_scans_are_counted_wherever_blocks_end(block, monkeypatch):
    monkeypatch.setattr(scans, "_BLOCK", block)
    kinds = [kind for kind, _ in scans._segments(io.BytesIO(with_scans(5)))]
    assert kinds.count(0xDA) == 15


def test_what_looks_like_a_scan_in_a_segment_or_behind_the_end_is_none(tmp_path, monkeypatch):
    whole = encoded("RGB", "JPEG", progressive=True)
    comment = b"\xff\xfe" + struct.pack(">H", 2 + 400) + b"\xff\xda" * 200
    monkeypatch.setattr(scans, "MAX_SCANNED", 60 * 40 * 10)
    path = written(tmp_path, whole[:2], comment, whole[2:], b"\xff\xda" * 200)
    assert read_image(path).size == (60, 40)


def test_decoding_has_a_deadline_where_no_worker_does_it(tmp_path, monkeypatch):
    """As for the image of a query: noticed at the next read."""
    moments = iter([0.0] + [2.0] * 1000)
    monkeypatch.setenv("FAEMB_ITEM_SECONDS", "1")
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    assert_refused(written(tmp_path, encoded("RGB", "JPEG")), "took longer than 1 s", kind=LimitError)


def test_a_refusal_is_told_as_such_although_a_decoder_calls_it_a_fault_of_its_own(tmp_path, monkeypatch):
    def complaining(opened: stream.BoundedStream) -> None:
        try:
            while True:
                opened.read(1)
        except ValueError as error:
            raise SyntaxError(f"cannot identify: {error}") from None

    monkeypatch.setattr(
        decoding,
        "decoder_for",
        lambda head, name: type("Complaining", (), {"__new__": lambda cls, opened: complaining(opened)}),
    )
    path = written(tmp_path, encoded("RGB", "JPEG"))
    with pytest.raises(InputError, match=re.escape(f"{path} has more than 20,000 pieces of data")):
        read_image(path)


def test_no_memory_is_taken_for_bytes_that_a_file_does_not_have(tmp_path):
    """A damaged length asks for up to 4 GB; Python takes the memory of all that is asked for."""
    file = tmp_path / "short"
    file.write_bytes(b"content")
    with stream.BoundedStream(file) as opened:
        assert opened.read(1 << 62) == b"content"
        opened.seek(3)
        assert opened.read() == b"tent"
