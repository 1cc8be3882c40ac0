"""Binary records as INRIA's tools write them, little-endian, in a file without a header.

Each record is some float32 numbers (`before`), the descriptor's dimension d as int32, and d components.
"""

import struct

import numpy as np

from faemb.errors import FormatError
from faemb.features.files.reading import CURE, FEATURE_BYTES, MOST_COLUMNS, VALUE_BYTES, file_bytes
from faemb.runtime.limits import require_memory
from faemb.runtime.storage import AnyPath


def record_layout(before: int, dimension: int, component: str) -> np.dtype:
    return np.dtype([("before", "<f4", (before,)), ("dimension", "<i4"), ("components", component, (dimension,))])


def read_records(path: AnyPath, before: int, component: str, empty_dimension: int) -> np.ndarray:
    """All records, which must share one dimension; `empty_dimension` is used for an empty file."""
    raw = file_bytes(path)
    dimension = _first_dimension(raw, 4 * before, path) if raw else empty_dimension
    layout = record_layout(before, dimension, component)
    count = len(raw) // layout.itemsize
    require_memory(len(raw) + count * (dimension * VALUE_BYTES + FEATURE_BYTES), path)
    if len(raw) % layout.itemsize:
        raise FormatError(
            f"{path} is truncated or damaged: its {len(raw)} bytes are not a whole number of records of "
            f"{layout.itemsize} bytes; {CURE}"
        )
    records = np.frombuffer(raw, layout)
    dimensions = records["dimension"]
    odd = np.flatnonzero(dimensions != dimensions[:1])
    if len(odd):
        raise FormatError(
            f"{path} is damaged: record {odd[0] + 1} declares {dimensions[odd[0]]} components, the first "
            f"{dimensions[0]}; {CURE}"
        )
    return records


def _first_dimension(raw: bytes, offset: int, path: AnyPath) -> int:
    if len(raw) < offset + 4:
        raise FormatError(f"{path} is truncated: its {len(raw)} bytes do not hold one record; {CURE}")
    dimension: int = struct.unpack_from("<i", raw, offset)[0]
    if not 1 <= dimension <= MOST_COLUMNS:
        raise FormatError(
            f"{path} is damaged or in another format: it declares {dimension} components per descriptor; "
            f"expected 1 to {MOST_COLUMNS}: {CURE}"
        )
    return dimension
