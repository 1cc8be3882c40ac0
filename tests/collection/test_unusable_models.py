"""Collections whose model this version cannot use: nothing is changed, the data can be read, and there is a way out."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from faemb import FastFAemb, HessianAffine
from faemb.collection import Collection, Model
from faemb.collection.description import FACT
from faemb.errors import DamagedModelError, FormatError, InputError, OtherNumbersError
from process_beside import process_beside
from small_collections import exported_vectors, new_tiny_model, tiny_model

GOLDEN = Path(__file__).parent.parent / "golden"
CURRENT = "collection-v5"
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the process beside the tests forks")


def golden(name: str, place: Path) -> Path:
    return shutil.copytree(GOLDEN / name, place / "copy") / "photos.faemb"


def model_file(folder: Path) -> Path:
    (file,) = folder.glob("*.faemb")
    return file


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != "writer.lock"}


def about(folder: Path) -> dict[str, str]:
    with closing(sqlite3.connect(folder / "catalogue.sqlite")) as database:
        return dict(database.execute("select name, value from about"))


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-9] ^= 1
    file.write_bytes(content)


def cut(file: Path) -> None:
    os.truncate(file, 900)


DAMAGES = [flip, cut, Path.unlink]


def assert_repaired(folder: Path, faults: int = 1) -> None:
    with Collection.open(folder) as collection:
        assert len(collection.check(repair=True)) == faults
    with Collection.open(folder) as collection:
        assert collection.check() == []
        for entry in collection.entries():
            image = collection.layout.path_of(entry.path)
            assert collection.search(image, top=1)[0].hits[0].path == image


# Another revision.


@pytest.mark.parametrize("name", [f"collection-v{version}" for version in range(1, 5)])
@pytest.mark.parametrize("raised", [HessianAffine, FastFAemb], ids=lambda kind: kind.__name__)
def test_an_older_format_is_left_to_the_version_that_reads_it(name, raised, tmp_path, monkeypatch):
    folder = golden(name, tmp_path)
    before = contents(folder)
    monkeypatch.setattr(raised, "revision", 2)
    words = (
        rf"its {raised.__name__} computes other numbers.* was left in format version {name[-1]}.*faemb==0\.1\.0\.dev0"
    )
    with pytest.raises(FormatError, match=words):
        Collection.open(folder)
    assert contents(folder) == before


def test_a_conversion_records_that_this_version_reads_both(tmp_path, monkeypatch):
    """The model was made by an earlier one, which does not read the new format."""
    folder = golden("collection-v4", tmp_path)
    monkeypatch.setattr("faemb.__version__", "0.7")
    Collection.open(folder).close()
    monkeypatch.setattr(FastFAemb, "revision", 2)
    with Collection.open(folder) as collection, pytest.raises(OtherNumbersError, match=r'pip install "faemb==0\.7"'):
        collection.search(folder.parent / "photos" / "000.png")


def test_stored_vectors_need_no_model(collection, photos, tmp_path, monkeypatch):
    vectors, known = exported_vectors(collection, tmp_path), collection.info()
    monkeypatch.setattr(HessianAffine, "revision", 2)
    with Collection.open(collection.layout.folder) as other:
        (tmp_path / "vectors.npz").unlink()
        for name, vector in exported_vectors(other, tmp_path).items():
            np.testing.assert_array_equal(vector, vectors[name])
        assert other.info().dimension == known.dimension
        assert other.info().extractor.startswith("HessianAffine(")
        (fault,) = other.check()
        assert fault == other.info().model_fault
        assert "index the images again into a new collection, or use: pip install" in fault
        with pytest.raises(OtherNumbersError):
            other.search(photos / "a.png")
        with pytest.raises(FormatError, match="HessianAffine"):
            other.relearn()  # it would find other features
        assert other.remove(photos / "a.png") == 1


@pytest.mark.parametrize("source", ["new", CURRENT])
def test_a_new_encoder_learns_from_the_stored_features(source, collection, tmp_path, monkeypatch):
    folder = collection.layout.folder if source == "new" else golden(source, tmp_path)
    monkeypatch.setattr(FastFAemb, "revision", 2)
    with Collection.open(folder) as other:
        assert "faemb relearn" in (other.info().model_fault or "")
        with pytest.raises(OtherNumbersError, match=r"learn it again from the stored features with: faemb relearn "):
            other.update()
        with pytest.raises(OtherNumbersError):
            other.check(repair=True)  # it is not damaged
        assert other.relearn().relearned_from == 5
        assert other.info().model_fault is None
        assert other.check() == []
    monkeypatch.setattr(FastFAemb, "revision", 1)
    with Collection.open(folder) as earlier, pytest.raises(FormatError, match="made by a newer faemb"):
        earlier.update()


def test_a_newer_revision_is_no_reason_to_learn_again(collection, monkeypatch):
    monkeypatch.setattr(FastFAemb, "revision", 0)
    with Collection.open(collection.layout.folder) as other:
        with pytest.raises(FormatError, match="made by a newer faemb"):
            other.relearn()
        assert other.info().dimension == tiny_model().dimension


# Damage.


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_model_is_learned_again(damage, collection, tmp_path):
    folder = collection.layout.folder
    vectors = exported_vectors(collection, tmp_path)
    damage(model_file(folder))
    with Collection.open(folder) as other:
        (tmp_path / "vectors.npz").unlink()
        assert exported_vectors(other, tmp_path).keys() == vectors.keys()
        with pytest.raises(DamagedModelError, match=r"restore it from a copy, or run: faemb check .* --repair"):
            other.update()
        (fault,) = other.check()
        assert fault == other.info().model_fault
        assert str(model_file(folder) if damage is not Path.unlink else folder) in fault
    assert_repaired(folder)


def test_a_damaged_model_whose_settings_only_its_own_header_holds(tmp_path):
    """As files of development versions; the header is right if it has the fingerprint of the model as it was given."""
    folder = golden(CURRENT, tmp_path)
    assert FACT not in about(folder)
    flip(model_file(folder))
    with Collection.open(folder) as collection:
        assert collection.info().images == 5
        assert len(collection.check()) == 1
    assert_repaired(folder)
    assert FACT in about(folder)


def test_settings_that_nothing_confirms_are_not_used(tmp_path):
    folder = golden(CURRENT, tmp_path)
    with Collection.create(tmp_path / "other.faemb", new_tiny_model()) as other:
        other.add(folder.parent / "photos")
    with closing(sqlite3.connect(tmp_path / "other.faemb" / "catalogue.sqlite")) as database, database:
        database.execute("delete from about where name = ?", (FACT,))
    cut(model_file(tmp_path / "other.faemb"))
    with Collection.open(tmp_path / "other.faemb") as other, pytest.raises(FormatError, match="its settings are lost"):
        other.check(repair=True)


def test_a_damaged_model_without_features_to_learn_from(tmp_path, photos):
    with Collection.create(tmp_path / "bare.faemb", tiny_model(), keep_features=False) as collection:
        collection.add(photos)
    flip(tmp_path / "bare.faemb" / "model.faemb")
    with Collection.open(tmp_path / "bare.faemb") as collection:
        assert len(collection.check()) == 1
        before = contents(tmp_path / "bare.faemb")
        with pytest.raises(
            InputError, match=r"is damaged.*cannot be learned again, because local features are not kept"
        ):
            collection.check(repair=True)
        assert contents(tmp_path / "bare.faemb") == before
        assert len(exported_vectors(collection, tmp_path)) == 5


def test_damaged_features_are_extracted_before_it_learns(collection):
    folder = collection.layout.folder
    flip(folder / "features-1.bin")
    flip(model_file(folder))
    assert_repaired(folder, faults=2)


def test_a_damaged_model_that_has_learned_nothing_yet(tmp_path, photos):
    folder = tmp_path / "new.faemb"
    Collection.create(folder, new_tiny_model()).close()
    before = Model.load(model_file(folder)).fingerprint
    cut(model_file(folder))
    with Collection.open(folder) as collection:
        assert len(collection.check(repair=True)) == 1
        assert Model.load(model_file(folder)).fingerprint == before
        collection.add(photos)
        assert collection.info().searchable == 5


@needs_fork
def test_a_repair_that_is_killed(collection, tmp_path):
    beside, folder = process_beside(), collection.layout.folder
    collection.close()
    flip(model_file(folder))
    whole = beside.run("repair", shutil.copytree(folder.parent, tmp_path / "whole") / folder.name)
    assert whole.fault == ""
    for stop in np.linspace(1, whole.steps, 8).astype(int).tolist():
        copy = shutil.copytree(folder.parent, tmp_path / f"killed at {stop}") / folder.name
        assert beside.run("repair", copy, stop=stop).killed
        with Collection.open(copy) as other:
            assert len(other) == 5
            other.check(repair=True)
            assert other.check() == []
            assert other.info().searchable == 5


def test_the_description_is_checked_like_everything_else(collection):
    folder = collection.layout.folder
    assert json.loads(about(folder)[FACT])["dimension"] == tiny_model().dimension
    collection.close()
    with closing(sqlite3.connect(folder / "catalogue.sqlite")) as database, database:
        database.execute("update about set value = replace(value, '8', '9') where name = ?", (FACT,))
    with pytest.raises(FormatError, match="does not match its checksum"):
        Collection.open(folder)
