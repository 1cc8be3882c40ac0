"""INRIA's .fvecs and .bvecs: descriptors alone. Each row is an int32 d, then d float32 (.fvecs) or d bytes (.bvecs).

Such features have no position in an image: their frames are NaN and the image size is unknown. They can be encoded and
searched; selecting them by a box is an error.
"""

from pathlib import Path

import numpy as np
from jaxtyping import Float

from faemb.arrays import MatrixLike, as_matrix, to_numpy
from faemb.errors import InputError
from faemb.features.files.reading import MOST_COLUMNS, UNKNOWN_SIZE, numbers
from faemb.features.files.records import read_records, record_layout
from faemb.features.local_features import LocalFeatures, without_geometry
from faemb.runtime.storage import AnyPath, replacing

COMPONENTS = {".fvecs": "<f4", ".bvecs": "u1"}


def read_vecs(path: AnyPath) -> Float[np.ndarray, "N d"]:
    """The rows as float32; shape (0, 0) for an empty file, whose dimension is unknown."""
    suffix = Path(path).suffix.lower()
    if suffix not in COMPONENTS:
        raise InputError(
            f"{path} ends in {suffix!r}; expected {' or '.join(COMPONENTS)}, which gives the type of its numbers"
        )
    return numbers(read_records(path, 0, COMPONENTS[suffix], 0)["components"], "descriptors", str(path))


def read_vecs_features(path: AnyPath) -> LocalFeatures:
    descriptors = read_vecs(path)
    count = len(descriptors)
    return LocalFeatures(descriptors, without_geometry(count), np.zeros(count, np.float32), UNKNOWN_SIZE)


def write_fvecs(path: AnyPath, descriptors: MatrixLike) -> None:
    """Write the rows as float32, replacing `path` in one step."""
    with replacing(path) as temporary:
        temporary.write_bytes(fvecs_records(to_numpy(as_matrix(descriptors, "descriptors"))))


def fvecs_records(rows: np.ndarray) -> bytes:
    """The rows as an .fvecs file has them; files of more rows are made by writing one after the other."""
    count, columns = rows.shape
    if count and not 1 <= columns <= MOST_COLUMNS:
        raise InputError(f"descriptors have {columns} columns; .fvecs holds 1 to {MOST_COLUMNS}")
    records = np.empty(count, record_layout(0, columns, "<f4"))
    records["dimension"], records["components"] = columns, rows
    return records.tobytes()
