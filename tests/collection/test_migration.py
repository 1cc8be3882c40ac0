"""Collections of earlier format versions: converted when they are opened, wholly or not at all."""

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from faemb.collection import Collection
from faemb.collection.layout import Layout
from faemb.collection.locking import only_writer
from faemb.errors import FaembError, FormatError
from process_beside import process_beside
from small_collections import counts

GOLDEN = Path(__file__).parent.parent / "golden" / "collection-v1"
"""Six rendered pictures, of which one was removed; written by the last faemb with format version 1."""
NAMES = [f"{seed}.png" for seed in range(5)]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the process beside the tests forks")


@pytest.fixture
def folder(tmp_path) -> Path:
    return shutil.copytree(GOLDEN, tmp_path / "old") / "photos.faemb"


def about(folder: Path) -> dict[str, str]:
    with closing(sqlite3.connect(folder / "catalogue.sqlite")) as database:
        return dict(database.execute("select name, value from about"))


def set_about(folder: Path, **values: str) -> None:
    with closing(sqlite3.connect(folder / "catalogue.sqlite")) as database, database:
        for name, value in values.items():
            database.execute("update about set value = ? where name = ?", (value, name))


def columns(folder: Path) -> set[str]:
    with closing(sqlite3.connect(folder / "catalogue.sqlite")) as database:
        return {row[1] for row in database.execute("pragma table_info(images)")}


def assert_judged(collection: Collection, image: Path) -> None:
    """Answers are verified, with a confidence, though the collection was made before there was one."""
    (answer,) = collection.search(np.asarray(PIL.Image.open(image)))  # not known to be the file itself
    assert answer.note == ""
    assert all(hit.confidence is not None and hit.verification is not None for hit in answer.hits)
    assert (answer.hits[0].path, answer.hits[0].verdict) == (image, "same")
    assert {hit.verdict for hit in answer.hits[1:]} == {"unsure"}


def assert_converted(folder: Path, searched: list[str] = NAMES) -> None:
    """It has its images, its vectors and its model, and can be used."""
    photos = folder.parent / "photos"
    with Collection.open(folder) as collection:
        assert collection.migrated is None
        assert collection.check() == []
        np.testing.assert_array_equal(collection.view().vectors, np.load(GOLDEN / "vectors.npy"))
        for name in searched:
            (answer,) = collection.search(photos / name, threshold=0.999)
            assert [hit.path for hit in answer.hits] == [photos / name]
        assert_judged(collection, photos / searched[0])
    assert about(folder)["version"] == "5"
    assert about(folder)["learned_from"] == ""  # it was not recorded
    assert not {"short_crc", "code_crc"} & columns(folder)
    assert sorted(path.name for path in folder.iterdir() if path.name != "writer.lock") == [
        "catalogue.sqlite",
        "features-1.bin",
        "model-format-2.faemb",
        "vectors-1.f32",
    ]


def test_version_1(folder):
    with Collection.open(folder) as collection:
        assert collection.migrated == f"{folder} was converted from format version 1 to 5"
        assert len(collection) == 5
    assert_converted(folder)


def test_version_2(tmp_path):
    folder = shutil.copytree(GOLDEN.parent / "collection-v2", tmp_path / "old") / "photos.faemb"
    told: list[str] = []
    with Collection.open(folder) as collection:
        assert collection.migrated == f"{folder} was converted from format version 2 to 5"
        assert (collection.info().learned_from, collection.info().relearning_is_due) == (None, False)
        assert_judged(collection, folder.parent / "photos" / "001.png")
        assert collection.relearn(notice=told.append).relearned_from == 5
        assert told[0].startswith("it is not known from how many images the model has learned; it is learned again")
        assert collection.check() == []
        collection.remove(folder.parent / "photos" / "001.png")
        assert collection.update().kept_out == 1
    with Collection.open(folder) as again:
        assert again.migrated is None
        assert again.info().learned_from == 5


def test_version_2_with_a_model_that_was_given(tmp_path):
    folder = shutil.copytree(GOLDEN.parent / "collection-v2", tmp_path / "old") / "photos.faemb"
    set_about(folder, asked=about(folder)["model"])
    with Collection.open(folder) as collection:
        assert collection.info().learned_from == 0


@needs_fork
def test_a_conversion_of_version_2_that_is_killed_at_any_step(tmp_path):
    beside, old = process_beside(), GOLDEN.parent / "collection-v2"
    whole = beside.run("open_collection", shutil.copytree(old, tmp_path / "whole") / "photos.faemb")
    assert whole.fault == ""
    found = set()
    for stop in range(1, whole.steps + 1):
        copy = shutil.copytree(old, tmp_path / f"killed at {stop}") / "photos.faemb"
        assert beside.run("open_collection", copy, stop=stop).killed
        found.add(about(copy)["version"])
        with Collection.open(copy) as collection:
            assert collection.check() == []
            assert len(collection) == 5
    assert found == {"2", "5"}


