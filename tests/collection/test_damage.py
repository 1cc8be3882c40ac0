"""Collections that are damaged, moved, or on a full disk: faults are reported, and what can be derived is repaired."""

import errno
import os
import random
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from faemb.collection import Collection, gathering, index_files, writing
from faemb.collection.backends import APPROXIMATE
from faemb.collection.catalogue import Catalogue
from faemb.collection.layout import Layout
from faemb.collection.slots import SlotFile
from faemb.errors import FaembError, FormatError, InputError
from faemb.runtime.storage import sync_folder
from pictures import picture, pictures
from process_beside import Beside, process_beside
from recording import recording
from small_collections import (
    assert_same,
    assert_searchable,
    names_in,
    new_tiny_model,
    tiny_model,
    vectors_of,
    working_here,
)

COUNT = 5
FILES = ["vectors-1.f32", "features-1.bin"]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos, a collection of them, and one that keeps no features."""
    root = tmp_path_factory.mktemp("original")
    pictures(root / "photos", range(COUNT))
    with working_here():
        for name, kept in (("c.faemb", True), ("bare.faemb", False)):
            with Collection.create(root / name, tiny_model(), keep_features=kept) as collection:
                collection.add(root / "photos")
    return root


@pytest.fixture
def root(tmp_path: Path, original: Path) -> Path:
    return shutil.copytree(original, tmp_path / "root")


@pytest.fixture
def folder(root: Path) -> Path:
    return root / "c.faemb"


@pytest.fixture
def bare(root: Path) -> Path:
    return root / "bare.faemb"


@pytest.fixture(scope="module")
def vectors(original: Path) -> dict[str, np.ndarray]:
    """The vectors of the undamaged collection."""
    with Collection.open(original / "c.faemb") as collection:
        return vectors_of(collection)


@pytest.fixture(scope="module")
def beside() -> Beside:
    if not hasattr(os, "fork"):
        pytest.skip("the process beside the tests forks")
    return process_beside()


def flip(file: Path, place: float = 0.5) -> None:
    """One bit, at a place from 0 to 1."""
    content = bytearray(file.read_bytes())
    content[int(place * (len(content) - 1))] ^= 0x10
    file.write_bytes(content)


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def delete(file: Path) -> None:
    file.unlink()


def faults_in(folder: Path, *, repair: bool = False) -> list[str]:
    with Collection.open(folder) as collection:
        return collection.check(repair=repair)


def assert_whole(folder: Path, vectors: dict[str, np.ndarray], *, features: bool = True) -> None:
    with Collection.open(folder) as collection:
        assert collection.check() == []
        assert_same(vectors_of(collection), vectors)
        if features:
            assert all(len(collection.features(folder / entry.path)) for entry in collection.entries())


# What is found


def test_a_repair_shows_how_many_images_it_has_read(folder):
    (folder / "features-1.bin").unlink()
    told: list[tuple[str, int, int]] = []
    with Collection.open(folder) as collection:
        collection.check(repair=True, progress=lambda *each: told.append(each))
    assert [each for each in told if each[0] == "features"] == [("features", n, COUNT) for n in range(COUNT + 1)]


def test_a_whole_collection_has_no_faults(collection):
    assert collection.check() == []
    assert collection.check(repair=True) == []


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [flip, cut, delete])
def test_a_check_names_the_images(folder, name, damage):
    damage(folder / name)
    told = faults_in(folder)
    count = {flip: 1, cut: (COUNT + 1) // 2, delete: COUNT}[damage]
    assert len(told) == count
    for sentence in told:
        assert sentence.startswith("../photos/00")
        assert ("features" if name.startswith("features") else "vector") in sentence
        assert sentence.endswith("damaged")


@pytest.mark.parametrize("name", FILES[:1])
@pytest.mark.parametrize("damage", [cut, delete])
def test_a_search_in_a_file_that_is_too_short_is_refused(folder, root, name, damage):
    damage(folder / name)
    with Collection.open(folder) as collection:
        with pytest.raises(FormatError, match=rf"{name} is cut short: .*run: faemb check {folder} --repair"):
            collection.search(root / "photos" / "000.png")
        with pytest.raises(FormatError, match=rf"{name} is cut short"):
            collection.export(root / "out.npz", "npz")


@pytest.mark.parametrize("damage", [flip, cut, delete])
def test_a_search_needs_no_features(folder, root, damage):
    damage(folder / "features-1.bin")
    assert_searchable(folder, root / "photos" / "003.png")


def test_an_image_whose_vector_is_damaged_is_left_out_and_the_cure_told(folder, root):
    with Collection.open(folder) as collection:
        (before,) = collection.search(root / "photos" / "000.png", top=9)
    flip(folder / "vectors-1.f32")  # of the third of five
    with Collection.open(folder) as collection:
        (answer,) = collection.search(root / "photos" / "000.png", top=9)
        assert answer.hits == [hit for hit in before.hits if hit.path.name != "002.png"]
        cure = rf"an image is left out, because the stored vector is damaged; run: faemb check {folder} --repair"
        assert re.fullmatch(cure, answer.note)
        (plain,) = collection.search(root / "photos" / "000.png", top=9, verify=0)
        assert (len(plain.hits), plain.note) == (COUNT - 1, answer.note)
        collection.check(repair=True)
        (after,) = collection.search(root / "photos" / "000.png", top=9)
        assert ([hit.path for hit in after.hits], after.note) == ([hit.path for hit in before.hits], "")


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, -3e38])
@pytest.mark.parametrize("index", [None, "rabitq"])
def test_a_vector_of_no_numbers_is_left_out_and_spoils_no_other_answer(folder, root, number, index):
    if index:
        pytest.importorskip("faiss")
    with Collection.open(folder) as collection:
        (before,) = collection.search(root / "photos" / "003.png", top=9, index=index)
    with (folder / "vectors-1.f32").open("r+b") as file:
        file.write(np.full(3, number, "<f4").tobytes())
    with Collection.open(folder) as collection:
        (answer,) = collection.search(root / "photos" / "003.png", top=9, index=index)
        assert [hit.path for hit in answer.hits] == [hit.path for hit in before.hits if hit.path.name != "000.png"]
        assert "an image is left out, because the stored vector is damaged; run: faemb check" in answer.note


def test_damaged_vectors_take_no_places_among_the_results(folder, root):
    """Four of five are nearer to everything than the image itself."""
    width = (folder / "vectors-1.f32").stat().st_size // COUNT
    with (folder / "vectors-1.f32").open("r+b") as file:
        for slot in range(COUNT - 1):
            file.seek(slot * width)
            file.write(np.full(width // 4, np.nan, "<f4").tobytes())
    with Collection.open(folder) as collection:
        (answer,) = collection.search(root / "photos" / "004.png", top=1, verify=1)
    assert [hit.path.name for hit in answer.hits] == ["004.png"]
    assert answer.note.startswith("4 images are left out")


def test_damaged_features_are_not_given_out(folder, root):
    flip(folder / "features-1.bin", 0.01)
    with Collection.open(folder) as collection:
        with pytest.raises(FormatError, match=r"is damaged at the features of .*000.png; run: faemb check .* --repair"):
            collection.features(root / "photos" / "000.png")
        assert len(collection.features(root / "photos" / "004.png")) > 0


def test_features_that_are_gone_are_explained(folder, root):
    delete(folder / "features-1.bin")
    with Collection.open(folder) as collection, pytest.raises(FormatError, match=r"features-1\.bin cannot be read"):
        collection.features(root / "photos" / "000.png")


@pytest.mark.parametrize("damage", [flip, cut, delete])
def test_a_damaged_model_is_refused_by_name(folder, root, damage):
    damage(folder / "model.faemb")
    for use in (
        lambda collection: collection.search(root / "photos" / "000.png"),
        lambda collection: collection.update(),
        lambda collection: collection.add(root / "photos"),
    ):
        with (
            Collection.open(folder) as collection,
            pytest.raises(FormatError, match=r"model\.faemb.*check .* --repair"),
        ):
            use(collection)


def test_another_model_is_refused(folder, root):
    other = new_tiny_model().fit([np.random.default_rng(k).random((40, 128), np.float32) for k in range(6)])
    other.save(folder / "model.faemb")
    with Collection.open(folder) as collection, pytest.raises(FormatError, match="is not the model that encoded"):
        collection.search(root / "photos" / "000.png")


def test_bits_that_flip_in_the_catalogue_are_told_or_change_nothing(folder, root, tmp_path, vectors):
    """There is never an unexpected error, and a search that succeeds gives true scores."""
    whole, chances = (folder / "catalogue.sqlite").read_bytes(), random.Random(3)  # noqa: S311
    with Collection.open(folder) as collection:
        query = collection.features(root / "photos" / "001.png")
        right = {hit.path: hit.similarity for hit in collection.search_features([query])[0].hits}
    outcomes = []
    for _ in range(40):
        content = bytearray(whole)
        content[chances.randrange(len(content))] ^= 1 << chances.randrange(8)
        for file in folder.glob("catalogue.sqlite*"):
            file.unlink()
        (folder / "catalogue.sqlite").write_bytes(content)
        outcomes.append(outcome_of(folder, query, right))
    assert {"whole"} < set(outcomes)


def outcome_of(folder: Path, query: Any, right: dict[Path, float | None]) -> str:
    try:
        with Collection.open(folder) as collection:
            told = collection.check()
            collection.info()
            hits = collection.search_features([query])[0].hits
            list(collection.entries())
    except FaembError:
        return "refused"
    if told:
        return "told"
    assert {hit.path: hit.similarity for hit in hits} == right
    return "whole"


# What is mended


def test_a_damaged_vector_is_found_and_mended(collection, photos):
    expected = collection.search(photos / "a.png")
    path = collection.layout.vectors(1)
    content = bytearray(path.read_bytes())
    content[0] ^= 0xFF
    path.write_bytes(content)
    with Collection.open(collection.layout.folder) as opened:
        (sentence,) = opened.check()
        assert "a.png" in sentence
        assert "vector is damaged" in sentence
        assert len(opened.check(repair=True)) == 1
        assert opened.check() == []
        assert [hit.path for hit in opened.search(photos / "a.png")[0].hits] == [hit.path for hit in expected[0].hits]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [flip, cut, delete])
def test_what_can_be_derived_is(folder, vectors, name, damage):
    damage(folder / name)
    assert faults_in(folder, repair=True) != []
    assert_whole(folder, vectors)


@pytest.mark.parametrize("damage", [flip, cut, delete])
def test_all_at_once_while_the_images_are_there(folder, vectors, damage):
    for name in FILES:
        damage(folder / name)
    assert faults_in(folder, repair=True) != []
    assert_whole(folder, vectors)


@pytest.mark.parametrize("name", FILES[:1])
@pytest.mark.parametrize("damage", [flip, cut, delete])
def test_features_give_vectors_without_the_images(folder, root, vectors, name, damage):
    shutil.rmtree(root / "photos")
    damage(folder / name)
    assert faults_in(folder, repair=True) != []
    assert_whole(folder, vectors)


@pytest.mark.parametrize("damage", [flip, cut, delete])
def test_images_give_vectors_where_no_features_are_kept(bare, vectors, damage):
    damage(bare / "vectors-1.f32")
    assert faults_in(bare, repair=True) != []
    assert_whole(bare, vectors, features=False)
    with Collection.open(bare) as collection:
        assert all(entry.offset is None for entry in collection.entries())


@pytest.mark.parametrize("damage", [flip, cut, delete])
def test_features_that_are_lost_with_their_images_do_not_cost_the_vectors(folder, root, vectors, damage):
    shutil.rmtree(root / "photos")
    damage(folder / "features-1.bin")
    told = faults_in(folder, repair=True)
    assert told != []
    assert "removed" not in " ".join(told)
    assert_whole(folder, vectors, features=False)
    with Collection.open(folder) as collection:
        lost = [entry for entry in collection.entries() if entry.offset is None]
        assert len(lost) == len(told)
        with pytest.raises(InputError, match="are not kept in this collection"):
            collection.features(folder / lost[0].path)


def test_an_image_that_cannot_be_read_any_more_does_not_cost_its_vector_either(folder, root, vectors):
    flip(folder / "features-1.bin")
    (root / "photos" / "002.png").write_bytes(b"\x89PNG no more")
    assert len(faults_in(folder, repair=True)) == 1
    assert_whole(folder, vectors, features=False)


def test_an_image_of_which_nothing_is_left_is_taken_out_and_told(bare, root, vectors):
    shutil.rmtree(root / "photos")
    flip(bare / "vectors-1.f32")
    (sentence,) = faults_in(bare, repair=True)
    assert sentence.endswith("its vector is damaged; nothing is left to compute it from, so the image was removed")
    name = sentence.split(":")[0]
    assert_whole(bare, {path: vector for path, vector in vectors.items() if path != name}, features=False)


def test_an_image_that_has_changed_meanwhile_is_taken_as_it_is_now(folder, root, vectors):
    flip(folder / "features-1.bin")
    picture(root / "photos" / "002.png", 99)
    (sentence,) = faults_in(folder, repair=True)
    assert "002.png" in sentence
    assert_searchable(folder, root / "photos" / "002.png")
    assert_whole(folder, vectors | {"../photos/002.png": vectors_of_one(folder, "../photos/002.png")})


def vectors_of_one(folder: Path, name: str) -> np.ndarray:
    with Collection.open(folder) as collection:
        return vectors_of(collection)[name]


def test_a_repair_of_what_is_whole_changes_nothing(folder, vectors):
    before = {file: file.read_bytes() for file in folder.iterdir()}
    assert faults_in(folder, repair=True) == []
    assert {file: file.read_bytes() for file in before} == before


def test_a_repair_that_is_stopped_is_ended_by_the_next(folder, vectors, monkeypatch):
    """After the damaged vector was dropped and before it is computed again."""
    flip(folder / "vectors-1.f32")
    monkeypatch.setattr(writing.Writer, "encode", lambda *how: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        faults_in(folder, repair=True)
    monkeypatch.undo()
    faults_in(folder, repair=True)
    assert_whole(folder, vectors)


def test_a_repair_finds_out_itself_what_is_damaged(folder, monkeypatch):
    """It holds the lock while it looks: else another process could have moved all meanwhile."""
    with (
        Collection.open(folder) as one,
        Collection.open(folder) as other,
        one._changing(None),
        pytest.raises(FaembError, match="is being changed by another process"),
    ):
        other.check(repair=True)


def test_damage_in_the_way_of_compaction_is_explained(folder, root):
    with Collection.open(folder) as collection:
        delete(folder / "features-1.bin")
        with collection._changing(None) as writer, pytest.raises(FormatError, match=r"features-1\.bin cannot be read"):
            writer.compact(collection.model)
    assert len(faults_in(folder, repair=True)) == COUNT
    assert faults_in(folder) == []


@pytest.mark.parametrize("kind", ["hnsw", "binary"])
@pytest.mark.parametrize(
    "damage", [cut, delete, lambda file: file.write_bytes(b"\xff" * 500)], ids=["cut", "delete", "garbage"]
)
def test_a_damaged_index_is_made_again(folder, root, kind, damage):
    pytest.importorskip("faiss")
    with Collection.open(folder) as collection:
        (before,) = collection.search(root / "photos" / "001.png", index=kind)
    (file,) = folder.glob("*.faiss")
    size = file.stat().st_size
    damage(file)
    with Collection.open(folder) as collection:
        assert collection.search(root / "photos" / "001.png", index=kind) == [before]
        assert collection.check() == []
    assert file.stat().st_size == size


@pytest.mark.parametrize("kind", APPROXIMATE)
def test_a_damaged_index_never_answers(folder, root, kind):
    """Bits that flip anywhere, and files that are cut, lead to another index and to the same answer."""
    pytest.importorskip("faiss")
    chances = random.Random(7)  # noqa: S311
    with Collection.open(folder) as collection:
        query = [collection.features(root / "photos" / "001.png")]
        before = collection.search_features(query, index=kind)
    (file,) = folder.glob("*.faiss")
    whole = file.read_bytes()
    places = [
        0,
        1,
        len(whole) - 1,
        len(whole) - 6,
        len(whole) - 15,
        *(chances.randrange(len(whole)) for _ in range(15)),
    ]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << chances.randrange(8)
        file.write_bytes(damaged if place % 5 else damaged[:place])
        with Collection.open(folder) as collection:
            assert collection.search_features(query, index=kind) == before
        assert file.read_bytes() == whole


def test_an_index_is_read_once_in_a_process(folder, root, monkeypatch):
    pytest.importorskip("faiss")
    read: list[Path] = []
    monkeypatch.setattr(index_files, "is_undamaged", recording(read.append, index_files.is_undamaged))
    for _ in range(3):
        with Collection.open(folder) as collection:
            collection.search(root / "photos" / "001.png", index="hnsw")
    (file,) = folder.glob("*.faiss")
    assert read == [file]


@pytest.mark.parametrize("kind", APPROXIMATE)
@pytest.mark.parametrize("other", ["kind", "width", "count"])
def test_an_index_of_something_else_is_passed_over(folder, root, kind, other, tmp_path):
    pytest.importorskip("faiss")
    with Collection.open(folder) as collection:
        query = [collection.features(root / "photos" / "001.png")]
        before = collection.search_features(query, index=kind)
        shape = collection.view().vectors.shape
    (file,) = folder.glob("*.faiss")
    whole, rng = file.read_bytes(), np.random.default_rng(0)
    made_as = APPROXIMATE["binary" if kind == "hnsw" else "hnsw"] if other == "kind" else APPROXIMATE[kind]
    rows, columns = shape[0] + 40 * (other == "count"), shape[1] + 8 * (other == "width")
    made_as.build(rng.random((rows, columns), np.float32), np.arange(rows)).save(file)
    with Collection.open(folder) as collection:
        assert collection.search_features(query, index=kind) == before
    assert file.read_bytes() == whole


@pytest.mark.parametrize("place", [0.02, 0.5, 0.9, 1.0])
def test_a_check_reads_the_index_too(folder, root, place):
    pytest.importorskip("faiss")
    with Collection.open(folder) as collection:
        (before,) = collection.search(root / "photos" / "001.png", index="hnsw")
        assert collection.check() == []
        (file,) = folder.glob("*.faiss")
        flip(file, place)
        assert collection.check() == [f"the index {file} is damaged"]
        assert collection.check(repair=True) == [f"the index {file} is damaged"]
        assert collection.check() == []
    with Collection.open(folder) as collection:
        assert collection.search(root / "photos" / "001.png", index="hnsw") == [before]
        assert collection.check() == []


# Where there is no room


@pytest.mark.parametrize("limit", [8_000, 33_000, 45_000, 70_000])
def test_a_full_disk_costs_nothing_but_the_work_that_was_not_done(beside, folder, root, vectors, limit):
    """The system refuses to let a file grow beyond the limit, as it refuses when there is no room."""
    more = pictures(root / "more", range(20, 30))
    ended = beside.run("add", folder, more, limit=limit)
    assert ended.fault.startswith(("FaembError: ", "NoRoomError: "))
    assert "\n" not in ended.fault
    assert str(folder) in ended.fault
    assert "make room on the disk and run the same command again" in ended.fault
    with Collection.open(folder) as collection:
        assert collection.check() == []
        held = vectors_of(collection)
        assert_same({name: held[name] for name in vectors}, vectors)
    assert_searchable(folder, root / "photos" / "001.png")
    assert beside.run("add", folder, more).fault == ""
    assert len(names(folder)) == COUNT + 10
    assert_searchable(folder, more / "025.png")


@pytest.mark.parametrize("limit", [0, 5_000, 33_000, 45_000])
def test_a_collection_for_which_there_is_no_room_is_made_later(beside, tmp_path, limit):
    photos = pictures(tmp_path / "photos", range(12))
    ended = beside.run("index", tmp_path / "c", photos, limit=limit)
    assert ended.fault.startswith(("FaembError: ", "NoRoomError: "))
    assert "\n" not in ended.fault
    assert beside.run("index", tmp_path / "c", photos).fault == ""
    assert faults_in(tmp_path / "c") == []
    assert_searchable(tmp_path / "c", photos / "003.png")


def test_compaction_waits_for_room_and_leaves_nothing_behind(beside, folder, root):
    """Compaction follows a change that is complete, which must not fail because of it."""
    more = pictures(root / "more", range(20, 36))
    assert beside.run("add", folder, more).fault == ""
    before = sorted(file.name for file in folder.iterdir())
    assert size_of(folder / "features-1.bin") > 50_000
    assert beside.run("compact", folder, limit=50_000).fault == ""
    assert sorted(file.name for file in folder.iterdir()) == before
    assert faults_in(folder) == []
    assert beside.run("compact", folder).fault == ""
    assert (folder / "vectors-2.f32").exists()
    assert faults_in(folder) == []
    assert_searchable(folder, more / "025.png")


def test_a_search_that_cannot_write_its_index_answers_all_the_same(beside, folder, root):
    pytest.importorskip("faiss")
    ended = beside.run("build_index", folder, root / "photos" / "000.png")
    assert (ended.fault, ended.told) == ("", [str(root / "photos" / "000.png")])
    assert list(folder.glob("*.faiss")) == []
    assert list(folder.glob(".*.tmp")) == []


def test_a_disk_without_any_room_is_searched(beside, folder, root):
    pytest.importorskip("faiss")
    ended = beside.run("look_without_room", folder, root / "photos" / "000.png")
    found = str(root / "photos" / "000.png")
    assert (ended.fault, ended.told) == ("", [str([found, found, COUNT, []])])


def test_a_removal_is_complete_without_room_for_what_follows(folder, root, monkeypatch):
    """The transaction of a compaction may fail when its files are there already."""

    def no_room(*how: Any, **more: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with Collection.open(folder) as collection:
        monkeypatch.setattr(writing, "_UNUSED_SLOTS", 0)
        with monkeypatch.context() as patch:
            patch.setattr(Catalogue, "use", no_room)
            assert collection.remove([root / "photos" / "000.png", root / "photos" / "001.png"]) == 2
        assert collection.check() == []
        assert sorted(file.name for file in folder.glob("*-2.*")) == []
        collection.remove(root / "photos" / "002.png")
        assert sorted(file.name for file in folder.glob("*-2.*")) == ["features-2.bin", "vectors-2.f32"]
        assert collection.check() == []


def test_too_few_files_at_a_time_are_explained(folder, root, monkeypatch):
    def open_too_many(*how: Any, **more: Any) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(gathering, "spread", open_too_many)
    with Collection.open(folder) as collection, pytest.raises(FaembError, match=r"allow more with: ulimit -n 1024"):
        collection.add(picture(root / "more.png", 90))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_repair_does_not_wait_for_a_pipe_in_place_of_an_image(folder, root, vectors):
    flip(folder / "features-1.bin")
    for image in (root / "photos").iterdir():
        image.unlink()
        os.mkfifo(image)
    (folder / "thumbnails.sqlite").unlink()
    assert len(faults_in(folder, repair=True)) == 1
    assert_whole(folder, vectors, features=False)


def test_a_collection_that_may_only_be_read(beside, original):
    """Such as on a backup disk: it can be searched, and a change is refused in one sentence."""
    pytest.importorskip("faiss")
    with tempfile.TemporaryDirectory() as place:
        root = shutil.copytree(original, Path(place) / "root")
        for above in (place, root):
            os.chmod(above, 0o755)  # noqa: S103  (so that others come in at all)
        folder, image = root / "c.faemb", root / "photos" / "002.png"
        os.chmod(folder, 0o555)  # noqa: S103
        ended = beside.run("look_only", folder, image)
        os.chmod(folder, 0o755)  # noqa: S103
        assert ended.told == [str(image), "[]"], ended.fault
        assert re.fullmatch(f"FaembError: {folder}.* cannot be (changed|written): .*", ended.fault)
        assert faults_in(folder) == []


def size_of(file: Path) -> int:
    return file.stat().st_size


def names(folder: Path) -> set[str]:
    with Collection.open(folder) as collection:
        return names_in(collection)


# Moved, and in company


def test_a_folder_with_images_and_collection_can_be_moved(root, folder, tmp_path):
    """Also right after a killed process: its log comes along."""
    outside = picture(tmp_path / "elsewhere" / "far.png", 70)
    with Collection.open(folder) as collection:
        collection.add(outside)
        assert str(outside) in names_in(collection)
        os.rename(root, tmp_path / "moved")  # with the database open
    moved = tmp_path / "moved"
    with Collection.open(moved / "c.faemb") as collection:
        assert collection.check() == []
        (answer,) = collection.search(moved / "photos" / "002.png", top=9)
        assert {hit.path for hit in answer.hits} == {outside, *(moved / "photos").iterdir()}
        assert collection.update().unchanged == COUNT
        picture(moved / "photos" / "new.png", 71)
        assert collection.update().added == 1
        assert collection.remove(moved / "photos" / "000.png") == 1
        assert len(collection.features(outside)) > 0
    assert_searchable(moved / "c.faemb", moved / "photos" / "new.png")
    assert_searchable(moved / "c.faemb", outside)


def test_a_collection_that_moves_alone_loses_sight_of_its_images_but_not_of_their_vectors(folder, tmp_path, vectors):
    (tmp_path / "alone").mkdir()
    os.rename(folder, tmp_path / "alone" / "c.faemb")
    with Collection.open(tmp_path / "alone" / "c.faemb") as collection:
        assert collection.check() == []
        assert_same(vectors_of(collection), vectors)
        with pytest.raises(InputError, match=r"the folder .*photos is not there, and its images were not touched"):
            collection.update()
        assert_same(vectors_of(collection), vectors)


def test_what_others_keep_in_the_folder_is_not_touched(folder, root):
    theirs = ["my-notes.bin", "a-b.f32", ".swap.tmp", "notes-1.u8", "x.faiss", "vectors-final.f32", "index-a-b.faiss"]
    theirs += ["fitted.faemb", "model-2.faemb", "index-1-final.faiss", "holiday-2024-06.faiss", "holiday-2-6.faiss"]
    theirs += ["vectors-2024.f32", "features-2024.bin", "hnsw-2024-6.faiss", "hnsw-02-6.faiss", "below/vectors-2.f32"]
    ours = ["vectors-2.f32", "short-1.f32", "codes-2.u8", "features-2.bin", "hnsw-2-5.faiss", ".0123456789abcdef.tmp"]
    (folder / "below").mkdir()
    for name in theirs + ours:
        (folder / name).write_text("precious")
    with Collection.open(folder) as collection:
        collection.remove(root / "photos" / "000.png")
        assert collection.check(repair=True) == []
    assert [name for name in theirs if not (folder / name).exists()] == []
    assert [name for name in ours if (folder / name).exists()] == []


def test_an_image_whose_name_is_no_text(folder, root):
    """Linux allows any bytes."""
    name = os.fsdecode(b"caf\xe9.png")
    try:
        picture(root / "photos" / "cafe.png", 60).rename(root / "photos" / name)
    except OSError:
        pytest.skip("this file system wants names in UTF-8")
    (root / "photos" / os.fsdecode(b"\xff.png")).write_bytes(b"no image")
    with Collection.open(folder) as collection:
        report = collection.update()
        assert (report.added, len(report.failed)) == (1, 1)
        assert collection.update().unchanged == COUNT + 1
        assert len(collection.info().unreadable) == 1
        (answer,) = collection.search(root / "photos" / name, top=1)
        assert answer.hits[0].path == root / "photos" / name
        assert collection.remove(root / "photos" / name) == 1


def test_names_are_stored_without_loss(tmp_path):
    layout = Layout(tmp_path / "c.faemb")
    for name in ("plain.png", "żółć/東京.png", os.fsdecode(b"\xff\xfe/caf\xe9.png"), "0\\udce9.png", "dce9"):
        for image in (tmp_path / name, tmp_path / "c.faemb" / name, tmp_path.parent / "elsewhere" / name):
            stored = layout.name_of(image)
            stored.encode()
            assert layout.path_of(stored) == image


def test_compaction_before_anything_is_learned(tmp_path):
    """A run that was stopped after gathering leaves features and no model."""
    with Collection.create(tmp_path / "c", new_tiny_model()) as collection:
        pictures(tmp_path / "photos", range(3))
        PIL.Image.new("L", (50, 40), 9).save(tmp_path / "photos" / "blank.png")
        with collection._changing(None) as writer:
            files = sorted((tmp_path / "photos").iterdir())
            gathering.gather(writer, files, collection.model, 1, writing.Report())
        collection.remove(tmp_path / "photos" / "001.png")
        with collection._changing(None) as writer:
            writer.compact(collection.model)
        assert collection.check() == []
        assert collection.add([tmp_path / "photos", tmp_path / "photos" / "001.png"]).unchanged == 3
        assert collection.info().searchable == 3


def test_compaction_is_on_the_disk_before_it_counts(folder, monkeypatch):
    """Files first, then the folder that names them, then the catalogue."""
    order: list[str] = []

    def watched(what: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        return recording(lambda *how, **more: order.append(what), inner)

    with Collection.open(folder) as collection, collection._changing(None) as writer:
        monkeypatch.setattr(SlotFile, "write", watched("rows", SlotFile.write))
        monkeypatch.setattr(writing, "sync_folder", watched("folder", sync_folder))
        monkeypatch.setattr(collection._catalogue, "set", watched("generation", collection._catalogue.set))
        writer.compact(collection.model)
    assert order[:3] == ["rows", "folder", "generation"]
