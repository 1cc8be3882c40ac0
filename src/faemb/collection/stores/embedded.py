"""Vectors in files of the collection's folder, one for each table: appended to, and memory-mapped for reading."""

import zlib
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

import numpy as np
from jaxtyping import Float, Int

from faemb.collection.catalogue import Entry
from faemb.collection.description import Encoding
from faemb.collection.layout import Layout
from faemb.collection.slots import SlotFile, read_at
from faemb.collection.stores.store import Store, Table
from faemb.errors import FormatError


class Embedded(Store):
    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def table(self, number: int, model: Encoding) -> "EmbeddedTable":
        return EmbeddedTable(self._layout, number, model)

    def require_free(self) -> None:
        pass  # a file that the catalogue does not name is overwritten

    def check_dimension(self, dimension: int) -> None:
        pass

    def drop(self, number: int) -> None:
        self._layout.vectors(number).unlink(missing_ok=True)

    def sweep(self, used: Collection[int]) -> None:
        pass  # the layout deletes the files of earlier generations

    def publish(self, number: int) -> None:
        pass  # readers find it through the catalogue

    def close(self) -> None:
        pass


class EmbeddedTable(Table):
    def __init__(self, layout: Layout, number: int, model: Encoding) -> None:
        self._shape = model.vectors_per_image, model.dimension
        self.file = SlotFile(layout.vectors(number), "<f4", self._shape[0] * self._shape[1])

    def create(self) -> None:
        pass  # the file is made with its first row

    def mark(self) -> str:
        return ""  # a copy of the folder has a copy of the file

    def set_mark(self, mark: str) -> None:
        pass

    def write(self, first: int, rows: Float[np.ndarray, "n w"], images: Sequence[Entry]) -> list[int]:
        return self.file.write(first, rows)

    def row(self, slot: int) -> Float[np.ndarray, " w"] | None:
        with suppress(OSError, ValueError, FormatError):
            content = read_at(self.file.path, slot * self.file.row_bytes, self.file.row_bytes)
            return np.frombuffer(content, self.file.dtype)
        return None

    def vectors(self, total: int) -> tuple[Float[np.ndarray, "total D"], Float[np.ndarray, "total V D"] | None]:
        """The second is None if images have no vectors of their parts."""
        rows = self.file.rows(total)
        if self._shape[0] == 1:
            return rows, None
        stored = rows.reshape(len(rows), *self._shape)
        return stored[:, 0], stored

    def damaged(self, images: Iterable[Entry]) -> set[int]:
        return {entry.id for entry in images if entry.slot is not None and self._crc(entry.slot) != entry.vector_crc}

    def _crc(self, slot: int) -> int | None:
        row = self.row(slot)
        return None if row is None else zlib.crc32(row.tobytes())

    def count(self) -> int:
        path = self.file.path
        return path.stat().st_size // self.file.row_bytes if path.is_file() else 0

    def remove(self, slots: Sequence[int]) -> None:
        pass  # compaction frees the space

    def tidy(self, live: Int[np.ndarray, " n"]) -> None:
        pass  # what lies behind the last slot is overwritten
