"""The catalogue of a collection: one SQLite file with a row for each image, which says where its data is stored.

Data in other files is valid only if the catalogue names it. Facts about the whole collection are in `facts`,
files that are not among the images in `other_files`, transactions in `transactions`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

import numpy as np

from faemb.collection.database import connected, explained
from faemb.collection.facts import Relearning
from faemb.collection.other_files import OtherFiles, Seen
from faemb.collection.rows import DamagedRow, add_checksums, row_checksum
from faemb.collection.schema import INDEXES, SCHEMA
from faemb.collection.transactions import EMPTY_ROW, marks, portions
from faemb.errors import FormatError
from faemb.runtime.storage import sync_folder

_TO_STAGE = (
    "features > 0 and offset is not null and"
    " not exists (select 1 from staged where staged.id = images.id and staged.offset = images.offset)"
)


@dataclass(frozen=True)
class Entry:
    """An image: its file as it was read, the slot of its vector, and the place of its packed features.

    slot is None while the image waits to be encoded, and always if it has no features; offset is None if the features
    are not stored.
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
"""(column, Python type) of every value that an undamaged database can contain."""
_COUNTS = [place for place, field in enumerate(fields(Entry)) if field.name not in ("path", "hash", "changed")]
"""Columns of counts and positions, which are not negative; `changed` is a time, which may lie before 1970."""
_SLOTS_AT_ONCE = 1 << 18
_BEFORE_ALL = -(1 << 63)


class Outline(NamedTuple):
    """Id, stored name and content hash of an image, and the modification time of its file."""

    id: int
    path: str
    hash: str
    changed: int


class Recorded(NamedTuple):
    """What the catalogue has about a file: size and time, and the hash of its content, or why it could not be used."""

    seen: Seen
    hash: str | None = None
    refusal: str = ""


