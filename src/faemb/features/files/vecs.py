"""INRIA's .fvecs and .bvecs: descriptors alone. Each row is an int32 d, then d float32 (.fvecs) or d bytes (.bvecs).

Such features have no place in an image: their frames are NaN and their image size is unknown, so they can be encoded
and searched as a whole, and a box refuses to select among them.
"""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from faemb.arrays import as_matrix, to_numpy
from faemb.errors import InputError
from faemb.features.files.reading import LARGEST_WIDTH, UNKNOWN_SIZE, AnyPath, numbers
from faemb.features.files.records import read_records, record_layout
from faemb.features.local_features import LocalFeatures, without_geometry
from faemb.runtime.storage import replacing

COMPONENTS = {".fvecs": "<f4", ".bvecs": "u1"}


def read_vecs(path: AnyPath) -> Float[np.ndarray, "N d"]:
    """The rows as float32; of a file of no bytes, which does not tell its width, an array of shape (0, 0)."""
    suffix = Path(path).suffix.lower()
    if suffix not in COMPONENTS:
        raise InputError(
            f"{path} ends in {suffix!r}; expected {' or '.join(COMPONENTS)}, which tells its numbers' type"
        )
    return numbers(read_records(path, 0, COMPONENTS[suffix], 0)["components"], "descriptors", str(path))


def read_vecs_features(path: AnyPath) -> LocalFeatures:
    descriptors = read_vecs(path)
    count = len(descriptors)
    return LocalFeatures(descriptors, without_geometry(count), np.zeros(count, np.float32), UNKNOWN_SIZE)


def write_fvecs(path: AnyPath, descriptors: Any) -> None:
    """Any array of rows, as float32, replacing `path` in one step."""
    rows = to_numpy(as_matrix(descriptors, "descriptors"))
    count, width = rows.shape
    if count and not 1 <= width <= LARGEST_WIDTH:
        raise InputError(f"descriptors have {width} columns; .fvecs holds 1 to {LARGEST_WIDTH}")
    records = np.empty(count, record_layout(0, width, "<f4"))
    records["width"], records["components"] = width, rows
    with replacing(path) as temporary:
        temporary.write_bytes(records.tobytes())
