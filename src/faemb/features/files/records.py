"""Binary records as INRIA's tools write them, little-endian and without a header:

`before` float32, then an int32 d, then d components
"""

import struct

import numpy as np

from faemb.errors import FormatError
from faemb.features.files.reading import CURE, LARGEST_WIDTH, AnyPath, file_bytes


def record_layout(before: int, width: int, component: str) -> np.dtype:
    return np.dtype([("before", "<f4", (before,)), ("width", "<i4"), ("components", component, (width,))])


def read_records(path: AnyPath, before: int, component: str, empty_width: int) -> np.ndarray:
    """All records, of one width; a file of no bytes holds none, and then `empty_width` is the width."""
    raw = file_bytes(path)
    layout = record_layout(before, _first_width(raw, 4 * before, path) if raw else empty_width, component)
    if len(raw) % layout.itemsize:
        raise FormatError(
            f"{path} is cut short or damaged: its {len(raw)} bytes are not a whole number of records of "
            f"{layout.itemsize} bytes; {CURE}"
        )
    records = np.frombuffer(raw, layout)
    _require_one_width(records["width"], path)
    return records


def _first_width(raw: bytes, place: int, path: AnyPath) -> int:
    if len(raw) < place + 4:
        raise FormatError(f"{path} is cut short: its {len(raw)} bytes do not hold one record; {CURE}")
    width: int = struct.unpack_from("<i", raw, place)[0]
    if not 1 <= width <= LARGEST_WIDTH:
        raise FormatError(
            f"{path} is damaged or of another format: it claims {width} components per descriptor; "
            f"expected 1 to {LARGEST_WIDTH}: {CURE}"
        )
    return width


def _require_one_width(widths: np.ndarray, path: AnyPath) -> None:
    odd = np.flatnonzero(widths != widths[:1])
    if len(odd):
        raise FormatError(
            f"{path} is damaged: record {odd[0] + 1} claims {widths[odd[0]]} components, the first {widths[0]}; {CURE}"
        )
