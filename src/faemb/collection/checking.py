"""Whether a collection is whole, byte by byte, and how it is made whole again.

What is damaged is dropped and derived again from what is not: short vectors and codes from vectors, vectors from
features, features from the image files.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from faemb.collection.catalogue import Catalogue, Entry
from faemb.collection.layout import Layout
from faemb.collection.model import Model
from faemb.collection.slots import SlotFile, read_at
from faemb.collection.writing import slot_files, stored_features
from faemb.errors import FaembError


@dataclass(frozen=True)
class Fault:
    entry: Entry
    vector: bool
    """Whether anything in its slot is damaged."""
    features: bool

    def __str__(self) -> str:
        parts = [name for name, bad in (("vector", self.vector), ("local features", self.features)) if bad]
        return f"{self.entry.path}: its {' and '.join(parts)} {'are' if self.features else 'is'} damaged"


def faults(layout: Layout, catalogue: Catalogue, model: Model) -> Iterator[Fault]:
    """Every image whose data does not match its checksums."""
    generation = int(catalogue.about()["generation"])
    files = slot_files(layout, generation, model) if model.is_fitted else ()
    for entry in list(catalogue.entries()):
        vector = entry.slot is not None and not _slot_holds(entry, files)
        features = entry.offset is not None and not _features_hold(layout, generation, entry)
        if vector or features:
            yield Fault(entry, vector, features)


def _slot_holds(entry: Entry, files: tuple[SlotFile, ...]) -> bool:
    assert entry.slot is not None  # noqa: S101
    crcs = (entry.vector_crc, entry.short_crc, entry.code_crc)
    for file, crc in zip(files, crcs, strict=True):
        try:
            content = read_at(file.path, entry.slot * file.row_bytes, file.row_bytes)
        except OSError:
            return False
        if len(content) != file.row_bytes or zlib.crc32(content) != crc:
            return False
    return bool(files)


def _features_hold(layout: Layout, generation: int, entry: Entry) -> bool:
    try:
        stored_features(layout.features(generation), entry)
    except (FaembError, OSError):
        return False
    return True
