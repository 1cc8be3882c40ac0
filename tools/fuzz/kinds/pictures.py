"""Image files of every format: header fields, PNG chunks, JPEG segments, TIFF tags, GIF blocks."""

import io
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import PIL.features
import PIL.Image
from tools.fuzz.kind import Damage, Kind, Way
from tools.fuzz.mutations import odd_integer

from faemb.features import HessianAffine
from faemb.features.image import read_image
from pictures import pixels

Rng = np.random.Generator
SIZE = (56, 40)
SIDE = 48
EXTRACTOR = HessianAffine(max_side=SIDE, max_features=10)


class Pictures(Kind):
    name = "pictures"

    def prepare(self, folder: Path) -> None:
        for name, data in _samples():
            (folder / name).mkdir()
            (folder / name / "image").write_bytes(data)
        for number, photograph in enumerate(_photographs()):
            small = PIL.Image.open(photograph)
            small.thumbnail((96, 96))
            (folder / f"photograph-{number}").mkdir()
            small.save(folder / f"photograph-{number}" / "image", "JPEG")

    def ways(self, victim: Path) -> Sequence[Way]:
        with victim.open("rb") as file:
            head = file.read(4)
        known = {
            b"\x89PNG": (png_changed, png_changed),
            b"\xff\xd8\xff\xe0": (jpeg_changed, jpeg_changed),
            b"\xff\xd8\xff\xe1": (jpeg_changed, jpeg_changed),
            b"II*\0": (tiff_changed, tiff_changed),
            b"GIF8": (gif_changed, gif_changed),
        }
        return *known.get(head, ()), longer

    def read(self, folder: Path) -> None:
        image = read_image(folder / "image", SIDE)
        if not np.isfinite(image.grey()).all() or max(image.pixels.shape[:2]) > SIDE:
            raise Damage("pixels that no image has")
        EXTRACTOR.extract(image)


def longer(path: Path, rng: Rng) -> None:
    """Zeros at the end, which take no space on the disk."""
    os.truncate(path, path.stat().st_size + int(10 ** rng.uniform(3, 9.3)))


def png_changed(path: Path, rng: Rng) -> None:
    """Chunks with a right CRC: sizes and depths in the header, compressed data of any length, other orders."""
    data = path.read_bytes()
    chunks = list(_png_chunks(data))
    for _ in range(int(rng.integers(1, 4))):
        place = 0 if rng.random() < 0.4 else int(rng.integers(len(chunks)))
        kind, content = chunks[place]
        chance = rng.random()
        if kind == b"IHDR":
            content = _png_header(content, rng)
        elif chance < 0.3:
            content = zlib.compress(bytes(int(10 ** rng.uniform(0, 8))))
        elif chance < 0.5:
            kind = (b"tRNS", b"PLTE", b"iCCP", b"zTXt", b"iTXt", b"eXIf", b"acTL", b"fcTL", b"fdAT")[
                int(rng.integers(9))
            ]
        elif chance < 0.8:
            content = rng.bytes(int(rng.integers(0, 40)))
        else:
            chunks[place:place] = [chunks[place]] * int(10 ** rng.uniform(0, 3))
        chunks[place] = kind, content
    parts = (struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in chunks)
    path.write_bytes(data[:8] + b"".join(parts))


def _png_header(content: bytes, rng: Rng) -> bytes:
    width, height, *others = struct.unpack(">IIBBBBB", content)
    if rng.random() < 0.7:
        width, height = _odd_sides(width, height, rng)
    else:
        depth, colour = int(rng.choice([1, 2, 4, 8, 16, 3])), int(rng.choice([0, 2, 3, 4, 6, 5]))
        others = [depth, colour, *others[2:4], int(rng.integers(3))]
    return struct.pack(">IIBBBBB", width % 2**32, height % 2**32, *others)


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = 8
    while place + 8 <= len(data):
        (length,) = struct.unpack_from(">I", data, place)
        yield data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        place += length + 12


def _odd_sides(width: int, height: int, rng: Rng) -> tuple[int, int]:
    odd = int(10 ** rng.uniform(2, 5)) if rng.random() < 0.7 else abs(odd_integer(rng))
    return ((odd, height), (width, odd), (odd, odd), (odd, 1))[int(rng.integers(4))]


def jpeg_changed(path: Path, rng: Rng) -> None:
    """Segments repeated, exchanged or filled anew; sizes in the frame header; scans hundreds of times."""
    segments = list(_jpeg_segments(path.read_bytes()))
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(1, len(segments)))
        segment, chance = segments[place], rng.random()
        if segment[1:2] in (b"\xc0", b"\xc2") and chance < 0.7:
            width, height = _odd_sides(56, 40, rng)
            sides = struct.pack(">HH", height % 2**16, width % 2**16)
            segments[place] = segment[:5] + sides + segment[9:]
        elif chance < 0.4:
            segments[place:place] = [segment] * int(10 ** rng.uniform(0, 3.3))
        elif chance < 0.7:
            middle = int(rng.integers(4, max(5, len(segment))))
            segments[place] = segment[:middle] + rng.bytes(1) + segment[middle + 1 :]
        else:
            other = int(rng.integers(1, len(segments)))
            segments[place], segments[other] = segments[other], segment
    path.write_bytes(b"".join(segments))


