"""Changes of a collection: fit the model if necessary, encode images, free unused space.

Each step works in small transactions and continues where a killed process stopped. Data is written and synced before
the catalogue names it, and in the same transaction: two processes never write to the same file at the same time.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float

from faemb.collection.catalogue import Catalogue, Entry
from faemb.collection.database import NoRoomError
from faemb.collection.departing import Departure
from faemb.collection.exclusions import exclude
from faemb.collection.layout import Layout
from faemb.collection.model import Model
from faemb.collection.slots import write_at
from faemb.collection.sources import is_gone
from faemb.collection.stored import encoded_rows, packed_features, stored_features, vector_file
from faemb.collection.thumbnails import Thumbnails
from faemb.errors import FaembError, Fault, InputError
from faemb.features import LocalFeatures
from faemb.runtime import Progress, silent
from faemb.runtime.storage import sync_folder
from faemb.sets import PORTION, PORTION_DESCRIPTORS

LEARNING_IMAGES = 1500
"""Largest number of images from which a model learns."""
_UNUSED_SHARE = 0.25
"""Compaction is due when more than this share of the slots or of the stored features is not in use."""
_UNUSED_SLOTS, _UNUSED_BYTES = 16, 1 << 20
"""Unused slots and bytes always allowed, so that small collections are not compacted after every change."""
_COPIED_AT_ONCE = 4096


@dataclass
class Report:
    """The result of a change."""

    added: int = 0
    changed: int = 0
    moved: int = 0
    """Images whose file was renamed or moved."""
    unchanged: int = 0
    removed: int = 0
    without_features: list[str] = field(default_factory=list)
    failed: list[Fault] = field(default_factory=list)
    """A sentence for each file that could not be used."""
    passed_over: dict[str, int] = field(default_factory=dict)
    """Number of files in the folders that are not images, by suffix."""
    seconds: float = 0.0
    relearned_from: int = 0
    """Number of images from which the model has learned again; 0 if it has not."""
    kept_out: int = 0
    """Images in folders that were removed from the collection before, and stay so."""
    kept: list[str] = field(default_factory=list)
    """A sentence for each reason why images whose files are gone were not removed."""


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Errors of writing data, with their cure."""
    try:
        yield
    except OSError as error:
        raise FaembError(
            f"{folder} cannot be written: {error.strerror or error}; its earlier content is safe: "
            "make room on the disk and run the same command again"
        ) from error


