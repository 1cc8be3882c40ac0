"""Rows of the catalogue: damage is found by their checksums and mended, and odd values end in one sentence."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from faemb.collection import Collection
from faemb.collection.rows import TABLES
from faemb.errors import FaembError, FormatError
from pictures import picture
from small_collections import assert_same, vectors_of

CELLS = [(table, column) for table, columns in TABLES.items() for column in columns if table not in ("about", "staged")]


@pytest.fixture
def full(collection: Collection, photos: Path) -> Collection:
    """A collection with a row in every table but `staged`."""
    (photos / "broken.png").write_bytes(b"no image")
    collection.add(picture(photos / "more.png", 30))
    collection.update()
    collection.remove(photos / "more.png")
    return collection


def damage(collection: Collection, statement: str, *values: Any) -> None:
    """As another program would, or a bit that flips: the checksum stays as it is."""
    with closing(sqlite3.connect(collection.layout.catalogue)) as database, database:
        database.execute(statement, values)


def other(value: Any) -> Any:
    if isinstance(value, str):
        return value[:-1] + chr(ord(value[-1]) ^ 1)
    return 1 if value is None else value ^ 4


def change_cell(collection: Collection, table: str, column: str) -> str:
    """Flip a bit of one value; returns the first value of its row."""
    with closing(sqlite3.connect(collection.layout.catalogue)) as database:
        ((rowid, value),) = database.execute(f"select rowid, {column} from {table} order by rowid limit 1")  # noqa: S608
    damage(collection, f"update {table} set {column} = ? where rowid = ?", _free(column, other(value)), rowid)  # noqa: S608
    return str(value)


def _free(column: str, value: Any) -> Any:
    """A value that no other image has."""
    return value + 64 if column in ("id", "slot") else value


@pytest.mark.parametrize(("table", "column"), CELLS, ids=[f"{table}-{column}" for table, column in CELLS])
def test_every_value_is_covered_and_what_its_data_and_its_file_say_is_restored(full, photos, table, column):
    vectors, info = vectors_of(full), full.info()
    change_cell(full, table, column)
    assert any("in the catalogue is damaged" in told or "of the catalogue is damaged" in told for told in full.check())
    assert full.check(repair=True) != []
    assert full.check() == []
    if (table, column) == ("images", "path"):  # its file is not found, so that it keeps its data under the wrong name
        full.update()
    if table == "images":
        assert_same(vectors_of(full), vectors)
        assert (full.info().images, full.info().searchable) == (info.images, info.searchable)
        assert {entry.path: (entry.width, entry.height) for entry in full.entries()}.keys() == vectors.keys()
        assert len(full.search(photos / "a.png", top=9)[0].hits) == 5


def test_an_image_whose_file_is_away_keeps_the_data_that_is_confirmed(full, photos):
    vectors = vectors_of(full)
    os.rename(photos, photos.with_name("away"))
    damage(full, "update images set width = 7, features = 3 where path like '%a.png'")
    damage(full, "update images set vector_crc = 7 where path like '%b.png'")
    damage(full, "update images set length = 9 where path like '%c.jpg'")
    told = full.check(repair=True)
    assert len(told) == 3
    assert told[0].endswith("its row in the catalogue is damaged; its file is not there and is read by the next update")
    assert full.check() == []
    assert_same(vectors_of(full), vectors)
    sizes = {Path(entry.path).name: (entry.width, entry.features > 3) for entry in full.entries()}
    assert sizes["a.png"] == sizes["b.png"]
    os.rename(photos.with_name("away"), photos)
    full.update()
    assert full.check(repair=True) in ([], ["the local features of ../photos/c.jpg were missing"])
    assert full.check() == []
    assert full.update().unchanged == 5


def test_a_damaged_fact_about_the_whole_is_refused(collection):
    damage(collection, "update about set value = '2' where name = 'generation'")
    with pytest.raises(FormatError, match="'generation' in the table about does not match its checksum; restore it"):
        Collection.open(collection.layout.folder)


def test_a_damaged_row_is_not_given_out(collection, photos):
    damage(collection, "update images set hash = 'ff' where path like '%a.png'")
    with Collection.open(collection.layout.folder) as opened:
        for use in (lambda: list(opened.entries()), lambda: opened.search(photos / "a.png")):
            with pytest.raises(FormatError, match=r"does not match its checksum; run: faemb check .* --repair"):
                use()
        assert len(opened.check()) == 1


def test_damage_of_sqlites_own_index_is_mended(collection, photos):
    with closing(sqlite3.connect(collection.layout.catalogue)) as database, database:
        database.execute("pragma writable_schema = on")
        other_rows = "create index by_waiting on images (id) where slot is not null and features > 0"
        database.execute("update sqlite_master set sql = ? where name = 'by_waiting'", (other_rows,))
    with Collection.open(collection.layout.folder) as opened:
        assert "catalogue.sqlite is damaged" in opened.check()[0]
        assert opened.check(repair=True) == []
        assert opened.check() == []


# Values that make no sense, in rows with a checksum that fits

ODD = [-1, 5 * 10**9, 2**63 - 1]
NUMBERS = [column for column in TABLES["images"] if column not in ("path", "hash")]


@pytest.mark.parametrize("column", NUMBERS)
def test_odd_numbers_end_in_one_sentence_and_in_no_large_file(collection, photos, tmp_path, column):
    whole = {file.name: file.read_bytes() for file in collection.layout.folder.iterdir()}
    picture(photos / "new.png", 40)
    for value in ODD:
        folder = tmp_path / str(value)
        folder.mkdir()
        for name, content in whole.items():
            (folder / name).write_bytes(content)
        with Collection.open(folder) as opened:
            opened._catalogue.run(f"update images set {column} = ? where id = 3", value)  # noqa: S608
        use_in_every_way(folder, photos)
        assert sum(file.stat().st_size for file in folder.iterdir()) < 2_000_000
        shutil.rmtree(folder)


@pytest.mark.parametrize("value", ["", "-1", "9" * 5000, "[" * 9000, "../../a"], ids=lambda value: value[:3])
def test_odd_facts_about_the_whole_end_in_one_sentence(collection, photos, value):
    whole = collection.layout.catalogue.read_bytes()
    for name in collection._catalogue.about():
        collection._catalogue.set(name, value)
        use_in_every_way(collection.layout.folder, photos)
        collection.layout.catalogue.write_bytes(whole)


def use_in_every_way(folder: Path, photos: Path) -> None:
    for use in (
        lambda opened: opened.search(photos / "a.png"),
        lambda opened: (opened.info(), opened.duplicates()),
        lambda opened: opened.update(),
        lambda opened: opened.check(repair=True),
    ):
        try:
            with Collection.open(folder) as opened:
                use(opened)
        except FaembError as error:
            if "\n" in str(error):
                raise
