"""The truth about a collection: one SQLite file that says which images there are and where their data lies.

Everything else is either named here or does not count. Every change is one transaction; it is on the disk when the
call returns (write-ahead log, synchronous FULL), and readers see the state before it or after it.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

import numpy as np

from faemb.errors import FaembError, FormatError
from faemb.runtime.storage import sync_folder

FORMAT = "faemb-collection"
VERSION = 1
_USED_SLOTS, _USED_BYTES = "used slots", "used bytes"

_SCHEMA = """
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
    short_crc integer,
    code_crc integer,
    offset integer,
    length integer,
    features_crc integer
) strict;
create index by_waiting on images (id) where slot is null and features > 0;
create table unreadable (
    path text primary key, bytes integer not null, changed integer not null, reason text not null
) strict;
"""


@dataclass(frozen=True)
class Entry:
    """An image: its file as it was read, its place among the vectors, and that of its packed features.

    slot is None while the image waits to be encoded, and for good if it has no features; offset is None where the
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
    short_crc: int | None
    code_crc: int | None
    offset: int | None
    length: int | None
    features_crc: int | None


_COLUMNS = ", ".join(field.name for field in fields(Entry))
_POSITIONS = range(len(fields(Entry)))
_TYPES = {(place, kind) for place, field in enumerate(fields(Entry)) for kind in get_args(field.type) or (field.type,)}
"""What SQLite gives for each column of a database that is not damaged."""
_NOTHING_THERE = "a row has lost its content"  # a page that was cut short is read as zeros


@dataclass(frozen=True)
class Seen:
    """A file as a directory shows it: enough to tell, without reading it, that it has not changed."""

    bytes: int
    changed: int


