"""Whether a collection is whole, byte by byte, and how it is made whole again.

What is damaged is dropped and derived again from what is not: short vectors and codes from vectors, vectors from
features, features from the image files.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from faemb.collection.backends import is_undamaged
from faemb.collection.catalogue import Catalogue, Entry
from faemb.collection.layout import Layout
from faemb.collection.model import Model
from faemb.collection.slots import SlotFile, read_at
from faemb.collection.writing import Report, Writer, slot_files, stored_features
from faemb.errors import FaembError
from faemb.sets import PORTION


@dataclass(frozen=True)
class Fault:
    entry: Entry
    vector: bool
    derived: bool
    """Of the vector, which is whole: the short one, or the code."""
    features: bool

    def __str__(self) -> str:
        bad = (("vector", self.vector), ("short vector or code", self.derived), ("local features", self.features))
        parts = [name for name, is_bad in bad if is_bad]
        return f"{self.entry.path}: its {' and '.join(parts)} {'are' if self.features else 'is'} damaged"

    @property
    def needs_file(self) -> bool:
        """Whether nothing but the image itself can give back what is damaged."""
        return self.features or (self.vector and self.entry.offset is None)


def faults(layout: Layout, catalogue: Catalogue, model: Model) -> Iterator[Fault]:
    """Every image whose data does not match its checksums; a process that changes the collection may go on."""
    with catalogue.snapshot():
        generation, entries = _generation(catalogue), list(catalogue.entries())
    for entry in entries:
        found = _confirmed(layout, catalogue, model, (generation, entry))
        if found is not None:
            yield found


def _confirmed(layout: Layout, catalogue: Catalogue, model: Model, known: tuple[int, Entry]) -> Fault | None:
    """A fault is one only if the catalogue still says the same: compaction may have moved the data meanwhile."""
    while (found := _compared(layout, model, *known)) is not None:
        with catalogue.snapshot():
            generation, entry = _generation(catalogue), catalogue.entry(found.entry.path)
        if entry is None or (generation, entry) == known:
            return found if entry is not None else None
        known = generation, entry
    return None


def damaged_indexes(layout: Layout, catalogue: Catalogue) -> list[Path]:
    """They are made again when they are needed, so it is enough to delete them."""
    return [path for path in layout.indexes(_generation(catalogue)) if not is_undamaged(path)]


def mend(writer: Writer, model: Model, found: Sequence[Fault], jobs: int | None, outcome: Report) -> None:
    """Derive what is damaged from what is not; what waits for its vector afterwards is to be encoded.

    Features that cannot be had again are forgotten, and the vector stays; an image of which nothing is left is taken
    out. Whenever this is stopped, what is still to do is a fault again, or waits.
    """
    _derive_again(writer, model, [fault.entry for fault in found if fault.derived])
    with writer.catalogue.change():
        writer.catalogue.forget_features(fault.entry.id for fault in found if fault.features)
        for fault in found:
            if fault.vector:
                writer.catalogue.distrust(fault.entry.id)
    lost = [writer.catalogue.entry(fault.entry.path) for fault in found if fault.needs_file]
    writer.describe_again([entry for entry in lost if entry is not None], model.extractor, jobs, outcome)


def _derive_again(writer: Writer, model: Model, entries: Sequence[Entry]) -> None:
    for start in range(0, len(entries), PORTION):
        part, file = entries[start : start + PORTION], writer.slot_files(model)[0]
        rows = [read_at(file.path, (entry.slot or 0) * file.row_bytes, file.row_bytes) for entry in part]
        vectors = np.frombuffer(b"".join(rows), file.dtype).reshape(len(part), file.width)
        writer.place(part, model.coded(vectors), model)


def _compared(layout: Layout, model: Model, generation: int, entry: Entry) -> Fault | None:
    files = slot_files(layout, generation, model) if model.is_fitted else ()
    holding = _slot_holds(entry, files) if entry.slot is not None else [entry.features == 0 or entry.offset is not None]
    features = entry.offset is not None and not _features_hold(layout, generation, entry)
    if all(holding) and not features:
        return None
    return Fault(entry, vector=not holding[0], derived=holding[0] and not all(holding), features=features)


def _generation(catalogue: Catalogue) -> int:
    return int(catalogue.about()["generation"])


def _slot_holds(entry: Entry, files: tuple[SlotFile, ...]) -> list[bool]:
    """Of each file, whether the image's row is as it was written."""
    crcs = (entry.vector_crc, entry.short_crc, entry.code_crc)
    return [_row_holds(file, entry.slot or 0, crc) for file, crc in zip(files, crcs, strict=False)] or [False]


def _row_holds(file: SlotFile, slot: int, crc: int | None) -> bool:
    try:
        content = read_at(file.path, slot * file.row_bytes, file.row_bytes)
    except OSError:
        return False
    return len(content) == file.row_bytes and zlib.crc32(content) == crc


def _features_hold(layout: Layout, generation: int, entry: Entry) -> bool:
    try:
        stored_features(layout.features(generation), entry)
    except (FaembError, OSError):
        return False
    return True