class Writer:
    """Changes a collection; used by the process that holds its lock."""

    def __init__(self, layout: Layout, catalogue: Catalogue, progress: Progress | None = None) -> None:
        self.layout, self.catalogue = layout, catalogue
        self.progress = progress or silent
        self.make_thumbnails = True
        """Of images that are added."""
        self.thumbnails = Thumbnails(layout.thumbnails)
        self.keep_features = catalogue.about()["keep_features"] != "0"
        self.sweep()

    @property
    def generation(self) -> int:
        """Of the files in use, as the catalogue has it now."""
        return self.catalogue.generation()

    def sweep(self) -> None:
        """Delete files that the catalogue does not name; in a transaction, so that no process is about to name them."""
        with self.catalogue.change():
            self.layout.sweep(self.catalogue.in_use())

    # Learning and encoding.

    def learn(self, model: Model) -> str:
        """Fit the model on images of the collection, and save it; returns its fingerprint."""
        learned_from = self.fit(model)
        with self.catalogue.change():
            self.catalogue.set("learned_from", str(learned_from))  # if it is not saved, it is learned anew
        with self.catalogue.change():
            return model.save(self.layout.model(self.catalogue.in_use().model), overwrite=True)

    def fit(self, model: Model) -> int:
        """Fit the model on a sample of the images that have local features; returns the size of the sample.

        The sample depends on the images' names and not on their order.
        """
        entries = sorted(self.catalogue.entries("features > 0 and offset is not null"), key=lambda entry: entry.path)
        if not entries:
            raise InputError("none of the images has local features; a model cannot learn from them")
        chosen = np.random.default_rng(model.encoder.seed).permutation(len(entries))[:LEARNING_IMAGES]
        model.fit((self.features(entries[i]).descriptors for i in np.sort(chosen)), progress=self.progress)
        return len(chosen)

    def encode_waiting(self, model: Model) -> None:
        """Encode all images that have no vector yet, and compact if that is due."""
        if not self.catalogue.about()["model"]:
            with self.catalogue.change():
                self.catalogue.set("model", model.fingerprint)  # from now on every other model is refused
        self.encode(model)
        if not self.keep_features:
            with self.catalogue.change():
                self.catalogue.forget_features("offset is not null and slot is not null")
        if self.compaction_is_due():
            self.compact(model)

    def encode(self, model: Model) -> None:
        total, done = self.catalogue.count("slot is null and features > 0"), 0
        model.encoder_.prepare(total * model.vectors_per_image, progress=self.progress)
        while batch := self.catalogue.waiting(PORTION, PORTION_DESCRIPTORS):
            self.progress("encode", done, total)
            self.place(batch, encoded_rows(model, [self.features(entry) for entry in batch]), model)
            done += len(batch)
        self.progress("encode", total, total)

    def place(self, entries: Sequence[Entry], vectors: Float[np.ndarray, "B w"], model: Model) -> None:
        """Write the vectors of images into the next slots."""
        with self.catalogue.change(), writing_to(self.layout.folder):
            first = self.catalogue.free_slot()
            crcs = vector_file(self.layout, self.generation, model).write(first, vectors)
            for slot, (entry, crc) in enumerate(zip(entries, crcs, strict=True), first):
                self.catalogue.place(entry.id, slot, crc)
            self.catalogue.use(slots=first + len(entries))

    def features(self, entry: Entry) -> LocalFeatures:
        return stored_features(self.layout.features(self.generation), entry)

    def remove(self, names: Iterable[str]) -> int:
        """Remove images by stored name; returns their number."""
        with self.catalogue.change():
            return self._remove(names)

    def remove_deleted(self, names: Iterable[str]) -> int:
        """Remove images whose files are gone; returns their number.

        Images that were removed before, and whose files are gone now, are not remembered any more: a file that gets
        such a name later is another image.
        """
        with self.catalogue.change():
            for name in self.catalogue.removed():
                path = self.layout.path_of(name)
                if is_gone(path) and path.parent.is_dir():  # else its drive may be disconnected
                    self.catalogue.forget_removed(name)
            return self._remove(names)

    def take_out(self, departure: Departure) -> int:
        """Remove images and forget folders, for good; returns the number of images removed."""
        with self.catalogue.change():
            for folder in departure.folders:
                self.catalogue.remove_folder(folder)
                exclude(self.catalogue, folder, ())
            for name in departure.let_in:
                self.catalogue.forget_removed(name)
            for name in departure.kept_out:
                self.catalogue.add_removed(name)
            return self._remove(departure.images)

    def _remove(self, names: Iterable[str]) -> int:
        removed = 0
        for name in names:
            removed += self.catalogue.remove(name)
            self.catalogue.forget_unreadable(name)
        return removed

    # Compaction.

    def compaction_is_due(self) -> bool:
        if self.catalogue.relearning() is not None:
            return False  # both need the next generation; afterwards it is due again
        slots = self.catalogue.free_slot()
        unused_slots = slots - self.catalogue.count("slot is not null")
        file = self.layout.features(self.generation)
        size = file.stat().st_size if file.exists() else 0
        unused_bytes = size - self.catalogue.feature_bytes()
        return (
            unused_slots > _UNUSED_SHARE * slots + _UNUSED_SLOTS or unused_bytes > _UNUSED_SHARE * size + _UNUSED_BYTES
        )

    def compact(self, model: Model) -> None:
        """Copy the data in use to new files and name these, in one transaction; then delete the old files.

        If the disk has no room for both, nothing changes, and compaction is due again after the next change.
        """
        try:
            with self.catalogue.change():
                kept = self._compacted(model)
        except (OSError, NoRoomError):
            self.sweep()
            return
        self.sweep()
        with suppress(FaembError, OSError):  # they are unused, and are deleted next time
            self.thumbnails.remove(self.thumbnails.contents() - {entry.hash for entry in kept})

    def _compacted(self, model: Model) -> list[Entry]:
        """All images, whose data the next generation has after this."""
        entries = list(self.catalogue.entries())
        by_slot = sorted((entry for entry in entries if entry.slot is not None), key=lambda entry: entry.slot or 0)
        fresh = self.generation + 1
        for leftover in (self.layout.vectors(fresh), self.layout.features(fresh)):
            leftover.unlink(missing_ok=True)  # it may be another name of a file that is in use
        if by_slot:
            self._copy_vectors(by_slot, model, fresh)
        offsets, size = self._copy_features(entries, fresh)
        sync_folder(self.layout.folder)
        slots = {entry.id: slot for slot, entry in enumerate(by_slot)}
        for entry in sorted(entries, key=lambda entry: slots.get(entry.id, -1)):
            self.catalogue.move(entry.id, slot=slots.get(entry.id), offset=offsets.get(entry.id))
        self.catalogue.set("generation", str(fresh))
        self.catalogue.use(slots=len(by_slot), offsets=size)
        return entries

    def _copy_vectors(self, entries: Sequence[Entry], model: Model, generation: int) -> None:
        slots = np.array([entry.slot for entry in entries], np.int64)
        rows = vector_file(self.layout, self.generation, model).rows(self.catalogue.next_slot())
        new = vector_file(self.layout, generation, model)
        for start in range(0, len(slots), _COPIED_AT_ONCE):
            new.write(start, rows[slots[start : start + _COPIED_AT_ONCE]])

    def _copy_features(self, entries: Sequence[Entry], generation: int) -> tuple[dict[int, int], int]:
        """The offset of each image's features in the new file, and the length of that file."""
        offsets, offset = {}, 0
        for entry in entries:
            if entry.offset is None or entry.length is None:
                continue
            content = packed_features(self.layout.features(self.generation), entry)
            write_at(self.layout.features(generation), offset, content, durable=False)
            offsets[entry.id] = offset
            offset += entry.length
        if offsets:
            write_at(self.layout.features(generation), offset, b"")
        return offsets, offset
