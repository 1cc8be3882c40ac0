"""The catalogue of a collection: one SQLite file with a row for each image, which gives the place of its data.

Data in other files counts only if the catalogue names it. Every change is one transaction, which is on the disk when
the call returns (write-ahead log, synchronous FULL); readers see the state before it or after it.
"""

import sqlite3
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

import numpy as np

from faemb.collection.database import connected, explained, opened
from faemb.collection.hints import repair_command
from faemb.collection.layout import MODEL, InUse, is_model_name, relearned_model
from faemb.collection.rows import (
    TABLES,
    DamagedRow,
    add_checksums,
    damaged_rows,
    has_checksums,
    maintain_checksums,
    row_checksum,
)
from faemb.errors import FaembError, FormatError
from faemb.runtime.storage import sync_folder

Result = TypeVar("Result")

FORMAT = "faemb-collection"
VERSION = 4
_USED_SLOTS, _USED_BYTES = "used slots", "used bytes"
_IDS_AT_ONCE = 500
_NEXT = ("next_generation", "next_model", "next_learned_from")
_TO_STAGE = (
    "features > 0 and offset is not null and"
    " not exists (select 1 from staged where staged.id = images.id and staged.offset = images.offset)"
)

ADDED_IN_VERSION_3 = (
    "create table staged (id integer primary key, slot integer not null unique, vector_crc integer not null,"
    " offset integer not null) strict",
    "create table removed (path text primary key) strict",
)
_SCHEMA = f"""
create table about (name text primary key, value text not null) strict;
create table folders (path text primary key) strict;
create table images (
    id integer primary key autoincrement,
    path text not null unique,
    hash text not null,
    bytes integer not null,
    changed integer not null,
    width integer not null,
    height integer not null,
    features integer not null,
    slot integer unique,
    vector_crc integer,
    offset integer,
    length integer,
    features_crc integer
) strict;
create index by_waiting on images (id) where slot is null and features > 0;
create table unreadable (
    path text primary key, bytes integer not null, changed integer not null, reason text not null
) strict;
{"; ".join(ADDED_IN_VERSION_3)};
"""
# staged: vectors of the next generation, while the model is learned again. A row counts while its image's features lie
# at the same offset: those of an image that has changed lie elsewhere.
# removed: images that are passed over when they are found in a folder.


@dataclass(frozen=True)
class Entry:
    """An image: its file as it was read, the slot of its vector, and the place of its packed features.

    slot is None while the image waits to be encoded, and always if it has no features; offset is None where the
    features are not kept.
    """

    id: int
    path: str
    hash: str
    bytes: int
    changed: int
    width: int
    height: int
    features: int
    slot: int | None
    vector_crc: int | None
    offset: int | None
    length: int | None
    features_crc: int | None


_COLUMNS = ", ".join(field.name for field in fields(Entry))
_POSITIONS = range(len(fields(Entry)))
_TYPES = {(place, kind) for place, field in enumerate(fields(Entry)) for kind in get_args(field.type) or (field.type,)}
"""(column, Python type) of every value that an undamaged database can give."""
_COUNTS = [place for place, field in enumerate(fields(Entry)) if field.name not in ("path", "hash", "changed")]
"""Columns of counts and places; `changed` is a time, which may lie before 1970."""
_WHOLE = ("bytes", "changed")
_MOST_DIGITS = 15
_EMPTY_ROW = "a row has lost its content"  # SQLite reads a missing page as zeros


class Outline(NamedTuple):
    """Some facts about an image, as stored: its number, name, content, and when its file was changed."""

    id: int
    path: str
    hash: str
    changed: int


@dataclass(frozen=True)
class Seen:
    """Size and modification time of a file: if both are the same, the file is taken to be unchanged."""

    bytes: int
    changed: int


@dataclass(frozen=True)
class Relearning:
    """A new model that has been learned, and which is encoding the images of its generation."""

    generation: int
    model: str
    """Its fingerprint."""
    learned_from: int


