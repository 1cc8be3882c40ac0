"""Work that does not grow with the collection: SQL statements per call, and fingerprints of the model."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faemb import persistence
from faemb.collection import Collection, Model
from faemb.collection.catalogue import Catalogue, Entry
from pictures import picture
from recording import recording
from small_collections import make_collection, tiny_model

FEW, MANY = 4, 40
ENTRIES = Catalogue.entries


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Folders of a collection and its images, by the number of images."""
    names = [f"{seed:03}.png" for seed in range(MANY)]
    return {count: make_collection(tmp_path_factory.mktemp(str(count)), names[:count]) for count in (FEW, MANY)}


@contextmanager
def statements(collection: Collection) -> Iterator[list[str]]:
    found: list[str] = []
    collection._catalogue._database.set_trace_callback(found.append)
    yield found
    collection._catalogue._database.set_trace_callback(None)


def rows_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The id of each entry that is read from now on."""
    built: list[int] = []

    def counted(self: Catalogue, condition: str = "true", *values: str | int) -> Iterator[Entry]:
        for entry in ENTRIES(self, condition, *values):
            built.append(entry.id)
            yield entry

    monkeypatch.setattr(Catalogue, "entries", counted)
    return built


def test_an_unchanged_folder(collections):
    counts = []
    for count, root in collections.items():
        with Collection.open(root / "photos.faemb") as collection, statements(collection) as found:
            assert collection.update().unchanged == count
        counts.append(len(found))
    assert counts[0] == counts[1]


def plans(collection: Collection, found: list[str]) -> set[str]:
    """How SQLite executes statements on tables of images: `SCAN` reads all rows, `SEARCH` those that an index gives."""
    explained: set[str] = set()
    for statement in found:
        if statement.lstrip().lower().startswith(("select", "update", "delete", "insert")):
            rows = collection._catalogue._database.execute(f"explain query plan {statement}").fetchall()
            explained |= {f"{row[-1]}: {statement}" for row in rows}
    return explained


def test_no_change_of_an_image_reads_the_rows_of_all(collections, tmp_path):
    """Nor does the removal of a folder; counting them all is due once, when the collection is changed first."""
    root = shutil.copytree(collections[MANY], tmp_path / "copy")
    new = picture(root / "photos" / "below" / "new.png", 98)
    with Collection.open(root / "photos.faemb") as collection:
        collection.remove(root / "photos" / "000.png")
        with statements(collection) as found:
            assert collection.add(new).added == 1
            picture(new, 97)
            assert collection.add(new).changed == 1
            assert collection.add(root / "photos" / "000.png").added == 1
            assert collection.remove([new, *sorted((root / "photos").glob("00?.png"))]) == 11
        scans = [plan for plan in plans(collection, found) if "SCAN images" in plan or "SCAN removed" in plan]
        scans = [plan for plan in scans if "exists (select 1" not in plan]  # ends at the first row
    assert scans == []


def test_a_new_image_and_its_removal(collections, monkeypatch, tmp_path):
    new, counts = picture(tmp_path / "new.png", 99), []
    for root in collections.values():
        monkeypatch.setattr("faemb.collection.gathering._COMMIT_SECONDS", 600)  # on a slow machine there were two
        built = rows_read(monkeypatch)
        with Collection.open(root / "photos.faemb") as collection, statements(collection) as found:
            assert collection.add(new).added == 1
            assert collection.remove(new) == 1
        counts.append((len(found), len(built)))
        monkeypatch.setattr(Catalogue, "entries", ENTRIES)
    assert counts[0] == counts[1]
    assert counts[0][1] == 1  # the image that is encoded


@pytest.mark.parametrize("use", ["search", "duplicates", "export"])
def test_names_of_many_images(collections, tmp_path, use):
    counts = []
    for count, root in collections.items():
        with Collection.open(root / "photos.faemb") as collection, statements(collection) as found:
            if use == "search":
                assert len(collection.search(root / "photos" / "000.png", top=count)[0].hits) == count
            elif use == "duplicates":
                assert sum(len(group.paths) for group in collection.duplicates(-1, verify=False)) == count
            else:
                assert collection.export(tmp_path / "out.npz", "npz") == count
        counts.append(len(found))
    assert counts[0] == counts[1]


def test_names_that_are_looked_up_in_several_statements(collections, monkeypatch):
    monkeypatch.setattr("faemb.collection.transactions._AT_ONCE", 7)
    with Collection.open(collections[MANY] / "photos.faemb") as collection:
        expected = {entry.id: entry.path for entry in collection.entries()}
        assert collection._catalogue.paths(expected) == expected
        assert collection._catalogue.paths([]) == {}


def fingerprinted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models whose fingerprint is asked for from now on."""
    asked: list[str] = []
    count = property(recording(lambda self: asked.append(repr(self)), persistence.fingerprint))
    monkeypatch.setattr(Model, "fingerprint", count)
    return asked


def test_the_model_is_fingerprinted_once_when_it_is_read(collections, monkeypatch, tmp_path):
    root, asked = collections[FEW], fingerprinted(monkeypatch)
    with Collection.open(root / "photos.faemb") as collection:
        collection.update()
        collection.search(root / "photos" / "000.png")
        collection.info()
        assert collection.check() == []
    assert len(asked) == 1


def test_a_new_collection_does_not_ask_for_what_saving_has_computed(monkeypatch, tmp_path):
    asked = fingerprinted(monkeypatch)
    Collection.create(tmp_path / "new.faemb", tiny_model()).close()
    assert asked == []