class Catalogue:
    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise FormatError(f"there is no catalogue {path}")
        self._database = _opened(path)

    @classmethod
    def create(cls, path: Path, about: dict[str, str]) -> "Catalogue":
        """A new catalogue, there completely or not at all."""
        temporary = path.with_suffix(".new")
        for leftover in (temporary, *(Path(f"{temporary}-{end}") for end in ("wal", "shm", "journal"))):
            leftover.unlink(missing_ok=True)
        with _explained(path), closing(_connected(temporary)) as database:
            database.execute("pragma journal_mode = wal")  # which the file remembers
            database.executescript(f"begin; {_SCHEMA} commit;")
            database.executemany("insert into about values (?, ?)", about.items())
            database.execute("pragma wal_checkpoint(truncate)")
        temporary.rename(path)
        sync_folder(path.parent)
        return cls(path)

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def change(self) -> Iterator[None]:
        """All that happens in the block becomes true at its end, or none of it."""
        with _explained(self.path):
            self._database.execute("begin immediate")
            try:
                yield
                self._database.execute("commit")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("rollback")
                raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that is read in the block is of one moment; within another one, of that one's moment."""
        if self._database.in_transaction:
            yield
            return
        with _explained(self.path):
            self._database.execute("begin")
            try:
                yield
            finally:
                self._database.execute("rollback")

    def state(self) -> tuple[int, int]:
        """Differs from what it was if anything has changed since, by this process or another."""
        return int(self._one("pragma data_version")), self._database.total_changes

    def about(self) -> dict[str, str]:
        return dict(self._all("select name, value from about"))

    def say(self, name: str, value: str) -> None:
        self._run("insert into about values (?, ?) on conflict do update set value = excluded.value", name, value)

    def folders(self) -> list[str]:
        return [path for (path,) in self._all("select path from folders order by path")]

    def add_folder(self, path: str) -> None:
        self._run("insert or ignore into folders values (?)", path)

    def remove_folder(self, path: str) -> None:
        self._run("delete from folders where path = ?", path)

    def put(self, entry: dict[str, Any]) -> None:
        """A new image, or new content under a path that is known: it keeps its id."""
        names = ", ".join(entry)
        marks = ", ".join("?" * len(entry))
        # What is not said is nothing: a changed image has no slot until it is encoded again.
        unsaid = [field.name for field in fields(Entry) if field.name not in entry and field.name != "id"]
        updates = ", ".join([*(f"{name} = excluded.{name}" for name in entry), *(f"{name} = null" for name in unsaid)])
        self._run(
            f"insert into images ({names}) values ({marks}) on conflict (path) do update set {updates}",  # noqa: S608
            *entry.values(),
        )
        self.forget_unreadable(entry["path"])

    def look_again(self, path: str, seen: Seen) -> None:
        """The same content in a file that looks touched."""
        self._run("update images set bytes = ?, changed = ? where path = ?", seen.bytes, seen.changed, path)

    def place(self, image: int, slot: int, crcs: tuple[int, int, int]) -> None:
        """Say that an image has been encoded into a slot."""
        self._run(
            "update images set slot = ?, vector_crc = ?, short_crc = ?, code_crc = ? where id = ?", slot, *crcs, image
        )

    def distrust(self, image: int) -> None:
        """Its vector is to be made again."""
        self._run(
            "update images set slot = null, vector_crc = null, short_crc = null, code_crc = null where id = ?", image
        )

    def forget_features(self, images: Iterable[int]) -> None:
        marks = "update images set offset = null, length = null, features_crc = null where id = ?"
        self._database.executemany(marks, ((image,) for image in images))

    def move(self, image: int, *, slot: int | None, offset: int | None) -> None:
        """The same data at another place, after compaction."""
        self._run("update images set slot = ?, offset = ? where id = ?", slot, offset, image)

    def remove(self, path: str) -> bool:
        return self._run("delete from images where path = ?", path).rowcount > 0

    def entries(self, condition: str = "true", *values: Any) -> Iterator[Entry]:
        """Images in order of id; `condition` is SQL of this package, never of a user."""
        with _explained(self.path):  # damage may show at any row
            statement = f"select {_COLUMNS} from images where {condition} order by id"  # noqa: S608
            for row in self._database.execute(statement, values):
                if not _TYPES.issuperset(zip(_POSITIONS, map(type, row), strict=True)):
                    raise sqlite3.DatabaseError(_NOTHING_THERE)
                yield Entry(*row)

    def entry(self, path: str) -> Entry | None:
        return next(self.entries("path = ?", path), None)

    def waiting(self, most: int, most_features: int) -> list[Entry]:
        """The next images to be encoded: so many at most, with so many features in all, but one at least."""
        chosen = "select id from images where slot is null and features > 0 and offset is not null order by id limit ?"
        entries = list(self.entries(f"id in ({chosen})", most))
        total = np.cumsum([entry.features for entry in entries])
        return entries[: max(1, int(np.searchsorted(total, most_features, side="right")))]

    def ids(self, condition: str) -> list[int]:
        return [int(image) for (image,) in self._all(f"select id from images where {condition}")]  # noqa: S608

    def count(self, condition: str = "true") -> int:
        return int(self._one(f"select count(*) from images where {condition}"))  # noqa: S608

    def next_slot(self) -> int:
        """One beyond the last slot in use."""
        return int(self._one("select coalesce(max(slot) + 1, 0) from images"))

    def next_offset(self) -> int:
        return int(self._one("select coalesce(max(offset + length), 0) from images"))

    def free_slot(self) -> int:
        """Where the next row goes: what a removed image leaves is not used again before compaction.

        A reader may still have it mapped, and an index may still know what was there.
        """
        return max(self.next_slot(), self._used(_USED_SLOTS))

    def free_offset(self) -> int:
        """Where the next packed features go."""
        return max(self.next_offset(), self._used(_USED_BYTES))

    def use(self, *, slots: int | None = None, offsets: int | None = None) -> None:
        """Say that all before these have been written to in this generation."""
        for name, count in ((_USED_SLOTS, slots), (_USED_BYTES, offsets)):
            if count is not None:
                self.say(name, str(count))

    def _used(self, name: str) -> int:
        return int(self.about().get(name, "0"))

    def live(self) -> tuple[np.ndarray, np.ndarray]:
        """Slots in use, ascending, and the ids of their images."""
        rows = self._all("select slot, id from images where slot is not null order by slot")
        try:
            table = np.array(rows, np.int64).reshape(-1, 2)
        except (ValueError, OverflowError):
            table = np.array([[-1, -1]])
        if len(table) and (table[0, 0] < 0 or table[-1, 0] >= self.next_slot() or (np.diff(table[:, 0]) <= 0).any()):
            raise FormatError(f"{self.path} is damaged: slots are out of order; restore it from a copy")
        return table[:, 0], table[:, 1]

    def seen(self) -> dict[str, Seen]:
        """Every path that has been looked at, readable or not."""
        rows = self._all(
            "select path, bytes, changed from images union all select path, bytes, changed from unreadable"
        )
        return {path: Seen(size, changed) for path, size, changed in rows}

    def say_unreadable(self, path: str, seen: Seen, reason: str) -> None:
        text = reason.encode(errors="backslashreplace").decode()
        self._run("insert or replace into unreadable values (?, ?, ?, ?)", path, seen.bytes, seen.changed, text)

    def forget_unreadable(self, path: str) -> None:
        self._run("delete from unreadable where path = ?", path)

    def unreadable(self) -> dict[str, str]:
        return dict(self._all("select path, reason from unreadable order by path"))

    def fault(self) -> str | None:
        """What SQLite finds wrong with the file itself."""
        told = str(self._one("pragma integrity_check"))
        return None if told == "ok" else told

    def _run(self, statement: str, *values: Any) -> sqlite3.Cursor:
        with _explained(self.path):
            return self._database.execute(statement, values)

    def _all(self, statement: str) -> list[Any]:
        """Rows in which nothing is null."""
        with _explained(self.path):
            rows = self._database.execute(statement).fetchall()
            if any(None in row for row in rows):
                raise sqlite3.DatabaseError(_NOTHING_THERE)
            return rows

    def _one(self, statement: str) -> Any:
        return self._all(statement)[0][0]


def _opened(path: Path) -> sqlite3.Connection:
    """To read and to write; where nothing may be written and nobody writes, such as on a read-only disk, to read."""
    with _explained(path):
        try:
            return _connected(path)
        except sqlite3.OperationalError as error:
            if not _is_forbidden(error) or os.path.exists(f"{path}-wal"):
                raise
        uri = Path(os.path.abspath(path)).as_uri()
        return sqlite3.connect(f"{uri}?immutable=1", uri=True, isolation_level=None)


def _connected(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, timeout=30)
    try:
        database.execute("pragma synchronous = full")  # which reads the file
    except sqlite3.Error:
        database.close()
        raise
    return database


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.ProgrammingError as error:  # closed, or of another thread
        raise FaembError(f"{path} cannot be used here: {error}; open the collection again") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the second where damage is quoted
        text = str(error)
        if "full" in text or "disk I/O" in text:
            raise FaembError(
                f"{path} cannot be written: {text}; make room on the disk and run the same again"
            ) from error
        if _is_forbidden(error):
            raise FaembError(f"{path} cannot be written: {text}; check the folder's permissions") from error
        if "locked" in text or "busy" in text:
            raise FaembError(f"{path} is in use by another process; try again when it has ended") from error
        raise FormatError(f"{path} is damaged, or is no catalogue ({text}); restore it from a copy") from error


def _is_forbidden(error: Exception) -> bool:
    return "readonly" in str(error) or "unable to open" in str(error)