class Catalogue:
    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise FormatError(f"there is no catalogue at {path}")
        self._database = opened(path)
        self._guard: Callable[[], None] | None = None
        self._is_closed = False
        try:
            with explained(path):
                self._checked = has_checksums(self._database)
                if self._checked:
                    maintain_checksums(self._database)
        except FaembError:
            self.close()
            raise

    @classmethod
    def create(cls, path: Path, about: dict[str, str]) -> "Catalogue":
        """A new catalogue, written beside its place and renamed into it."""
        temporary = path.with_suffix(".new")
        for leftover in (temporary, *(Path(f"{temporary}-{end}") for end in ("wal", "shm", "journal"))):
            leftover.unlink(missing_ok=True)
        with explained(path), closing(connected(temporary)) as database:
            database.execute("pragma journal_mode = wal")  # stored in the file
            database.executescript(f"begin; {_SCHEMA}")
            add_checksums(database)
            database.executemany("insert into about (name, value) values (?, ?)", about.items())
            database.execute("commit")
            database.execute("pragma wal_checkpoint(truncate)")
        temporary.rename(path)
        sync_folder(path.parent)
        return cls(path)

    def close(self) -> None:
        self._is_closed = True
        self._database.close()

    def _roll_back(self) -> None:
        """End the transaction, unless it has ended: closing ends it too, and an abandoned generator comes later."""
        if not self._is_closed and self._database.in_transaction:
            self._database.execute("rollback")

    @contextmanager
    def change(self) -> Iterator[None]:
        """One transaction: all changes made in the block, or none of them."""
        with explained(self.path):
            self._database.execute("begin immediate")
            try:
                if self._guard is not None:
                    self._guard()
                yield
                self._database.execute("commit")
            except BaseException:
                self._roll_back()
                raise

    @contextmanager
    def guarded(self, guard: Callable[[], None]) -> Iterator[None]:
        """Call `guard` at the beginning of every change in the block, inside its transaction; its error stops it."""
        before, self._guard = self._guard, guard
        try:
            yield
        finally:
            self._guard = before

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads in the block see one state; nested snapshots see the state of the outer one."""
        if self._database.in_transaction:
            yield
            return
        with explained(self.path):
            self._database.execute("begin")
            try:
                yield
            finally:
                self._roll_back()

    @contextmanager
    def consistent(self, read: Callable[[], Result]) -> Iterator[Result]:
        """One state, as in `snapshot`, and what `read` gives in it from the files that the state names.

        It reads again in a newer state if another process has replaced these files meanwhile.
        """
        with ExitStack() as snapshot:
            while True:
                snapshot.enter_context(self.snapshot())
                generation = self.generation()
                try:
                    result = read()
                    break
                except FormatError:
                    snapshot.close()
                    if self.generation() == generation:
                        raise
            yield result

    def state(self) -> tuple[int, int]:
        """A value that is different after any change, by this process or another."""
        return int(self._one("pragma data_version")), self._database.total_changes

    def about(self) -> dict[str, str]:
        """Facts about the whole collection: format, version, generation, model, ..."""
        return dict(self._verified("about", "order by rowid"))

    def generation(self) -> int:
        return self._number(self.about(), "generation")

    def in_use(self) -> InUse:
        """The files that this catalogue names."""
        about, coming = self.about(), self.relearning()
        model, generation = about.get("model_file", MODEL), self._number(about, "generation")
        if not is_model_name(model):
            raise self._damaged(f"its model is {model!r}", repairable=False)
        if coming is None:
            return InUse(generation, model)
        return InUse(generation, model, coming.generation, relearned_model(coming.generation))

    def learned_from(self) -> int | None:
        """Number of images from which the model has learned; 0 if it was given, None if that is not known."""
        about = self.about()
        return self._number(about, "learned_from") if about.get("learned_from") else None

    def set(self, name: str, value: str) -> None:
        """Change one value of `about`."""
        statement = "insert into about (name, value) values (?, ?) on conflict do update set value = excluded.value"
        self.run(statement, name, value)

    def _drop(self, *names: str) -> None:
        for name in names:
            self.run("delete from about where name = ?", name)

    def folders(self) -> list[str]:
        return [path for (path,) in self._verified("folders")]

    def add_folder(self, path: str) -> None:
        self.run("insert or ignore into folders (path) values (?)", path)

    def remove_folder(self, path: str) -> None:
        self.run("delete from folders where path = ?", path)

    def put(self, entry: dict[str, str | int]) -> None:
        """Add an image, or replace the content of the image with this path, which keeps its id.

        Columns not given become NULL: a changed image has no slot until it is encoded again.
        """
        names = ", ".join(entry)
        marks = ", ".join("?" * len(entry))
        others = [field.name for field in fields(Entry) if field.name not in entry and field.name != "id"]
        updates = ", ".join([*(f"{name} = excluded.{name}" for name in entry), *(f"{name} = null" for name in others)])
        self.run(
            f"insert into images ({names}) values ({marks}) on conflict (path) do update set {updates}",  # noqa: S608
            *entry.values(),
        )
        self.forget_unreadable(str(entry["path"]))

    def set_seen(self, path: str, seen: Seen) -> None:
        """Record a new modification time of a file with the same content."""
        self.run("update images set bytes = ?, changed = ? where path = ?", seen.bytes, seen.changed, path)

    def rename(self, image: int, path: str, seen: Seen) -> bool:
        """Give an image the path of another file with the same content; false if there is no such image."""
        self.forget_unreadable(path)
        statement = "update images set path = ?, bytes = ?, changed = ? where id = ?"
        return self.run(statement, path, seen.bytes, seen.changed, image).rowcount > 0

    def names_in(self, table: str) -> list[str]:
        """All paths in a table of images, folders or unreadable files."""
        return [path for (path,) in self._all(f"select path from {table} order by path", of=(str,))]  # noqa: S608

    def rename_all(self, table: str, names: Mapping[str, str]) -> None:
        """Replace paths in a table; what else has a new path is replaced too."""
        with explained(self.path):
            self._database.executemany(
                f"update or replace {table} set path = ? where path = ?",  # noqa: S608
                [(new, old) for old, new in names.items()],
            )

    def place(self, image: int, slot: int, crc: int) -> None:
        """Record the slot and the checksum of an image's vector."""
        self.run("update images set slot = ?, vector_crc = ? where id = ?", slot, crc, image)

    def forget_vector(self, image: int) -> None:
        """Mark the image as waiting to be encoded again."""
        self.run("update images set slot = null, vector_crc = null where id = ?", image)

    def forget_features(self, condition: str, *values: int) -> None:
        """Record that features are not stored; `condition` is SQL of this package, never of a user."""
        self.run(f"update images set offset = null, length = null, features_crc = null where {condition}", *values)  # noqa: S608

    def move(self, image: int, *, slot: int | None, offset: int | None) -> None:
        """Record the new places of an image's data after compaction."""
        self.run("update images set slot = ?, offset = ? where id = ?", slot, offset, image)

    def remove(self, path: str) -> bool:
        return self.run("delete from images where path = ?", path).rowcount > 0

    def entries(self, condition: str = "true", *values: str | int) -> Iterator[Entry]:
        """Images in order of id; `condition` is SQL of this package, never of a user."""
        for entry in self._entries(condition, *values):
            if entry is None:
                raise self._damaged("an image's row does not match its checksum")
            yield entry

    def sound_entries(self) -> Iterator[Entry]:
        """All images but those whose rows are damaged."""
        return filter(None, self._entries("true"))

    def _entries(self, condition: str, *values: str | int) -> Iterator[Entry | None]:
        """None in the place of an entry whose row is damaged, or has a value that no image has."""
        with explained(self.path):  # damage may be found at any row
            statement = f"select checksum, {_COLUMNS} from images where {condition} order by id"  # noqa: S608
            for checksum, *row in self._database.execute(statement, values):
                sound = row_checksum(row) == checksum and _is_possible(row)
                yield Entry(*row) if sound else None

    def entry(self, path: str) -> Entry | None:
        return next(self.entries("path = ?", path), None)

    def waiting(self, most: int, most_features: int) -> list[Entry]:
        """The next images to encode: at most `most`, with at most `most_features` in all, but at least one."""
        return self._portion("slot is null and features > 0 and offset is not null", (), most, most_features)

    def _portion(self, condition: str, values: tuple[int, ...], most: int, most_features: int) -> list[Entry]:
        chosen = f"select id from images where {condition} order by id limit ?"  # noqa: S608
        entries = list(self.entries(f"id in ({chosen})", *values, most))
        total = np.cumsum([entry.features for entry in entries])
        return entries[: max(1, int(np.searchsorted(total, most_features, side="right")))]

    def ids(self, condition: str) -> list[int]:
        return [int(image) for (image,) in self._all(f"select id from images where {condition}", of=(int,))]  # noqa: S608

    def paths(self, images: Iterable[int]) -> dict[int, str]:
        """The stored path of each image."""
        wanted = list(images)
        found: dict[int, str] = {}
        for start in range(0, len(wanted), _IDS_AT_ONCE):
            part = wanted[start : start + _IDS_AT_ONCE]
            marks = ", ".join("?" * len(part))
            statement = f"select id, path from images where id in ({marks})"  # noqa: S608
            found.update(self._all(statement, *part, of=(int, str)))
        for image in wanted:
            if image not in found:
                raise FormatError(f"{self.path} is damaged: the image {image} is not in it; restore it from a copy")
        return found

    def entries_of(self, images: Iterable[int]) -> dict[int, Entry]:
        """The entry of each image."""
        wanted, found = sorted(images), {}
        for start in range(0, len(wanted), _IDS_AT_ONCE):
            part = wanted[start : start + _IDS_AT_ONCE]
            marks = ", ".join("?" * len(part))
            found.update({entry.id: entry for entry in self.entries(f"id in ({marks})", *part)})
        for image in wanted:
            if image not in found:
                raise FormatError(f"{self.path} is damaged: the image {image} is not in it; restore it from a copy")
        return found

    def hashes(self) -> dict[str, str]:
        """The content hash of each image, by path."""
        return dict(self._all("select path, hash from images", of=(str, str)))

    def outline(self) -> list[Outline]:
        """Of all images, without comparing rows with their checksums."""
        rows = self._all("select id, path, hash, changed from images", of=(int, str, str, int))
        return list(map(Outline._make, rows))

    def names_by_hash(self, sizes: Container[int]) -> dict[str, list[str]]:
        """Paths of the images whose files have one of these sizes in bytes, by content hash."""
        names: dict[str, list[str]] = {}
        for path, content, size in self._all("select path, hash, bytes from images", of=(str, str, int)):
            if size in sizes:
                names.setdefault(content, []).append(path)
        return names

    def feature_bytes(self) -> int:
        """Total size of the packed features that are in use."""
        return int(self._one("select coalesce(sum(length), 0) from images where offset is not null"))

    def count(self, condition: str = "true") -> int:
        return int(self._one(f"select count(*) from images where {condition}"))  # noqa: S608

    def next_slot(self) -> int:
        """The slot after the last one in use."""
        return int(self._one("select coalesce(max(slot) + 1, 0) from images"))

    def next_offset(self) -> int:
        return int(self._one("select coalesce(max(offset + length), 0) from images"))

    def free_slot(self) -> int:
        """Slot for the next vector.

        Slots of removed images are not used again before compaction: a reader may still have them mapped, and an index
        may still refer to their old content.
        """
        return max(self.next_slot(), self._used(_USED_SLOTS))

    def free_offset(self) -> int:
        """Offset for the next packed features."""
        return max(self.next_offset(), self._used(_USED_BYTES))

    def use(self, *, slots: int | None = None, offsets: int | None = None) -> None:
        """Record that all slots and bytes before these have been written to in this generation."""
        for name, count in ((_USED_SLOTS, slots), (_USED_BYTES, offsets)):
            if count is not None:
                self.set(name, str(count))

    # Vectors of a model that was learned again.

    def relearning(self) -> Relearning | None:
        """The one that is under way, or was interrupted."""
        about = self.about()
        if not about.keys() >= set(_NEXT):
            return None
        generation, model, learned_from = _NEXT
        return Relearning(self._number(about, generation), about[model], self._number(about, learned_from))

    def begin_relearning(self, coming: Relearning) -> None:
        """Record a new model; nothing is encoded with it yet."""
        self.run("delete from staged")
        for name, value in zip(_NEXT, (coming.generation, coming.model, coming.learned_from), strict=True):
            self.set(name, str(value))

    def stage(self, entry: Entry, slot: int, crc: int) -> None:
        """Record the vector of the next generation of an image."""
        statement = "insert or replace into staged (id, slot, vector_crc, offset) values (?, ?, ?, ?)"
        self.run(statement, entry.id, slot, crc, entry.offset)

    def next_staged_slot(self) -> int:
        return int(self._one("select coalesce(max(slot) + 1, 0) from staged"))

    def unstaged(self, after: int, most: int, most_features: int) -> list[Entry]:
        """The next images after an id to encode for the next generation, as `waiting` gives those of this one."""
        return self._portion(f"id > ? and {_TO_STAGE}", (after,), most, most_features)

    def count_unstaged(self) -> int:
        return self.count(_TO_STAGE)

    def end_relearning(self, coming: Relearning) -> None:
        """The new model and its vectors take the place of the old ones."""
        self.run("update images set slot = null, vector_crc = null")
        self.run(
            "update images set (slot, vector_crc) = (select staged.slot, staged.vector_crc from staged"
            " where staged.id = images.id and staged.offset = images.offset) where features > 0"
        )
        self.set("generation", str(coming.generation))
        self.set("model", coming.model)
        self.set("model_file", relearned_model(coming.generation))
        self.set("learned_from", str(coming.learned_from))
        self.use(slots=self.next_staged_slot())
        self.run("delete from staged")
        self._drop(*_NEXT)

    # Images that were removed, and that are passed over when they are found in a folder.

    def removed(self) -> frozenset[str]:
        return frozenset(path for (path,) in self._verified("removed"))

    def add_removed(self, path: str) -> None:
        self.run("insert or ignore into removed (path) values (?)", path)

    def forget_removed(self, path: str) -> None:
        self.run("delete from removed where path = ?", path)

    def _used(self, name: str) -> int:
        about = self.about()
        return self._number(about, name) if name in about else 0

    def _number(self, about: Mapping[str, str], name: str) -> int:
        """A whole number among the facts."""
        text = about.get(name, "")
        if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
            raise self._damaged(f"{name} is {text!r}", repairable=False)
        return int(text)

    def live(self) -> tuple[np.ndarray, np.ndarray]:
        """Slots in use, ascending, and the ids of their images."""
        rows = self._all("select slot, id from images where slot is not null order by slot", of=(int, int))
        table = np.array(rows, np.int64).reshape(-1, 2)
        if len(table) and (table[0, 0] < 0 or table[-1, 0] >= self.next_slot() or (np.diff(table[:, 0]) <= 0).any()):
            raise self._damaged("slots are out of order")
        return table[:, 0], table[:, 1]

    def seen(self) -> dict[str, Seen]:
        """Size and time of every known file, readable or not, by path."""
        rows = self._all(
            "select path, bytes, changed from images union all select path, bytes, changed from unreadable",
            of=(str, int, int),
        )
        return {path: Seen(size, changed) for path, size, changed in rows}

    def add_unreadable(self, path: str, seen: Seen, reason: str) -> None:
        text = reason.encode(errors="backslashreplace").decode()
        statement = "insert or replace into unreadable (path, bytes, changed, reason) values (?, ?, ?, ?)"
        self.run(statement, path, seen.bytes, seen.changed, text)

    def forget_unreadable(self, path: str) -> None:
        self.run("delete from unreadable where path = ?", path)

    def unreadable(self) -> dict[str, str]:
        return {path: reason for path, *_, reason in self._verified("unreadable")}

    def fault(self) -> str | None:
        """The first fault that SQLite finds in the file; None if it is undamaged."""
        found = str(self._one("pragma integrity_check", str))
        return None if found == "ok" else found

    def run(self, statement: str, *values: str | int | None) -> sqlite3.Cursor:
        """Execute one SQL statement of this package."""
        with explained(self.path):
            return self._database.execute(statement, values)

    def damaged_rows(self) -> list[DamagedRow]:
        """Rows that do not match their checksums, of all tables."""
        with explained(self.path):
            return list(damaged_rows(self._database))

    def drop_row(self, row: DamagedRow) -> None:
        self.run(f"delete from {row.table} where rowid = ?", row.rowid)  # noqa: S608

    def rewrite(self, row: DamagedRow, **values: str | int | None) -> None:
        """Replace values of an image's row, which gets the checksum of what it holds then."""
        names = ", ".join(f"{name} = ?" for name in values)
        self.run(f"update images set {names} where rowid = ?", *values.values(), row.rowid)  # noqa: S608

    def reindex(self) -> None:
        """Rebuild SQLite's own indexes from the tables."""
        self.run("reindex")

    def add_checksums(self) -> None:
        """As format version 4 has them."""
        with explained(self.path):
            add_checksums(self._database)
        self._checked = True

    def _verified(self, table: str, order: str = "order by path") -> list[list[Any]]:
        """All rows of a table, compared with their checksums."""
        columns = TABLES[table]
        kinds = tuple(int if column in _WHOLE else str for column in columns)
        if not self._checked:
            return list(map(list, self._all(f"select {', '.join(columns)} from {table} {order}", of=kinds)))  # noqa: S608
        rows = self._all(f"select checksum, {', '.join(columns)} from {table} {order}", of=(int, *kinds))  # noqa: S608
        for checksum, *row in rows:
            if row_checksum(row) != checksum:
                fault = f"{row[0]!r} in the table {table} does not match its checksum"
                raise self._damaged(fault, repairable=table != "about")
        return [row for _, *row in rows]

    def _damaged(self, fault: str, *, repairable: bool = True) -> FormatError:
        cure = (
            f"run: {repair_command(self.path)}, or restore it from a copy" if repairable else "restore it from a copy"
        )
        return FormatError(f"{self.path} is damaged: {fault}; {cure}")

    def _all(self, statement: str, *values: int, of: tuple[type, ...]) -> list[tuple[Any, ...]]:
        """All rows; an error if a value has not the type of its column, as only a damaged one has."""
        with explained(self.path):
            rows = self._database.execute(statement, values).fetchall()
        for number, kind in enumerate(of):
            if not {kind}.issuperset(type(row[number]) for row in rows):
                raise self._damaged(_EMPTY_ROW)
        return rows

    def _one(self, statement: str, of: type = int) -> Any:
        return self._all(statement, of=(of,))[0][0]


def _is_possible(row: Sequence[Any]) -> bool:
    """Whether each value has its type, and counts and places are not negative."""
    return _TYPES.issuperset(zip(_POSITIONS, map(type, row), strict=True)) and all(
        value is None or value >= 0 for value in map(row.__getitem__, _COUNTS)
    )
