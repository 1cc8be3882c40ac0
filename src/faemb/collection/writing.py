"""How a collection changes: images are gathered, the model learns if it must, images are encoded, dead slots compacted.

Each step works in small transactions and takes up where a killed one stopped: what is in the catalogue is done.
Data is written and synced before the catalogue names it.
"""

import os
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock, Timeout

from faemb.collection.catalogue import Catalogue, Entry, Seen
from faemb.collection.layout import Layout
from faemb.collection.model import Coded, Model
from faemb.collection.packing import pack, unpack
from faemb.collection.slots import SlotFile, read_at, write_at
from faemb.errors import FaembError, FormatError, InputError
from faemb.features import Extractor
from faemb.features.job import content_hash
from faemb.runtime import Progress, silent
from faemb.runtime.parallel import spread
from faemb.runtime.storage import sync_folder
from faemb.sets import PORTION, PORTION_DESCRIPTORS

_COMMIT_IMAGES, _COMMIT_BYTES, _COMMIT_SECONDS = 64, 1 << 25, 2.0
LEARNING_IMAGES = 1500
"""Images that a model learns from at most."""


@dataclass
class Report:
    """What a change has done."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    without_features: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """A sentence for each file that could not be used."""
    seconds: float = 0.0


class Described(NamedTuple):
    """An image as a worker has read it; `packed` is empty where the content is the one that is known."""

    hash: str
    seen: Seen
    size: tuple[int, int]
    features: int
    packed: bytes


class Known(NamedTuple):
    path: Path
    hash: str | None


@dataclass(frozen=True)
class Describe:
    """The task that travels to the workers."""

    extractor: Extractor

    def __call__(self, file: Known) -> Described:
        seen = seen_now(file.path)
        mark = content_hash(file.path)
        if mark == file.hash:
            return Described(mark, seen, (0, 0), 0, b"")
        features = self.extractor.extract(file.path)
        return Described(mark, seen, features.image_size, len(features), pack(features))


def seen_now(path: Path) -> Seen:
    try:
        status = os.stat(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    return Seen(status.st_size, status.st_mtime_ns)


@contextmanager
def only_writer(layout: Layout) -> Iterator[None]:
    """One process changes a collection at a time; the system lets go of the lock when that process ends, however."""
    lock = FileLock(layout.lock, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise FaembError(
            f"{layout.folder} is being changed by another process; wait until it has ended, then run this again"
        ) from None
    except OSError as error:
        raise FaembError(f"{layout.folder} cannot be changed: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()


class Writer:
    """Changes a collection; to be used by the one process that holds its lock."""

    def __init__(self, layout: Layout, catalogue: Catalogue, progress: Progress | None = None) -> None:
        self.layout, self.catalogue = layout, catalogue
        self.report = progress or silent
        self.generation = int(catalogue.about()["generation"])
        self._sweep()

    # Gathering: files become entries with packed features.

    def gather(self, files: Sequence[Path], extractor: Extractor, jobs: int | None, outcome: Report) -> None:
        """Describe files that are new or changed; those that look as they did are not even opened."""
        wanted = list(self._to_describe(files, outcome))
        buffer = _Buffer(self, outcome)
        self.report("features", 0, len(wanted))
        for done, (file, result) in enumerate(spread(Describe(extractor), wanted, jobs=jobs), 1):
            buffer.take(file, result)
            self.report("features", done, len(wanted))
        buffer.flush()

    def _to_describe(self, files: Sequence[Path], outcome: Report) -> Iterator[Known]:
        known, unreadable = self.catalogue.seen(), self.catalogue.unreadable()
        for file in files:
            name = self.layout.name_of(file)
            if name not in known:
                yield Known(file, None)
                continue
            try:
                same = seen_now(file) == known[name]
            except InputError:
                same = False  # the worker says what is wrong
            entry = self.catalogue.entry(name)
            if same and entry is not None:
                outcome.unchanged += 1
            elif same:
                outcome.failed.append(_told_of(file, unreadable[name]))
            else:
                yield Known(file, entry.hash if entry is not None else None)

    def describe_again(self, entries: Sequence[Entry], extractor: Extractor, jobs: int | None, outcome: Report) -> None:
        """Read the files of images whose features are lost; one that has its vector stays though its file is gone."""
        known = {self.layout.path_of(entry.path): entry for entry in entries}
        buffer = _Buffer(self, outcome)
        for file, result in spread(Describe(extractor), [Known(path, None) for path in known], jobs=jobs):
            if isinstance(result, Described) or known[file.path].slot is None:
                buffer.take(file, result)
        buffer.flush()

    # Learning and encoding.

    def learn(self, model: Model, condition: str = "features > 0") -> None:
        """Fit the model on a sample of the images that were gathered, chosen by name."""
        entries = sorted(self.catalogue.entries(f"{condition} and offset is not null"), key=lambda entry: entry.path)
        if not entries:
            raise InputError("none of the images has local features; a model cannot learn from them")
        chosen = np.random.default_rng(model.encoder.seed).permutation(len(entries))[:LEARNING_IMAGES]
        model.fit(StoredSets(self, [entries[i] for i in np.sort(chosen)]), progress=self.report)

    def encode(self, model: Model, outcome: Report) -> None:
        """Encode all images that wait for it, a batch at a time."""
        total, done = self.catalogue.count("slot is null and features > 0"), 0
        model.encoder.prepare(total)
        while batch := self.catalogue.waiting(PORTION, PORTION_DESCRIPTORS):
            self.report("encode", done, total)
            self.place(batch, model.encode([self.features(entry).descriptors for entry in batch]), model)
            done += len(batch)
        self.report("encode", total, total)

    def place(self, entries: Sequence[Entry], coded: Coded, model: Model) -> None:
        with self.catalogue.change(), writing(self.layout.folder):
            first = self.catalogue.free_slot()
            crcs = [file.write(first, rows) for file, rows in zip(self.slot_files(model), coded, strict=True)]
            for k, entry in enumerate(entries):
                self.catalogue.place(entry.id, first + k, (crcs[0][k], crcs[1][k], crcs[2][k]))
            self.catalogue.use(slots=first + len(entries))

    def slot_files(self, model: Model) -> tuple[SlotFile, SlotFile, SlotFile]:
        return slot_files(self.layout, self.generation, model)

    def features(self, entry: Entry) -> Any:
        return stored_features(self.layout.features(self.generation), entry)

    # Compaction.

    def compact(self, model: Model) -> None:
        """New files with live data only, then one transaction that names them; the old ones go afterwards.

        Where there is no room for both, all stays as it is: compaction is due again after the next change.
        """
        entries = list(self.catalogue.entries())
        by_slot = sorted((entry for entry in entries if entry.slot is not None), key=lambda entry: entry.slot or 0)
        fresh = self.generation + 1
        self._sweep()
        try:
            if by_slot:
                self._copy_slots(by_slot, model, fresh)
            offsets, size = self._copy_features(entries, fresh)
            sync_folder(self.layout.folder)
        except OSError:
            self._sweep()
            return
        with self.catalogue.change():
            slots = {entry.id: slot for slot, entry in enumerate(by_slot)}
            for entry in sorted(entries, key=lambda entry: slots.get(entry.id, -1)):
                self.catalogue.move(entry.id, slot=slots.get(entry.id), offset=offsets.get(entry.id))
            self.catalogue.say("generation", str(fresh))
            self.catalogue.use(slots=len(by_slot), offsets=size)
        self.generation = fresh
        self._sweep()

    def _sweep(self) -> None:
        for leftover in self.layout.stale(self.generation):
            with suppress(OSError):  # on some systems a file that is being read stays until the next time
                leftover.unlink()

    def _copy_slots(self, entries: Sequence[Entry], model: Model, generation: int) -> None:
        total = self.catalogue.next_slot()
        slots = np.array([entry.slot for entry in entries], np.int64)
        for old, new in zip(
            slot_files(self.layout, self.generation, model), slot_files(self.layout, generation, model), strict=True
        ):
            rows = old.rows(total)
            for start in range(0, len(slots), 4096):
                new.write(start, rows[slots[start : start + 4096]])

    def _copy_features(self, entries: Sequence[Entry], generation: int) -> tuple[dict[int, int], int]:
        """Where the features of each image begin in the new file, and its length."""
        offsets, offset = {}, 0
        for entry in entries:
            if entry.offset is None or entry.length is None:
                continue
            content = _packed(self.layout.features(self.generation), entry)
            write_at(self.layout.features(generation), offset, content, durable=False)
            offsets[entry.id] = offset
            offset += entry.length
        if offsets:
            write_at(self.layout.features(generation), offset, b"")
        return offsets, offset


class StoredSets(Sequence[np.ndarray]):
    """Descriptors of images, each read when it is asked for."""

    def __init__(self, writer: Writer, entries: Sequence[Entry]) -> None:
        self._writer, self._entries = writer, entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, place: Any) -> Any:
        return self._writer.features(self._entries[place]).descriptors


class _Buffer:
    """What workers have described, until it is written: images by the dozen cost one wait for the disk."""

    def __init__(self, writer: Writer, outcome: Report) -> None:
        self._writer, self._outcome = writer, outcome
        self._held: list[tuple[Path, Described | Exception]] = []
        self._since = time.monotonic()

    def take(self, file: Known, result: Described | Exception) -> None:
        self._held.append((file.path, result))
        size = sum(len(each.packed) for _, each in self._held if isinstance(each, Described))
        waited = time.monotonic() - self._since
        if len(self._held) >= _COMMIT_IMAGES or size >= _COMMIT_BYTES or waited > _COMMIT_SECONDS:
            self.flush()

    def flush(self) -> None:
        layout, catalogue = self._writer.layout, self._writer.catalogue
        with catalogue.change(), writing(layout.folder):
            offset = catalogue.free_offset()
            described = [(path, each) for path, each in self._held if isinstance(each, Described)]
            write_at(layout.features(self._writer.generation), offset, b"".join(each.packed for _, each in described))
            for path, each in described:
                self._put(layout.name_of(path), each, offset)
                offset += len(each.packed)
            catalogue.use(offsets=offset)
            for path, outcome in self._held:
                if isinstance(outcome, Exception):
                    self._refuse(path, outcome)
        self._held, self._since = [], time.monotonic()

    def _put(self, name: str, described: Described, offset: int) -> None:
        known = self._writer.catalogue.entry(name)
        if not described.packed:
            self._writer.catalogue.look_again(name, described.seen)
            self._outcome.unchanged += 1
            return
        self._writer.catalogue.put(
            {
                "path": name,
                "hash": described.hash,
                "bytes": described.seen.bytes,
                "changed": described.seen.changed,
                "width": described.size[0],
                "height": described.size[1],
                "features": described.features,
                "offset": offset,
                "length": len(described.packed),
                "features_crc": zlib.crc32(described.packed),
            }
        )
        self._outcome.changed += known is not None
        self._outcome.added += known is None
        if not described.features:
            self._outcome.without_features.append(str(self._writer.layout.path_of(name)))

    def _refuse(self, path: Path, error: Exception) -> None:
        name = self._writer.layout.name_of(path)
        reason = str(error) if isinstance(error, FaembError) else f"{path}: unexpected fault {error!r}"[:300]
        seen = Seen(-1, -1)
        with suppress(InputError):
            if isinstance(error, InputError):  # another error has another cause than the file: it is tried again
                seen = seen_now(path)
        self._outcome.removed += self._writer.catalogue.remove(name)
        self._writer.catalogue.say_unreadable(name, seen, reason)
        self._outcome.failed.append(_told_of(path, reason))


def _told_of(path: Path, reason: str) -> str:
    return reason if str(path) in reason else f"{path}: {reason}"


def slot_files(layout: Layout, generation: int, model: Model) -> tuple[SlotFile, SlotFile, SlotFile]:
    """Of vectors, short vectors and codes."""
    return (
        SlotFile(layout.vectors(generation), "<f4", model.width),
        SlotFile(layout.short(generation), "<f4", model.short_width),
        SlotFile(layout.codes(generation), "u1", model.code_bytes),
    )


def stored_features(file: Path, entry: Entry) -> Any:
    """The packed features of an image, checked."""
    if entry.offset is None or entry.length is None:
        raise InputError(f"the local features of {entry.path} are not kept in this collection")
    content = _packed(file, entry)
    if zlib.crc32(content) != entry.features_crc:
        raise FormatError(f"{file} is damaged at the features of {entry.path}; run: faemb check --repair")
    return unpack(content)


def _packed(file: Path, entry: Entry) -> bytes:
    assert entry.offset is not None and entry.length is not None  # noqa: S101, PT018
    try:
        return read_at(file, entry.offset, entry.length)
    except OSError as error:
        raise FormatError(f"{file} cannot be read: {error.strerror}; run: faemb check --repair") from error
    except ValueError as error:
        raise FormatError(f"the catalogue is damaged at {entry.path} ({error}); run: faemb check --repair") from error


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FaembError(
            f"{folder} cannot be written: {error.strerror or error}; what it held is safe: "
            "make room on the disk and run the same again"
        ) from error
