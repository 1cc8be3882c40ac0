"""Vectors of images as a Parquet file, a table that databases and data frames attach without a copy.

    id       int64                               id of the image in its collection
    path     string                              file of the image; bytes that are not text are escaped
    vector   fixed_size_list<float32>[D]         vector of the whole image

Vectors are read and written a row group at a time.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from jaxtyping import Int

from faemb.errors import MissingExtraError

_GROUP_BYTES = 1 << 25
_WRITER = {b"written by": b"faemb"}
"""Metadata of the schema, by which a file is recognised as ours."""


def pyarrow() -> Any:
    try:
        import pyarrow as library
        import pyarrow.parquet  # is not imported with pyarrow itself
    except ImportError as error:
        raise MissingExtraError("a Parquet file", "parquet") from error
    return library


def write_parquet(
    file: IO[bytes],
    vectors: Any,
    slots: Int[np.ndarray, " n"],
    ids: Int[np.ndarray, " n"],
    names: Sequence[str],
) -> None:
    """Write a row for each of `slots`, with the image and the name of each; `vectors[slots]` has shape (n, D)."""
    arrow, dimension = pyarrow(), vectors.shape[1]
    vector = arrow.list_(arrow.field("item", arrow.float32(), nullable=False), dimension)
    fields = {"id": arrow.int64(), "path": arrow.string(), "vector": vector}
    schema = arrow.schema([arrow.field(*each, nullable=False) for each in fields.items()], metadata=_WRITER)
    step = max(1, _GROUP_BYTES // (4 * dimension))
    # Dictionaries and compression gain nothing on vectors of floats.
    with arrow.parquet.ParquetWriter(file, schema, compression="none", use_dictionary=False) as out:
        for start in range(0, len(slots), step):
            some = slice(start, start + step)
            rows = arrow.FixedSizeListArray.from_arrays(arrow.array(vectors[slots[some]].ravel()), type=vector)
            columns = [arrow.array(ids[some], arrow.int64()), arrow.array(names[some], arrow.string()), rows]
            out.write_table(arrow.Table.from_arrays(columns, schema=schema), row_group_size=step)


def is_our_parquet(path: Path) -> bool:
    arrow = pyarrow()
    try:
        return (arrow.parquet.read_schema(path).metadata or {}).items() >= _WRITER.items()
    except (arrow.ArrowException, OSError):
        return False