class Catalogue(OtherFiles):
    _ids: Mapping[str, int] = MappingProxyType({})
    """Ids to give to images that are added again, by path."""

    @classmethod
    def create(cls, path: Path, about: dict[str, str]) -> "Catalogue":
        """A new catalogue, written under a temporary name and renamed."""
        temporary = path.with_suffix(".new")
        for leftover in (temporary, *(Path(f"{temporary}-{end}") for end in ("wal", "shm", "journal"))):
            leftover.unlink(missing_ok=True)
        with explained(path), closing(connected(temporary)) as database:
            database.execute("pragma journal_mode = wal")  # stored in the file
            database.executescript(f"begin; {SCHEMA}")
            add_checksums(database)
            database.executemany("insert into about (name, value) values (?, ?)", about.items())
            database.execute("commit")
            database.execute("pragma wal_checkpoint(truncate)")
        temporary.rename(path)
        sync_folder(path.parent)
        return cls(path)

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
        self._free(str(entry["path"]))
        row = entry | self._id_for(str(entry["path"]))
        others = [field.name for field in fields(Entry) if field.name not in entry and field.name != "id"]
        updates = ", ".join([*(f"{name} = excluded.{name}" for name in entry), *(f"{name} = null" for name in others)])
        self.run(
            f"insert into images ({', '.join(row)}) values ({marks(row)})"  # noqa: S608
            f" on conflict (path) do update set {updates}",
            *row.values(),
        )
        self.forget_unreadable(str(entry["path"]))

    @contextmanager
    def with_ids(self, ids: Mapping[str, int]) -> Iterator[None]:
        """Images that are added in the block get these ids, by path, if no other image has them."""
        self._ids = ids
        try:
            yield
        finally:
            del self._ids

    def _id_for(self, path: str) -> dict[str, int]:
        """The id column for this path; empty if SQLite assigns the id."""
        id = self._ids.get(path)
        return {} if id is None or self.count("id = ? or path = ?", id, path) else {"id": id}

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
        """Rename paths; a row that already has the new path is overwritten."""
        self.forget_freed()
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
        self._free(image, features=False)
        self.run("update images set slot = null, vector_crc = null where id = ?", image)

    def forget_features(self, image: int) -> None:
        """Record that the features of an image are not stored."""
        self._free(image, vector=False)
        self.run("update images set offset = null, length = null, features_crc = null where id = ?", image)

    def move(self, image: int, *, slot: int | None, offset: int | None) -> None:
        """Record the new places of an image's data after compaction."""
        self.run("update images set slot = ?, offset = ? where id = ?", slot, offset, image)

    def remove(self, path: str) -> bool:
        self._free(path)
        return self.run("delete from images where path = ?", path).rowcount > 0

    def entries(self, condition: str = "true", *values: str | int) -> Iterator[Entry]:
        """Images in order of id; `condition` is SQL from this package, never from a user."""
        for entry in self._entries(condition, *values):
            if entry is None:
                raise self._damaged("an image's row does not match its checksum")
            yield entry

    def sound_entries(self) -> Iterator[Entry]:
        """All images but those whose rows are damaged."""
        return filter(None, self._entries("true"))

    def _entries(self, condition: str, *values: str | int) -> Iterator[Entry | None]:
        """Entries; None for a row that is damaged or has an impossible value."""
        with explained(self.path):  # damage may be found at any row
            statement = f"select checksum, {_COLUMNS} from images where {condition} order by id"  # noqa: S608
            for checksum, *row in self._database.execute(statement, values):
                sound = row_checksum(row) == checksum and _is_possible(row)
                yield Entry(*row) if sound else None

    def entry(self, path: str) -> Entry | None:
        return next(self.entries("path = ?", path), None)

    def waiting(self, most: int, most_features: int, *, after: int = 0) -> list[Entry]:
        """The next images to encode after an id: at most `most`, with at most `most_features` in all, at least one."""
        condition = "id > ? and slot is null and features > 0 and offset is not null"
        return self._portion(condition, (after,), most, most_features)

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
        for part in portions(wanted):
            statement = f"select id, path from images where id in ({marks(part)})"  # noqa: S608
            found.update(self._all(statement, *part, of=(int, str)))
        self._require_all(wanted, found)
        return found

    def entries_of(self, images: Iterable[int]) -> dict[int, Entry]:
        """The entry of each image."""
        wanted, found = sorted(images), {}
        for part in portions(wanted):
            found.update({entry.id: entry for entry in self.entries(f"id in ({marks(part)})", *part)})
        self._require_all(wanted, found)
        return found

    def _require_all(self, wanted: Iterable[int], found: Mapping[int, object]) -> None:
        for image in wanted:
            if image not in found:
                raise FormatError(f"{self.path} is damaged: the image {image} is not in it; restore it from a copy")

    def hashes(self) -> dict[str, str]:
        """The content hash of each image, by path."""
        return dict(self._all("select path, hash from images", of=(str, str)))

    def outline(self) -> list[Outline]:
        """Id, path, hash and time of all images; checksums are not verified."""
        rows = self._all("select id, path, hash, changed from images", of=(int, str, str, int))
        return list(map(Outline._make, rows))

    def names_by_hash(self, sizes: Iterable[int]) -> dict[str, list[str]]:
        """Paths of the images whose files have one of these sizes in bytes, by content hash."""
        names: dict[str, list[str]] = {}
        for part in portions(list(sizes)):
            statement = f"select path, hash from images where bytes in ({marks(part)})"  # noqa: S608
            for path, content in self._all(statement, *part, of=(str, str)):
                names.setdefault(content, []).append(path)
        return names

    def recorded(self, names: Iterable[str]) -> dict[str, Recorded]:
        """What the catalogue has about these files, readable or not, by path; unknown files are left out."""
        known: dict[str, Recorded] = {}
        for part in portions(list(names)):
            here = f"where path in ({marks(part)})"
            statement = f"select path, bytes, changed, hash from images {here}"  # noqa: S608
            for path, size, changed, content in self._all(statement, *part, of=(str, int, int, str)):
                known[path] = Recorded(Seen(size, changed), content)
            for path, size, changed, reason in self._verified("unreadable", here, *part):
                known.setdefault(path, Recorded(Seen(size, changed), refusal=reason))
        return known

    def names_below(self, table: str, folder: str) -> list[str]:
        """Paths in a table that equal the stored name of a folder, or begin with it and a slash; uses the index."""
        start = folder.rstrip("/") + "/"
        after = start[:-1] + chr(ord("/") + 1)
        paths = f"select path from {table} where path"  # noqa: S608
        statement = f"{paths} = ? union all {paths} > ? and path < ?"
        return [path for (path,) in self._all(statement, folder, start, after, of=(str,))]

    def feature_bytes(self) -> int:
        """Total size of the packed features that are in use."""
        return int(self._one("select coalesce(sum(length), 0) from images where offset is not null"))

    def count(self, condition: str = "true", *values: str | int, most: int = -1) -> int:
        """Number of images; not more than `most` are counted."""
        some = f"select 1 from images where {condition} limit {most}"  # noqa: S608
        return int(self._all(f"select count(*) from ({some})", *values, of=(int,))[0][0])  # noqa: S608

    def next_slot(self) -> int:
        """The slot after the last one in use."""
        return int(self._one("select coalesce(max(slot) + 1, 0) from images"))

    def next_offset(self) -> int:
        last = "select offset + length from images where offset is not null order by offset desc limit 1"
        return int(self._one(f"select coalesce(({last}), 0)"))

    def free_slot(self) -> int:
        """Slot for the next vector.

        Slots of removed images are not used again before compaction: a reader may still have them mapped, and an index
        may still refer to their old content.
        """
        return max(self.next_slot(), self.used_slots())

    def free_offset(self) -> int:
        """Offset for the next packed features."""
        return max(self.next_offset(), self.used_bytes())

    # Slots whose rows a store must delete.

    def watch_slots(self) -> None:
        """Record freed slots from now on; a rolled-back change records none."""
        self.run("create temp table if not exists freed (slot integer primary key)")
        for event in ("delete", "update of slot"):
            still = "" if event == "delete" else " and new.slot is not old.slot"
            self.run(
                f"create temp trigger if not exists freed_by_{event.split()[0]} after {event} on main.images"  # noqa: S608
                f" when old.slot is not null{still} begin insert or ignore into freed values (old.slot); end"
            )

    def freed_slots(self) -> list[int]:
        return [slot for (slot,) in self._all("select slot from temp.freed order by slot", of=(int,))]

    def forget_freed_slots(self) -> None:
        self.run("delete from temp.freed")

    # Vectors of a model that was learned again.

    def begin_relearning(self, coming: Relearning) -> None:
        """Record a new model; nothing is encoded with it yet."""
        self.run("delete from staged")
        self.set_relearning(coming)

    def stage(self, entry: Entry, slot: int, crc: int) -> None:
        """Record the vector of the next generation of an image."""
        statement = "insert or replace into staged (id, slot, vector_crc, offset) values (?, ?, ?, ?)"
        self.run(statement, entry.id, slot, crc, entry.offset)

    def next_staged_slot(self) -> int:
        return int(self._one("select coalesce(max(slot) + 1, 0) from staged"))

    def unstaged(self, after: int, most: int, most_features: int) -> list[Entry]:
        """As `waiting`, for the next generation."""
        return self._portion(f"id > ? and {_TO_STAGE}", (after,), most, most_features)

    def count_unstaged(self) -> int:
        return self.count(_TO_STAGE)

    def end_relearning(self, coming: Relearning) -> None:
        """Replace the old model and its vectors by the new ones."""
        self.forget_freed()
        self.run("update images set slot = null, vector_crc = null")
        self.run(
            "update images set (slot, vector_crc) = (select staged.slot, staged.vector_crc from staged"
            " where staged.id = images.id and staged.offset = images.offset) where features > 0"
        )
        self.use(slots=self.next_staged_slot())
        self.run("delete from staged")
        super().end_relearning(coming)

    def live(self, after: int = _BEFORE_ALL) -> tuple[np.ndarray, np.ndarray]:
        """Slots in use after this one, ascending, and the ids of their images."""
        parts = list(self._live_parts(after))
        slots, ids = (np.concatenate([np.empty(0, np.int64), *some]) for some in zip(*parts, strict=True))
        if len(slots) and (slots[0] < 0 or slots[-1] >= self.next_slot() or (np.diff(slots) <= 0).any()):
            raise self._damaged("slots are out of order")
        return slots, ids

    def _live_parts(self, last: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """In parts, each as two concatenated texts: a third of the time and of the memory of fetching single rows."""
        some = "select slot, id from images where slot > ? order by slot limit ?"
        joined = f"select coalesce(group_concat(slot), ''), coalesce(group_concat(id), '') from ({some})"  # noqa: S608
        while True:
            (texts,) = self._all(joined, last, _SLOTS_AT_ONCE, of=(str, str))
            slots, ids = map(self._numbers, texts)
            if len(slots) != len(ids):
                raise self._damaged(EMPTY_ROW)
            yield slots, ids
            if len(slots) < _SLOTS_AT_ONCE:
                return
            last = int(slots[-1])

    def _numbers(self, text: str) -> np.ndarray:
        try:
            numbers = np.fromstring(text, np.int64, sep=",")
        except (ValueError, DeprecationWarning):
            raise self._damaged(EMPTY_ROW) from None
        if len(numbers) != text.count(",") + bool(text):  # NumPy before 2.3 stops at what is no number
            raise self._damaged(EMPTY_ROW)
        return numbers

    def seen(self) -> dict[str, Seen]:
        """Size and time of every known file, readable or not, by path."""
        rows = self._all(
            "select path, bytes, changed from images union all select path, bytes, changed from unreadable",
            of=(str, int, int),
        )
        return {path: Seen(size, changed) for path, size, changed in rows}

    def drop_row(self, row: DamagedRow) -> None:
        self.forget_freed()
        self.run(f"delete from {row.table} where rowid = ?", row.rowid)  # noqa: S608

    def rewrite(self, row: DamagedRow, **values: str | int | None) -> None:
        """Replace values of an image's row, and its checksum."""
        self.forget_freed()
        names = ", ".join(f"{name} = ?" for name in values)
        self.run(f"update images set {names} where rowid = ?", *values.values(), row.rowid)  # noqa: S608

    def add_indexes(self) -> None:
        """Add SQLite indexes that an older catalogue lacks."""
        for statement in INDEXES:
            self.run(statement)


def _is_possible(row: Sequence[Any]) -> bool:
    """Whether each value has its type, and counts and places are not negative."""
    return _TYPES.issuperset(zip(_POSITIONS, map(type, row), strict=True)) and all(
        value is None or value >= 0 for value in map(row.__getitem__, _COUNTS)
    )
