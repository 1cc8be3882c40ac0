"""Files whose content a collection has under another name: they were renamed, moved or copied.

Such a file needs no extraction and no encoding. If the other file is gone, its image gets the new name and keeps its
data; if it is still there, its data is copied.
"""

import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from faemb.collection.catalogue import Entry
from faemb.collection.model import Model
from faemb.collection.sources import is_gone
from faemb.collection.stored import packed_features
from faemb.collection.writing import Writer
from faemb.errors import FormatError, RemoteError


class Twin(NamedTuple):
    """An image of the collection with the content of a file to be added."""

    entry: Entry
    moved: bool
    """Whether its own file is gone, so that the image can take the new name; else its data is given."""
    packed: bytes = b""
    vector: Float[np.ndarray, " D"] | None = None


@dataclass
class _Entries:
    """Images of one content."""

    gone: list[Entry] = field(default_factory=list)
    here: list[Entry] = field(default_factory=list)


class Copies:
    """Images of the collection that may have the content of files to be added: those of the same size in bytes.

    Entries stay usable while others are changed: their data is neither moved nor overwritten before compaction.
    """

    def __init__(self, writer: Writer, model: Model, files: Iterable[Path]) -> None:
        self._writer, self._model = writer, model
        self._names = writer.catalogue.names_by_hash(set(filter(None, map(_size, files))))
        self._entries: dict[str, _Entries] = {}

    @property
    def hashes(self) -> frozenset[str]:
        return frozenset(self._names)

    def take(self, content: str) -> Twin | None:
        """The image to use for a file with this content hash; None if there is no undamaged one.

        Each image whose file is gone is given once as moved, and is later given like the others.
        """
        if content not in self._entries:
            self._entries[content] = self._split(content)
        same = self._entries[content]
        if same.gone:
            same.here.append(same.gone.pop(0))
            return Twin(same.here[-1], moved=True)
        return next((twin for entry in same.here if (twin := self._copy(entry))), None)

    def _split(self, content: str) -> _Entries:
        entries = _Entries()
        for name in self._names.get(content, []):
            entry = self._writer.catalogue.entry(name)
            if entry is not None and entry.hash == content and _is_usable(entry):
                gone = is_gone(self._writer.layout.path_of(name))
                (entries.gone if gone else entries.here).append(entry)
        return entries

    def _copy(self, entry: Entry) -> Twin | None:
        """The entry with its image's data; None if that is damaged."""
        packed, vector = b"", self._vector(entry)
        if entry.offset is not None:
            with suppress(FormatError):
                packed = packed_features(self._writer.layout.features(self._writer.generation), entry)
            if zlib.crc32(packed) != entry.features_crc:
                return None
        elif entry.features and (vector is None or self._writer.keep_features):
            return None  # its features are lost
        return Twin(entry, moved=False, packed=packed, vector=vector)

    def _vector(self, entry: Entry) -> Float[np.ndarray, " w"] | None:
        """The content of its slot."""
        if entry.slot is None or not self._model.is_fitted:
            return None
        row = self._writer.table(self._model).row(entry.slot)
        return row if row is not None and zlib.crc32(row.tobytes()) == entry.vector_crc else None


def _is_usable(entry: Entry) -> bool:
    """False if both features and vector are lost, and the image waits for a repair."""
    return not entry.features or entry.slot is not None or entry.offset is not None


def _size(path: Path) -> int | None:
    with suppress(OSError, RemoteError):  # the worker that reads it reports the reason
        return path.stat().st_size
    return None
