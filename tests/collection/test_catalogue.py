"""The catalogue: transactions, what other processes see, and files that are not catalogues."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faemb.collection import catalogue as module
from faemb.collection import transactions
from faemb.collection.catalogue import Catalogue, Recorded
from faemb.collection.collection import Collection
from faemb.collection.facts import Freed
from faemb.collection.other_files import Seen
from faemb.collection.schema import FORMAT, SCHEMA, VERSION
from faemb.errors import FaembError, FormatError, InputError

ABOUT = {
    "format": FORMAT,
    "version": str(VERSION),
    "generation": "1",
    "model": "",
    "asked": "",
    "keep_features": "1",
    "index": "auto",
}


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "catalogue.sqlite"


@pytest.fixture
def catalogue(file) -> Iterator[Catalogue]:
    made = Catalogue.create(file, ABOUT)
    yield made
    made.close()


@pytest.fixture
def other(catalogue, file) -> Iterator[Catalogue]:
    """The same catalogue, as another process has it."""
    opened = Catalogue(file)
    yield opened
    opened.close()


def image(path: str, **given: Any) -> dict[str, Any]:
    usual = {"hash": "aa", "bytes": 10, "changed": 5, "width": 4, "height": 3, "features": 7, "offset": 0}
    return {"path": path, **usual, "length": 20, "features_crc": 1, **given}


def put(catalogue: Catalogue, *paths: str) -> None:
    with catalogue.change():
        for path in paths:
            catalogue.put(image(path))


def paths_in(catalogue: Catalogue) -> list[str]:
    return [entry.path for entry in catalogue.entries()]


def id_of(catalogue: Catalogue, path: str) -> int:
    entry = catalogue.entry(path)
    assert entry is not None
    return entry.id


class TestCreation:
    def test_it_says_what_it_was_told(self, catalogue, file):
        assert catalogue.about() == ABOUT
        assert paths_in(catalogue) == []
        assert sorted(path.name for path in file.parent.glob("*.new*")) == []

    @pytest.mark.parametrize("fails", ["schema", "about", "rename"])
    def test_it_is_there_completely_or_not_at_all(self, file, monkeypatch, fails):
        about: dict[str, Any] = dict(ABOUT)
        if fails == "schema":
            monkeypatch.setattr(module, "SCHEMA", SCHEMA + "create nonsense;")
        elif fails == "about":
            about["last"] = None
        else:
            monkeypatch.setattr(Path, "rename", lambda *names: (_ for _ in ()).throw(OSError(28, "No space left")))
        with pytest.raises((FaembError, OSError)):
            Catalogue.create(file, about)
        assert not file.exists()
        monkeypatch.undo()
        Catalogue.create(file, ABOUT).close()  # whatever was left does not disturb
        assert sorted(path.name for path in file.parent.iterdir()) == ["catalogue.sqlite"]

    def test_what_a_killed_process_left_does_not_disturb(self, file):
        for end in ("", "-wal", "-shm", "-journal"):
            file.with_name(f"catalogue.new{end}").write_bytes(b"\xff" * 5000)
        Catalogue.create(file, ABOUT).close()
        assert sorted(path.name for path in file.parent.iterdir()) == ["catalogue.sqlite"]

    def test_the_disk_is_waited_for(self, catalogue):
        assert catalogue._one("pragma journal_mode", str) == "wal"
        assert catalogue._one("pragma synchronous") == 2  # FULL


class TestChanges:
    def test_they_become_true_together(self, catalogue, other):
        with catalogue.change():
            catalogue.put(image("a"))
            catalogue.add_folder("photos")
            assert (paths_in(other), other.folders()) == ([], [])
        assert (paths_in(other), other.folders()) == (["a"], ["photos"])

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, FaembError, sqlite3.DataError])
    def test_an_exception_takes_all_back(self, catalogue, error):
        put(catalogue, "a")
        before = catalogue.about()

        def fail() -> None:
            with catalogue.change():
                catalogue.put(image("b"))
                catalogue.remove("a")
                catalogue.set("generation", "2")
                raise error

        with pytest.raises(FaembError if error is sqlite3.DataError else error):
            fail()
        assert paths_in(catalogue) == ["a"]
        assert catalogue.about() == before
        put(catalogue, "c")  # and it can be used on
        assert paths_in(catalogue) == ["a", "c"]

    def test_one_that_is_refused_by_the_database_takes_all_back(self, catalogue):
        put(catalogue, "a", "b")
        catalogue.place(id_of(catalogue, "a"), 0, 1)

        def place_two_in_one_slot() -> None:
            with catalogue.change():
                catalogue.set("generation", "2")
                catalogue.place(id_of(catalogue, "b"), 0, 1)

        with pytest.raises(FormatError):
            place_two_in_one_slot()
        assert catalogue.about()["generation"] == "1"

    def test_two_at_a_time_are_explained(self, catalogue, other, monkeypatch):
        other._database.execute("pragma busy_timeout = 10")
        with catalogue.change():
            with pytest.raises(FaembError, match="in use by another process; try again"), other.change():
                pass
            catalogue.put(image("a"))
        assert paths_in(other) == ["a"]

    def test_it_is_on_the_disk_without_being_closed(self, catalogue, file, tmp_path):
        """A copy of the files as they are, as after a power cut."""
        put(catalogue, "a", "b")
        (tmp_path / "copy").mkdir()
        for part in file.parent.glob("catalogue.sqlite*"):
            if not part.name.endswith("-shm"):
                shutil.copy(part, tmp_path / "copy")
        copy = Catalogue(tmp_path / "copy" / file.name)
        assert paths_in(copy) == ["a", "b"]
        assert copy.fault() is None
        copy.close()


class TestImages:
    def test_ids_are_stable_and_never_used_again(self, catalogue, file):
        put(catalogue, "a", "b", "c")
        ids = {path: id_of(catalogue, path) for path in "abc"}
        with catalogue.change():
            assert catalogue.remove("c")
            assert not catalogue.remove("c")
        catalogue.close()
        again = Catalogue(file)
        put(again, "d", "c")
        assert len({*ids.values(), id_of(again, "d"), id_of(again, "c")}) == 5
        assert (id_of(again, "a"), id_of(again, "b")) == (ids["a"], ids["b"])
        assert min(id_of(again, "d"), id_of(again, "c")) > max(ids.values())
        again.close()

    def test_a_changed_image_keeps_its_id_and_waits_to_be_encoded(self, catalogue):
        put(catalogue, "a", "b")
        before = id_of(catalogue, "a")
        catalogue.place(before, 4, 1)
        catalogue.put(image("a", hash="bb", features=9, offset=50))
        entry = catalogue.entry("a")
        assert (entry.id, entry.hash, entry.features, entry.offset) == (before, "bb", 9, 50)
        assert (entry.slot, entry.vector_crc) == (None, None)
        assert [waits.path for waits in catalogue.waiting(10, 1000)] == ["a", "b"]

    def test_what_waits(self, catalogue):
        """Images with features that have no vector, the oldest first, a limited number at a time."""
        put(catalogue, "a", "b", "c")
        catalogue.put(image("blank", features=0))
        catalogue.place(id_of(catalogue, "b"), 0, 1)
        assert [entry.path for entry in catalogue.waiting(10, 1000)] == ["a", "c"]
        assert [entry.path for entry in catalogue.waiting(1, 1000)] == ["a"]

    @pytest.mark.parametrize(("most", "paths"), [(1, "a"), (9, "a"), (10, "ab"), (14, "ab"), (15, "abc"), (99, "abc")])
    def test_what_waits_has_so_many_features_in_all(self, catalogue, most, paths):
        """The first image is always taken, however many features it has: else it would never be encoded."""
        for name in "abc":
            catalogue.put(image(name, features=5))
        assert [entry.path for entry in catalogue.waiting(10, most)] == list(paths)

    def test_nothing_waits_in_an_empty_catalogue(self, catalogue):
        assert catalogue.waiting(10, 1000) == []

    def test_features_that_are_forgotten_leave_the_vector(self, catalogue):
        put(catalogue, "a")
        catalogue.place(1, 0, 1)
        catalogue.forget_features(1)
        entry = catalogue.entry("a")
        assert (entry.slot, entry.vector_crc, entry.offset, entry.length) == (0, 1, None, None)

    def test_an_image_with_neither_vector_nor_features_does_not_stop_the_others(self, catalogue):
        put(catalogue, "a", "b")
        catalogue.forget_features(1)
        assert [entry.path for entry in catalogue.waiting(10, 1000)] == ["b"]

    def test_live_slots_ascend(self, catalogue):
        assert [part.shape for part in catalogue.live()] == [(0,), (0,)]
        put(catalogue, "a", "b", "c")
        for number, slot in ((1, 7), (3, 2)):
            catalogue.place(number, slot, 1)
        slots, ids = catalogue.live()
        np.testing.assert_array_equal(slots, [2, 7])
        np.testing.assert_array_equal(ids, [3, 1])

    def test_live_slots_are_read_in_parts(self, catalogue, monkeypatch):
        monkeypatch.setattr(module, "_SLOTS_AT_ONCE", 2)
        for count in range(5):
            slots, ids = catalogue.live()
            np.testing.assert_array_equal(slots, np.arange(count) * 10)
            np.testing.assert_array_equal(ids, np.arange(1, count + 1))
            put(catalogue, f"{count}")
            catalogue.place(count + 1, 10 * count, 1)

    def test_an_unreadable_file_is_known_until_it_can_be_read(self, catalogue):
        catalogue.add_unreadable("x", Seen(3, 4), "x is no image")
        assert catalogue.seen() == {"x": Seen(3, 4)}
        assert catalogue.unreadable() == {"x": "x is no image"}
        catalogue.put(image("x"))
        assert catalogue.unreadable() == {}
        assert catalogue.seen() == {"x": Seen(10, 5)}

    def test_the_same_content_under_another_date(self, catalogue):
        put(catalogue, "a")
        catalogue.place(1, 0, 1)
        catalogue.set_seen("a", Seen(10, 99))
        assert catalogue.seen() == {"a": Seen(10, 99)}
        assert catalogue.entry("a").slot == 0

    def test_a_reason_that_is_no_text_is_kept_readable(self, catalogue):
        catalogue.add_unreadable("x", Seen(3, 4), f"{os.fsdecode(bytes([0xE9]))} is no image")
        assert catalogue.unreadable() == {"x": "\\udce9 is no image"}

    @pytest.mark.parametrize("path", ["quo'te", "per%cent", "NUL\0dce9", "línea\nbreak", "; drop table images", "東京"])
    def test_unusual_paths(self, catalogue, path):
        put(catalogue, path)
        assert catalogue.entry(path).path == path
        assert catalogue.remove(path)


class TestPlaces:
    """A slot that was used is not used again before compaction: a reader may still use it."""

    def test_the_next_is_beyond_all_that_were_used(self, catalogue):
        assert (catalogue.free_slot(), catalogue.free_offset()) == (0, 0)
        put(catalogue, "a", "b")
        catalogue.place(1, 0, 1)
        catalogue.place(2, 1, 1)
        catalogue.use(slots=2, offsets=20)
        catalogue.remove("b")
        assert (catalogue.next_slot(), catalogue.free_slot()) == (1, 2)
        catalogue.remove("a")
        assert (catalogue.next_slot(), catalogue.free_slot()) == (0, 2)
        assert (catalogue.next_offset(), catalogue.free_offset()) == (0, 20)

    def test_compaction_starts_again(self, catalogue):
        catalogue.use(slots=9, offsets=99)
        catalogue.use(slots=3)
        assert (catalogue.free_slot(), catalogue.free_offset()) == (3, 99)

    def test_what_is_named_is_never_written_over(self, catalogue):
        """Even if the recorded numbers are smaller."""
        put(catalogue, "a")
        catalogue.place(1, 7, 1)
        assert (catalogue.free_slot(), catalogue.free_offset()) == (8, 20)


class TestReading:
    def test_the_state_changes_with_own_and_foreign_commits(self, catalogue, other):
        states = [catalogue.state()]
        put(catalogue, "a")
        states.append(catalogue.state())
        put(other, "b")
        states.append(catalogue.state())
        assert len(set(states)) == 3
        paths_in(catalogue)
        assert catalogue.state() == states[-1]

    def test_a_change_that_was_taken_back_by_another_is_none(self, catalogue, other):
        state = catalogue.state()
        with pytest.raises(ZeroDivisionError), other.change():
            other.put(image(str(1 / 0)))
        assert catalogue.state() == state

    def test_a_snapshot_is_of_one_moment(self, catalogue, other):
        put(catalogue, "a")
        with other.snapshot():
            assert paths_in(other) == ["a"]
            put(catalogue, "b")
            with catalogue.change():
                catalogue.remove("a")
                catalogue.set("generation", "2")
            assert paths_in(other) == ["a"]
            assert other.about()["generation"] == "1"
            with other.snapshot():  # within it, nothing else
                assert other.count() == 1
            assert paths_in(other) == ["a"]
        assert paths_in(other) == ["b"]
        assert other.about()["generation"] == "2"

    @pytest.mark.parametrize("block", ["snapshot", "change"])
    def test_a_block_that_is_left_after_closing_has_already_ended(self, catalogue, block):
        """A generator that a signal interrupts is finalised after the collection is closed."""
        left = getattr(catalogue, block)()
        left.__enter__()
        catalogue.close()
        left.gen.close()

    def test_a_snapshot_ends_with_an_exception(self, catalogue, other):
        with pytest.raises(ZeroDivisionError), other.snapshot():
            raise ZeroDivisionError
        put(catalogue, "a")
        assert paths_in(other) == ["a"]

    def test_a_reader_does_not_stop_a_writer(self, catalogue, other):
        put(catalogue, "a", "b", "c")
        reading = other.entries()
        assert next(reading).path == "a"
        put(catalogue, "d")
        assert [entry.path for entry in reading] == ["b", "c"]

    def test_one_that_is_closed_says_so_and_not_that_it_is_damaged(self, catalogue):
        catalogue.close()
        with pytest.raises(FaembError, match=r"Cannot operate on a closed database.*; open the collection again"):
            catalogue.about()


class TestRefusals:
    """In one sentence, and without a change to the file."""

    @pytest.fixture
    def folder(self, tmp_path) -> Path:
        Catalogue.create(tmp_path / "catalogue.sqlite", ABOUT).close()
        return tmp_path

    def refused(self, folder: Path, words: str) -> None:
        file = folder / "catalogue.sqlite"
        before = file.read_bytes()
        with pytest.raises(FormatError, match=words) as caught, Collection.open(folder) as collection:
            list(collection.entries())
        assert "\n" not in str(caught.value)
        assert str(folder) in str(caught.value)
        assert file.read_bytes() == before

    def test_a_newer_version(self, folder):
        catalogue = Catalogue(folder / "catalogue.sqlite")
        catalogue.set("version", str(VERSION + 1))
        catalogue.close()
        self.refused(folder, "has format version 6; this faemb reads up to 5: pip install --upgrade faemb")

    def test_the_catalogue_of_something_else(self, folder):
        catalogue = Catalogue(folder / "catalogue.sqlite")
        catalogue.set("format", "recipes")
        catalogue.close()
        self.refused(folder, "is the catalogue of something else")

    @pytest.mark.parametrize("statement", ["create table recipes (name text)", "create table about (colour text)"])
    def test_another_database(self, folder, statement):
        (folder / "catalogue.sqlite").unlink()
        database = sqlite3.connect(folder / "catalogue.sqlite")
        database.execute(statement)
        database.close()
        self.refused(folder, r"is damaged, or is not a catalogue \(no such .*\); restore it from a copy")

    @pytest.mark.parametrize("content", [b"", b"just a text\n" * 99, b"\0" * 5000, b"SQLite format 3\0 and no more"])
    def test_what_is_no_database(self, folder, content):
        (folder / "catalogue.sqlite").write_bytes(content)
        self.refused(folder, r"is damaged, or is not a catalogue \(.*\); restore it from a copy")

    @pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.99])
    def test_a_truncated_one(self, folder, share):
        catalogue = Catalogue(folder / "catalogue.sqlite")
        put(catalogue, *(f"photos/{n:04}" for n in range(400)))
        catalogue.close()
        file = folder / "catalogue.sqlite"
        os.truncate(file, int(share * file.stat().st_size))
        self.refused(folder, r"is damaged(, or is not a catalogue \(.*\)|: .*); (run: .*, or )?restore it from a copy")

    def test_a_folder_without_one(self, tmp_path):
        with pytest.raises(InputError, match=r"no collection at .*; make one with: faemb index"):
            Collection.open(tmp_path)
        with pytest.raises(FormatError, match="there is no catalogue"):
            Catalogue(tmp_path / "catalogue.sqlite")

    def test_damage_that_shows_late_is_explained_too(self, folder):
        """Rows are read one by one: the first may be whole."""
        catalogue = Catalogue(folder / "catalogue.sqlite")
        put(catalogue, *(f"photos/{n:04}" for n in range(400)))
        catalogue.close()
        content = bytearray((folder / "catalogue.sqlite").read_bytes())
        content[5 * 4096 :] = bytes(len(content) - 5 * 4096)
        (folder / "catalogue.sqlite").write_bytes(content)
        catalogue = Catalogue(folder / "catalogue.sqlite")
        with pytest.raises(FormatError, match="is damaged, or is not a catalogue"):
            list(catalogue.entries())
        catalogue.close()


@pytest.mark.parametrize(
    "statement",
    ["create trigger t after update on about begin delete from about; end", "create view v as select * from about"],
)
def test_triggers_and_views_of_others_are_refused(catalogue, file, statement):
    """A trigger would change other rows whenever the catalogue changes one."""
    catalogue.close()
    database = sqlite3.connect(file)
    database.execute(statement)
    database.close()
    with pytest.raises(FormatError, match="it has triggers or views, which faemb never writes"):
        Catalogue(file)


class TestNamedRows:
    """Lookups that read no other rows (tests/collection/test_statements.py)."""

    def test_what_is_recorded_of_files(self, catalogue, monkeypatch):
        monkeypatch.setattr(transactions, "_AT_ONCE", 2)
        put(catalogue, "a", "b", "c")
        catalogue.add_unreadable("x", Seen(3, 4), "x is no image")
        found = catalogue.recorded(["x", "a", "c", "unknown"])
        known = Recorded(Seen(10, 5), "aa")
        assert found == {"a": known, "c": known, "x": Recorded(Seen(3, 4), None, "x is no image")}

    def test_names_below_a_folder(self, catalogue):
        put(
            catalogue, "../trip", "../trip/a", "../trip/b/c", "../trip-2/a", "../trip0", "../tri", "../trip.png", "/x/a"
        )
        assert catalogue.names_below("images", "../trip") == ["../trip", "../trip/a", "../trip/b/c"]
        assert catalogue.names_below("images", "/x") == catalogue.names_below("images", "/") == ["/x/a"]
        assert catalogue.names_below("images", "../none") == []

    def test_names_that_were_removed(self, catalogue):
        for name in "ab":
            catalogue.add_removed(name)
        assert catalogue.removed_among(["b", "c"]) == {"b"}

    def test_not_more_are_counted_than_matter(self, catalogue):
        put(catalogue, *"abc")
        assert [catalogue.count(most=most) for most in (0, 2, 3, 9, -1)] == [0, 2, 3, 3, 3]

    def test_names_of_files_of_some_sizes(self, catalogue, monkeypatch):
        monkeypatch.setattr(transactions, "_AT_ONCE", 1)
        for name, size, content in (("a", 1, "x"), ("b", 2, "y"), ("c", 3, "x"), ("d", 9, "z")):
            catalogue.put(image(name, bytes=size, hash=content))
        assert catalogue.names_by_hash([1, 2, 3, 4]) == {"x": ["a", "c"], "y": ["b"]}


class TestFreed:
    """Slots and bytes that are not in use, without counting all rows."""

    @pytest.fixture
    def counted(self, catalogue) -> Catalogue:
        put(catalogue, "a", "b")
        catalogue.place(id_of(catalogue, "a"), 0, 1)
        catalogue.set_freed(Freed(5, 100))
        return catalogue

    def test_it_is_not_known_before_it_was_counted(self, catalogue):
        put(catalogue, "a")
        assert catalogue.freed() is None
        catalogue.remove("a")
        assert catalogue.freed() is None

    def test_what_is_removed_is_added(self, counted):
        counted.remove("a")
        assert counted.freed() == Freed(6, 120)
        counted.remove("b")  # it has no vector
        assert counted.freed() == Freed(6, 140)
        counted.remove("c")
        assert counted.freed() == Freed(6, 140)

    def test_what_is_replaced_is_added(self, counted):
        put(counted, "c")
        assert counted.freed() == Freed(5, 100)
        put(counted, "a")
        assert counted.freed() == Freed(6, 120)

    def test_what_is_forgotten_is_added(self, counted):
        counted.forget_features(id_of(counted, "a"))
        assert counted.freed() == Freed(5, 120)
        counted.forget_vector(id_of(counted, "a"))
        assert counted.freed() == Freed(6, 120)

    def test_a_change_that_is_taken_back_frees_nothing(self, counted):
        def fail() -> None:
            with counted.change():
                counted.remove("a")
                raise ValueError

        with pytest.raises(ValueError):  # noqa: PT011
            fail()
        assert counted.freed() == Freed(5, 100)

    def test_its_row_keeps_its_checksum(self, counted):
        counted.remove("a")
        assert counted.damaged_rows() == []


def test_an_earlier_catalogue_gets_its_indexes_with_the_next_change(collection, photos):
    """Those of SQLite: versions that do not know them keep them up to date all the same."""
    names = ("by_size", "by_content", "by_offset")
    for name in names:
        collection._catalogue.run(f"drop index {name}")
    collection.remove(photos / "a.png")
    found = collection._catalogue._all("select name from sqlite_schema where type = 'index'", of=(str,))
    assert {name for (name,) in found} >= set(names)