def test_other_files_in_its_folder_are_kept(folder):
    theirs = [folder / name for name in ("fitted.faemb", "model-2.faemb", "hnsw-1-mine.faiss")]
    for file in theirs:
        file.write_text("precious")
    Collection.open(folder).close()
    assert [file.read_text() for file in theirs] == ["precious"] * 3


def test_a_converted_collection_can_be_changed(folder):
    photos = folder.parent / "photos"
    (photos / "0.png").unlink()
    with Collection.open(folder) as collection:
        report = collection.update(jobs=1)
        assert counts(report) == (1, 0, 4, 1)  # that 5.png had been removed was not recorded
        (answer,) = collection.search(photos / "5.png", top=1)
        assert answer.hits[0].path == photos / "5.png"
        with collection._changing(None) as writer:
            writer.compact(collection.model)
        assert collection.check() == []


@pytest.mark.parametrize("kind", ["rabitq", "hnsw", "ivf-pq", "binary"])
def test_its_indexes_are_rebuilt(folder, kind):
    """Those of version 1 take short vectors or codes, and this one full vectors."""
    pytest.importorskip("faiss")
    photos = folder.parent / "photos"
    with Collection.open(folder) as collection:
        expected = collection.search(photos / "2.png", index="exact")
        assert collection.search(photos / "2.png", index=kind) == expected


def test_an_index_that_a_process_of_version_1_writes_afterwards_is_replaced(folder):
    pytest.importorskip("faiss")
    photos, old = folder.parent / "photos", GOLDEN / "photos.faemb" / "hnsw-1-5.faiss"
    with Collection.open(folder) as collection:
        shutil.copy(old, folder)
        expected = collection.search(photos / "2.png", index="exact")
        assert collection.search(photos / "2.png", index="hnsw") == expected
    assert (folder / old.name).read_bytes() != old.read_bytes()


@needs_fork
def test_a_conversion_that_is_killed_at_every_second_step(folder, tmp_path):
    """It leaves version 1 as it was, or the current one."""
    beside, old = process_beside(), {path.name: path.read_bytes() for path in folder.iterdir()}
    copy = shutil.copytree(folder.parent, tmp_path / "whole") / "photos.faemb"
    whole = beside.run("open_collection", copy)
    assert (whole.fault, whole.told) == ("", [f"{copy} was converted from format version 1 to 5"])
    found = set()
    for stop in range(1, whole.steps + 1, 2):
        copy = shutil.copytree(folder.parent, tmp_path / f"killed at {stop}") / "photos.faemb"
        assert beside.run("open_collection", copy, stop=stop).killed
        version = about(copy)["version"]
        found.add(version)
        if version == "1":
            assert {"short_crc", "code_crc"} <= columns(copy)
            for name in ("model.faemb", "vectors-1.f32", "short-1.f32", "codes-1.u8", "features-1.bin"):
                assert (copy / name).read_bytes() == old[name]
        with Collection.open(copy) as collection, collection._changing(None):
            pass  # a writer deletes what the killed process left
        assert_converted(copy, NAMES[:1])
    assert found == {"1", "5"}


@needs_fork
def test_where_nothing_may_be_written_it_is_refused():
    with tempfile.TemporaryDirectory() as place:
        folder = shutil.copytree(GOLDEN, Path(place) / "old") / "photos.faemb"
        os.chmod(place, 0o755)  # noqa: S103
        os.chmod(folder, 0o555)  # noqa: S103
        ended = process_beside().run("open_without_permission", folder)
        os.chmod(folder, 0o755)  # noqa: S103
        words = f"FaembError: {folder} has format version 1 and must be converted to version 5 before it can be used: "
        assert ended.fault.startswith(words)
        assert about(folder)["version"] == "1"


def test_while_another_process_changes_it_it_is_refused(folder):
    words = "has format version 1 and must be converted to version 5 .* is being changed by another process"
    with only_writer(Layout(folder)), pytest.raises(FaembError, match=words):
        Collection.open(folder)
    assert about(folder)["version"] == "1"


def test_another_model_is_not_taken_over(folder):
    set_about(folder, model="00")
    with pytest.raises(FormatError, match=r"model\.faemb is not the model that encoded this collection"):
        Collection.open(folder)
    assert about(folder)["version"] == "1"


@pytest.mark.parametrize("damage", [lambda file: os.truncate(file, 900), Path.unlink], ids=["cut", "deleted"])
def test_a_damaged_model_is_refused_by_name(folder, damage):
    damage(folder / "model.faemb")
    with pytest.raises(FormatError, match=r"model\.faemb"):
        Collection.open(folder)
    assert about(folder)["version"] == "1"


def test_the_same_command_resumes_a_converted_collection(folder):
    """If it was made with a model that was given."""
    set_about(folder, asked=about(folder)["model"])
    with Collection.open(folder) as collection:
        model = collection.model
    with Collection.resume(folder, model) as again:
        assert len(again) == 5
