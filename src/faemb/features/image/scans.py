"""The number of scans of a JPEG, counted before it is decoded.

Decoding a scan visits all pixels, but an empty scan takes only a few bytes, so a small file can take long to decode.
Ordinary progressive files have about ten scans. In other files, a first scan with all components is the only one.
"""

import re
from collections.abc import Iterator
from typing import Any

from PIL.JpegImagePlugin import JpegImageFile

from faemb.errors import InputError

MAX_SCANNED = 10_000_000_000
"""Largest number of pixels times scans, such as 100 scans of 100 megapixels: about 20 seconds."""
MAX_SEGMENTS = 100_000

_SCAN, _END, _SINGLE = 0xDA, 0xD9, {0x01, 0xD8}
_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
"""Matches the start of a segment; not 0 (an escaped 255 in compressed data), restart markers or padding."""
_BLOCK = 1 << 16


def require_few_scans(image: JpegImageFile, size: tuple[int, int], name: str) -> bool:
    """Whether a JPEG has several scans; raises an error if it has so many that decoding would take long.

    `size` is from its header. With several scans, the decoder stores the coefficients of all pixels.
    """
    assert image.fp is not None  # noqa: S101  (its pixels are not loaded yet)
    width, height = size
    most = max(1, MAX_SCANNED // (width * height))
    scans = 0
    for number, (kind, components) in enumerate(_segments(image.fp)):
        scans += kind == _SCAN
        if scans == 1 and components == image.layers and "progressive" not in image.info:
            return False
        if scans > most or number > MAX_SEGMENTS:
            what = f"{most:,} scans of {width} x {height} pixels" if scans > most else f"{MAX_SEGMENTS:,} segments"
            raise InputError(f"{name} has more than {what}, which takes too long to decode; save it again")
    return True


def _segments(stream: Any) -> Iterator[tuple[int, int]]:
    """Kind and first byte of each segment of a JPEG file; of a scan, that byte is the number of its components."""
    position = 2
    while (position := _next_marker(stream, position)) >= 0:
        stream.seek(position + 1)
        kind, *length, first = stream.read(4).ljust(4, b"\0")
        if kind == _END:
            return
        yield kind, first
        position += 2 if kind in _SINGLE else 2 + max(2, int.from_bytes(bytes(length)))


def _next_marker(stream: Any, position: int) -> int:
    """The next position of a marker, -1 if there is none."""
    stream.seek(position)
    while block := stream.read(_BLOCK):
        found = _MARKER.search(block)
        if found:
            return position + found.start()
        position += max(1, len(block) - 1)  # the block may end in the middle of a marker
        stream.seek(position)
    return -1
