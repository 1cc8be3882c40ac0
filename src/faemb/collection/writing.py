"""Changes of a collection: fit the model if necessary, encode images, free unused space.

Each step works in small transactions and continues where a killed process stopped. Data is written and synced before
the catalogue names it, and in the same transaction: two processes never write to the same file at the same time.
"""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float

from faemb.collection.catalogue import Catalogue, Entry
from faemb.collection.database import NoRoomError
from faemb.collection.description import FACT, Description, Encoding, description_in
from faemb.collection.exclusions import exclude
from faemb.collection.facts import Freed
from faemb.collection.layout import Layout
from faemb.collection.model import Model
from faemb.collection.removal import Departure
from faemb.collection.slots import write_at
from faemb.collection.sources import is_gone
from faemb.collection.stored import encoded_rows, packed_features, stored_features
from faemb.collection.stores.attached import CurrentStore
from faemb.collection.stores.store import Store, Table
from faemb.collection.thumbnails import Thumbnails
from faemb.errors import FaembError, Fault, InputError
from faemb.features import LocalFeatures
from faemb.runtime import Progress, silent
from faemb.runtime.parallel import Jobs
from faemb.runtime.storage import sync_folder
from faemb.sets import PORTION, PORTION_DESCRIPTORS

LEARNING_IMAGES = 1500
"""Largest number of images from which a model learns."""
_UNUSED_SHARE = 0.25
"""Compaction is due when more than this share of the slots or of the stored features is not in use."""
_UNUSED_SLOTS, _UNUSED_BYTES = 16, 1 << 20
"""Unused slots and bytes always allowed, so that small collections are not compacted after every change."""
_COPIED_AT_ONCE = 4096
_MARKS = ("mark", "next_mark")
"""Facts about a collection whose vectors lie in a server: the marks of its last two writers."""


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
    """Number of images from which the model was learned again; 0 if it was not."""
    kept_out: int = 0
    """Number of images in folders that were skipped, because they had been removed from the collection."""
    kept: list[str] = field(default_factory=list)
    """A sentence for each reason why images whose files are gone were not removed."""