def _jpeg_segments(data: bytes) -> Iterator[bytes]:
    """A scan is one segment with its data."""
    start = 0
    for place in range(2, len(data) - 1):
        if data[place] == 0xFF and 0xC0 <= data[place + 1] <= 0xFE and not 0xD0 <= data[place + 1] <= 0xD7:
            yield data[start:place]
            start = place
    yield data[start:]


def tiff_changed(path: Path, rng: Rng) -> None:
    """Values, types and counts in the directory of a little-endian TIFF."""
    data = bytearray(path.read_bytes())
    (place,) = struct.unpack_from("<I", data, 4)
    if place + 2 > len(data):
        return
    (count,) = struct.unpack_from("<H", data, place)
    for _ in range(int(rng.integers(1, 4))):
        entry = place + 2 + 12 * int(rng.integers(max(1, count)))
        if entry + 12 > len(data):
            return
        field = int(rng.integers(4))
        if field == 0:
            value = int(
                rng.choice([256, 257, 258, 259, 262, 273, 277, 278, 279, 284, 317, 322, 323, 324, 330, 339, 347])
            )
            struct.pack_into("<H", data, entry, value)
        elif field == 1:
            struct.pack_into("<H", data, entry + 2, int(rng.integers(0, 19)))
        else:
            number = int(10 ** rng.uniform(0, 9)) if rng.random() < 0.6 else odd_integer(rng) % 2**32
            struct.pack_into("<I", data, entry + (4 if field == 2 and rng.random() < 0.5 else 8), number)
    path.write_bytes(bytes(data))


def gif_changed(path: Path, rng: Rng) -> None:
    """The sides of the screen or of a frame, the frame repeated, the depth of its code."""
    data = bytearray(path.read_bytes())
    frame = data.find(b",", 13 + 3 * 2 ** ((data[10] & 7) + 1) if data[10] & 0x80 else 13)
    for _ in range(int(rng.integers(1, 4))):
        width, height = _odd_sides(56, 40, rng)
        start = 6 if rng.random() < 0.5 or frame < 0 or frame + 9 > len(data) else frame + 5
        struct.pack_into("<HH", data, start, width % 2**16, height % 2**16)
        if rng.random() < 0.3 and frame >= 0:
            data[frame:frame] = data[frame:-1] * int(10 ** rng.uniform(0, 2))
    path.write_bytes(bytes(data))


def _samples() -> Iterator[tuple[str, bytes]]:
    yield "jpeg", _encoded("JPEG")
    yield "jpeg-progressive", _encoded("JPEG", progressive=True)
    yield "jpeg-cmyk", _encoded("JPEG", "CMYK")
    yield "png", _encoded("PNG")
    yield "png-alpha", _encoded("PNG", "RGBA")
    yield "png-palette", _encoded("PNG", "P", transparency=3)
    yield "png-16", _encoded("PNG", "I;16")
    yield "webp", _encoded("WEBP")
    yield "webp-lossless", _encoded("WEBP", "RGBA", lossless=True)
    yield "tiff", _encoded("TIFF")
    yield "tiff-lzw", _encoded("TIFF", compression="tiff_lzw")
    yield "tiff-deflate", _encoded("TIFF", "LAB", compression="tiff_adobe_deflate")
    yield "tiff-jpeg", _encoded("TIFF", compression="jpeg")
    yield "tiff-fax", _encoded("TIFF", "1", compression="group4")
    yield "tiff-float", _encoded("TIFF", "F")
    yield "bmp", _encoded("BMP")
    yield "bmp-palette", _encoded("BMP", "P")
    yield "gif", _encoded("GIF", "P", transparency=5)
    if "avif" in PIL.features.get_supported():
        yield "avif", _encoded("AVIF")
    yield "heic", _heic()


def _picture(mode: str) -> PIL.Image.Image:
    grey = pixels(7, SIZE)
    if mode == "I;16":
        return PIL.Image.fromarray(grey.astype(np.uint16) * 256)
    if mode == "F":
        return PIL.Image.fromarray(grey.astype(np.float32) / 255)
    colours = PIL.Image.fromarray(np.dstack([grey, grey[::-1], grey[:, ::-1]]))
    return colours.quantize(64) if mode == "P" else colours.convert(mode)


def _encoded(form: str, mode: str = "RGB", **options: object) -> bytes:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    stream = io.BytesIO()
    if form in ("JPEG", "PNG", "WEBP", "AVIF"):
        options["exif"] = exif
    _picture(mode).save(stream, form, **options)
    return stream.getvalue()


def _heic() -> bytes:
    import pillow_heif

    stream = io.BytesIO()
    pillow_heif.from_pillow(_picture("RGB")).save(stream)
    return stream.getvalue()


def _photographs() -> list[Path]:
    """A few real ones, where they are."""
    folder = os.environ.get("FAEMB_DATA")
    return sorted(Path(folder, "holidays811", "jpg").glob("*.jpg"))[:3] if folder else []