class LearningError(InputError):
    """A model cannot learn from the images that were given, some of which could perhaps not be used at all."""

    def __init__(self, sentence: str, report: Report) -> None:
        used = report.added + report.changed + report.moved + report.unchanged
        self.sentence = sentence if used or not report.failed else "none of the images can be used"
        """Why it cannot, without what is wrong with single images."""
        self.report = report
        others = f"; {len(report.failed) - 1:,} more cannot be used" if len(report.failed) > 1 else ""
        super().__init__(self.sentence + (f": {report.failed[0]}{others}" if report.failed else ""))


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Converts errors of writing data to ours, with their cure."""
    try:
        yield
    except OSError as error:
        raise FaembError(
            f"{folder} cannot be written: {error.strerror or error}; its earlier content is safe: "
            "make room on the disk and run the same command again"
        ) from error


class Writer:
    """Changes a collection; used by the process that holds its lock."""

    def __init__(
        self, layout: Layout, catalogue: Catalogue, progress: Progress | None = None, store: Store | None = None
    ) -> None:
        """`store` is the one that the catalogue names, if it is open already."""
        self.layout, self.catalogue = layout, catalogue
        self.store = store or CurrentStore(layout, catalogue).get()
        self.progress = progress or silent
        self.make_thumbnails = True
        """Whether added images get thumbnails."""
        self.thumbnails = Thumbnails(layout.thumbnails)
        self.keep_features = catalogue.about()["keep_features"] != "0"
        self.sweep()
        self._add_indexes()

    @property
    def generation(self) -> int:
        """Generation of the files in use, read from the catalogue."""
        return self.catalogue.generation()

    def sweep(self) -> None:
        """Delete files that the catalogue does not name; in a transaction, so that no process is about to name them."""
        with self.catalogue.change():
            self.layout.sweep(self.catalogue.in_use())
        if self._is_attached:
            coming = self.catalogue.relearning()
            self._publish()  # before the table that was in use is deleted
            self.store.sweep({self.catalogue.table(), 0 if coming is None else coming.generation})

    def table(self, model: Encoding) -> Table:
        """The table of vectors in use."""
        return self.store.table(self.catalogue.table(), model)

    # A store that is not in the collection's folder.

    def take_over(self, model: Encoding | None, *, repairing: bool = False) -> None:
        """Remove rows that killed processes have left in the store, and start recording slots to free at the end."""
        if self.store.address is None:
            return
        self.catalogue.watch_slots()
        self.catalogue.forget_freed_slots()
        if model is not None and self.catalogue.about()["model"]:
            table = self.table(model)
            if repairing:
                table.create()  # it may be lost
            self._claim(table)
            table.tidy(self.catalogue.live()[0])

    def _claim(self, table: Table) -> None:
        """Refuse a table that was changed through another copy of this folder: both would use the same slots.

        Every writer sets a new mark, first in the catalogue, which also keeps the previous one, then in the table, so
        that a process may be killed in between.
        """
        held, about = table.mark(), self.catalogue.about()
        if held and held not in map(about.get, _MARKS):
            folder = self.layout.folder
            raise FaembError(
                f"the vectors of {folder} in {self.store.address} were changed through another copy of this folder; "
                "use that copy, or make a new collection of the images, with another --store"
            )
        fresh = secrets.token_hex(8)
        with self.catalogue.change():
            for name, mark in zip(_MARKS, (held, fresh), strict=True):
                self.catalogue.set(name, mark)
        if self.catalogue.next_slot():
            table.set_mark(fresh)

    def hand_over(self, model: Encoding | None) -> None:
        """Remove the rows of images that have been removed or replaced."""
        if not self._is_attached or model is None or not self.catalogue.about()["model"]:
            return
        if freed := self.catalogue.freed_slots():
            self.table(model).remove(freed)
            self.catalogue.forget_freed_slots()
        self._publish()

    @property
    def _is_attached(self) -> bool:
        """Whether the store is a server that the catalogue still names: vectors may have been copied to another one."""
        named = self.catalogue.store()
        return named is not None and named[1] == self.store.identity

    def _publish(self) -> None:
        if self.catalogue.next_slot():
            self.store.publish(self.catalogue.table())

    def _add_indexes(self) -> None:
        """Add SQLite indexes that older catalogues lack; skipped on a full disk."""
        with suppress(NoRoomError), self.catalogue.change():
            self.catalogue.add_indexes()

    # Learning and encoding.

    def learn(self, model: Model, jobs: Jobs = None) -> str:
        """Fit the model on images of the collection, and save it; returns its fingerprint."""
        learned_from = self.fit(model, jobs)
        self.store.check_dimension(model.dimension)
        with self.catalogue.change():
            self.catalogue.set("learned_from", str(learned_from))  # if saving fails, the model is learned again
        with self.catalogue.change():
            return model.save(self.layout.model(self.catalogue.in_use().model), overwrite=True)

    def fit(self, model: Model, jobs: Jobs = None) -> int:
        """Fit the model on a sample of the images that have local features; returns the size of the sample.

        The sample depends on the images' names and not on their order.
        """
        entries = sorted(self.catalogue.entries("features > 0 and offset is not null"), key=lambda entry: entry.path)
        if not entries:
            raise InputError("none of the images has local features; a model cannot learn from them")
        chosen = np.random.default_rng(model.encoder.seed).permutation(len(entries))[:LEARNING_IMAGES]
        sets = (self.features(entries[i]).descriptors for i in np.sort(chosen))
        model.fit(sets, progress=self.progress, jobs=jobs)
        return len(chosen)

    def claim(self, model: Model) -> None:
        """Record the model before the first image is encoded; every other model is refused from now on."""
        about = self.catalogue.about()
        if not about["model"] or description_in(about) is None:
            with self.catalogue.change():
                known = Description.of(model)
                self.catalogue.set("model", known.fingerprint)
                self.catalogue.set(FACT, known.as_text())

    def waiting(self) -> int:
        """Number of images that have no vector yet."""
        return self.catalogue.count("slot is null and features > 0")

    def encode_waiting(self, model: Model) -> None:
        """Encode all images that have no vector yet, and compact if that is due."""
        self.claim(model)
        self.encode(model)
        if self.compaction_is_due():
            self.compact(model)

    def encode(self, model: Model) -> None:
        total, done = self.waiting(), 0
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
            crcs = self.table(model).write(first, vectors, entries)
            for slot, (entry, crc) in enumerate(zip(entries, crcs, strict=True), first):
                self.catalogue.place(entry.id, slot, crc)
            self.catalogue.use(slots=first + len(entries))
            if not self.keep_features:
                for entry in entries:
                    self.catalogue.forget_features(entry.id)

    def features(self, entry: Entry) -> LocalFeatures:
        return stored_features(self.layout.features(self.generation), entry)

    def remove(self, names: Iterable[str]) -> int:
        """Remove images by stored name; returns their number."""
        with self.catalogue.change():
            return self._remove(names)

    def remove_deleted(self, names: Iterable[str]) -> int:
        """Remove images whose files are gone; returns their number.

        Images on the list of removed ones whose files are gone are dropped from it: a later file of that name is
        another image.
        """
        kept_out = {name: self.layout.path_of(name) for name in self.catalogue.removed()}
        forgotten = [
            name
            for name, path in kept_out.items()
            if is_gone(path) and path.parent.is_dir()  # else its drive may be disconnected
        ]
        with self.catalogue.change():
            for name in forgotten:
                self.catalogue.forget_removed(name)
            return self._remove(names)

    def take_out(self, departure: Departure) -> int:
        """Remove images and forget folders; returns the number of images removed."""
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
        file = self.layout.features(self.generation)
        slots, size = self.catalogue.free_slot(), file.stat().st_size if file.exists() else 0
        freed = self.catalogue.freed()
        if freed is None or _is_too_much(freed, slots, size):
            unused_slots = 0 if self.store.address else slots - self.catalogue.count("slot is not null")
            unused = unused_slots, size - self.catalogue.feature_bytes()
            freed = Freed(*(max(0, each) for each in unused))
            with self.catalogue.change():
                self.catalogue.set_freed(freed)
        return _is_too_much(freed, slots, size)

    def compact(self, model: Encoding | None) -> None:
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

    def _compacted(self, model: Encoding | None) -> list[Entry]:
        """Copy the data of all images to the next generation; returns the images."""
        entries = list(self.catalogue.entries())
        by_slot = sorted((entry for entry in entries if entry.slot is not None), key=lambda entry: entry.slot or 0)
        fresh = self.generation + 1
        for leftover in (self.layout.vectors(fresh), self.layout.features(fresh)):
            leftover.unlink(missing_ok=True)  # it may be a hard link to a file in use
        moves = self.store.address is None  # a server frees space by itself
        slots = {entry.id: slot if moves else entry.slot or 0 for slot, entry in enumerate(by_slot)}
        if by_slot and moves and model is not None:
            self._copy_vectors(by_slot, model, fresh)
        offsets, size = self._copy_features(entries, fresh)
        sync_folder(self.layout.folder)
        for entry in sorted(entries, key=lambda entry: slots.get(entry.id, -1)):
            self.catalogue.move(entry.id, slot=slots.get(entry.id), offset=offsets.get(entry.id))
        self.catalogue.set("generation", str(fresh))
        self.catalogue.use(slots=len(by_slot) if moves else None, offsets=size)
        self.catalogue.set_freed(Freed(0, 0))
        return entries

    def _copy_vectors(self, entries: Sequence[Entry], model: Encoding, generation: int) -> None:
        slots = np.array([entry.slot for entry in entries], np.int64)
        whole, stored = self.table(model).vectors(self.catalogue.next_slot())
        rows, new = whole if stored is None else stored, self.store.table(generation, model)
        for start in range(0, len(slots), _COPIED_AT_ONCE):
            some = slice(start, start + _COPIED_AT_ONCE)
            new.write(start, rows[slots[some]].reshape(len(slots[some]), -1), entries[some])

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


def _is_too_much(freed: Freed, slots: int, size: int) -> bool:
    """Whether too many of `slots` slots, or of `size` bytes of features, are not in use."""
    return freed.slots > _UNUSED_SHARE * slots + _UNUSED_SLOTS or freed.bytes > _UNUSED_SHARE * size + _UNUSED_BYTES
