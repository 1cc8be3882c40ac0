"""Who may do what at the same time: one writer, any number of readers, and none of them waits for a dead one."""

import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from faemb.collection import Collection, reading, stored
from faemb.collection.backends import HNSW
from faemb.collection.catalogue import Catalogue
from faemb.collection.reading import View
from faemb.collection.slots import SlotFile
from faemb.collection.stored import stored_features
from faemb.errors import FaembError, InputError
from pictures import picture, pictures
from process_beside import Beside, process_beside
from processes import PATIENCE, wait_until
from small_collections import (
    assert_same,
    names_below,
    names_in,
    new_tiny_model,
    tiny_model,
    vectors_of,
)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the process beside the tests forks")

BUSY = "is being changed by another process; wait until it has ended, then run this again"


@pytest.fixture(scope="module")
def beside() -> Beside:
    return process_beside()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, beside: Beside) -> Path:
    root = tmp_path_factory.mktemp("original")
    assert beside.run("index", root / "c.faemb", pictures(root / "photos", range(5))).fault == ""
    return root


@pytest.fixture
def photos(tmp_path: Path, original: Path) -> Path:
    return shutil.copytree(original / "photos", tmp_path / "photos")


@pytest.fixture
def folder(tmp_path: Path, original: Path) -> Path:
    """A collection of the photos."""
    return shutil.copytree(original / "c.faemb", tmp_path / "c.faemb")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# Writers


def test_a_second_writer_is_turned_away_and_nothing_is_changed(beside, folder, photos, tmp_path):
    picture(photos / "new.png", 9)
    beside.start("hold", folder, tmp_path / "enough")
    assert wait_until(lambda: beside.told() == ["locked"])
    before = contents(folder)
    with Collection.open(folder) as collection:
        for change in (
            lambda: collection.add(photos),
            lambda: collection.update(),
            lambda: collection.remove(photos / "000.png"),
        ):
            with pytest.raises(FaembError, match=BUSY) as caught:
                change()
            assert str(folder) in str(caught.value)
        assert len(collection) == 5
        assert collection.check() == []
        assert len(collection.search(photos / "000.png", top=9)[0].hits) == 5
    assert contents(folder) == before
    (tmp_path / "enough").touch()
    assert beside.end().fault == ""
    with Collection.open(folder) as collection:
        assert collection.add(photos).added == 1


def test_the_lock_of_a_killed_writer_is_free_at_once(beside, folder, photos, tmp_path):
    picture(photos / "new.png", 9)
    assert beside.run("hold", folder, tmp_path / "never", after=0.3).killed
    assert (folder / "writer.lock").exists()
    with Collection.open(folder) as collection:
        assert collection.add(photos).added == 1


def test_work_of_another_process_is_no_interruption(beside, tmp_path, photos):
    """While it works, that is said; afterwards, the command that continues what was interrupted."""

    def stop(stage: str, done: int, total: int) -> None:
        if stage != "features":
            raise KeyboardInterrupt

    with Collection.create(tmp_path / "new.faemb", new_tiny_model()) as made:
        with pytest.raises(KeyboardInterrupt):
            made.add(photos, progress=stop)
        beside.start("hold", tmp_path / "new.faemb", tmp_path / "enough")
        assert wait_until(lambda: beside.told() == ["locked"])
        assert (made.info().waiting, made.info().is_being_changed) == (5, True)
        with pytest.raises(InputError, match="no encoded images yet; another process is working on it: wait until it"):
            made.search(photos / "000.png")
        (tmp_path / "enough").touch()
        assert beside.end().fault == ""
        assert not made.info().is_being_changed
        with pytest.raises(InputError, match="no encoded images yet; run: faemb update"):
            made.search(photos / "000.png")
        made.update()
        assert len(made.search(photos / "000.png")[0].hits) == 5


def test_who_looks_at_the_lock_does_not_disturb_a_writer(folder, photos):
    """The look is longer here than it ever is."""
    look = FileLock(folder / "writer.lock", thread_local=False)
    look.acquire()
    ends = threading.Timer(0.05, look.release)
    ends.start()
    with Collection.open(folder) as collection:
        assert collection.add(photos).unchanged == 5
    ends.join()


def test_one_process_excludes_itself_too(folder):
    with (
        Collection.open(folder) as one,
        Collection.open(folder) as other,
        one._changing(None),
        pytest.raises(FaembError, match=BUSY),
    ):
        other.remove(folder)


def test_a_writer_that_fails_lets_go(folder, photos):
    def fail(stage: str, done: int, total: int) -> None:
        raise ZeroDivisionError

    with Collection.open(folder) as collection:
        with pytest.raises(ZeroDivisionError):
            collection.add(photos, progress=fail)
        assert collection.add(photos).unchanged == 5


def test_of_two_that_make_the_same_collection_one_is_turned_away(tmp_path, monkeypatch):
    """The second writer starts while the first is working."""
    told: list[str] = []
    create = Catalogue.create

    def meanwhile(path: Path, about: dict[str, str]) -> Catalogue:
        monkeypatch.undo()
        try:
            Collection.create(tmp_path / "c", new_tiny_model()).close()
        except FaembError as error:
            told.append(str(error))
        return create(path, about)

    monkeypatch.setattr(Catalogue, "create", meanwhile)
    with Collection.create(tmp_path / "c", tiny_model()) as collection:
        assert collection.model.is_fitted
    assert [BUSY in sentence for sentence in told] == [True]
    with pytest.raises(InputError, match=r"there is a collection at .* already"):
        Collection.create(tmp_path / "c", tiny_model())


# Writers whose lock file someone deletes


@pytest.mark.parametrize("job", ["add", "relearn", "compact"])
@pytest.mark.parametrize("moment", [0.35, 0.8])
def test_two_writers_that_were_let_in_do_not_disturb_each_other(beside, folder, photos, tmp_path, job, moment):
    """The first one waits at a step of its work, the second one does all of its own, the first one goes on."""
    whole, more, other = copy_of(folder), pictures(tmp_path / "more", (20, 21, 22)), pictures(tmp_path / "b", (30, 31))
    arguments = [more] if job == "add" else []
    steps = beside.run(job, whole, *arguments).steps
    beside.start(job, folder, *arguments, wait=max(1, int(moment * steps)))
    assert wait_until(beside.waits)
    (folder / "writer.lock").unlink()
    came_in = add_and_compact(folder, other)
    beside.go_on()
    ended = beside.end()
    assert ended.fault == "" or "writer.lock was deleted, and another process may be changing" in ended.fault
    assert (ended.fault == "") is (len(ended.told) == 2)  # it waited, and said that it has ended
    acknowledged = [photos, *([other] if came_in else []), *([more] if str(more) in ended.told else [])]
    with Collection.open(folder) as collection:
        assert collection.check() == []
        held = set(names_below(collection, tmp_path))
        assert held >= {str(file.relative_to(tmp_path)) for place in acknowledged for file in place.iterdir()}
        collection.add([more, other])
        assert len(collection) == 10
        assert collection.check() == []
        for image in sorted(other.iterdir()):
            assert collection.search(image, top=1)[0].hits[0].path == image


def copy_of(folder: Path) -> Path:
    return shutil.copytree(folder, folder.with_name("copy.faemb"))


def add_and_compact(folder: Path, images: Path) -> bool:
    """False if the other process is in the middle of a transaction and does not let it in."""
    with Collection.open(folder) as collection:
        collection._catalogue._database.execute("pragma busy_timeout = 100")
        try:
            collection.add(images)
            with collection._changing(None) as writer:
                writer.compact(collection.model)
        except FaembError as error:
            if "is in use by another process" not in str(error):
                raise
            return False
    return True


def test_a_lock_file_that_was_deleted_and_made_again(folder, photos):
    with Collection.open(folder) as collection, collection._changing(None) as writer:
        (folder / "writer.lock").unlink()
        (folder / "writer.lock").touch()
        with pytest.raises(FaembError, match=r"writer\.lock was deleted"):
            writer.remove(["../photos/000.png"])
        assert len(collection) == 5


# Readers


def test_readers_see_whole_states_whatever_a_writer_does(beside, folder, photos, tmp_path):
    """Every answer is that of one of the states, and no call fails."""
    one, other = pictures(tmp_path / "one", (20, 21, 22)), pictures(tmp_path / "other", (30, 31))
    states = whole_states(folder, photos, one, other)
    beside.start("churn", folder, one, other)
    seen: list[int] = []
    deadline = time.monotonic() + PATIENCE
    while beside.told()[-1:] != ["done"] and time.monotonic() < deadline:
        with Collection.open(folder) as reader:
            for _ in range(5):
                seen.append(one_look(reader, photos, states))
    assert beside.end().fault == ""
    assert len(set(seen)) > 1, "nothing was seen of what was done"
    with Collection.open(folder) as collection:
        assert collection.check() == []
        assert len(collection) == 5


def whole_states(folder: Path, photos: Path, *more: Path) -> list[dict[str, float | None]]:
    """What a search answers as it is, and with each of the other places."""
    with Collection.open(folder) as collection:
        found = [scores(collection, photos)]
        for place in more:
            collection.add(place)
            found.append(scores(collection, photos))
            collection.remove(place)
    return found


def scores(collection: Collection, photos: Path) -> dict[str, float | None]:
    (answer,) = collection.search_features([collection.features(photos / "001.png")], top=50)
    return {str(hit.path): hit.similarity for hit in answer.hits}


def one_look(reader: Collection, photos: Path, states: list[dict[str, float | None]]) -> int:
    """Which of the states it shows."""
    found = scores(reader, photos)
    assert reader.check() == []
    assert reader.info().images >= 5
    assert [group.paths for group in reader.duplicates(0.99)] == []
    (state,) = [number for number, state in enumerate(states) if state.keys() == found.keys()]
    assert found == pytest.approx(states[state], abs=1e-4)
    return state


def test_what_a_reader_has_mapped_is_not_written_over(folder, photos, tmp_path):
    """The last slot of a removed image is not given to another one, nor is the place of its features."""
    with Collection.open(folder) as reader, Collection.open(folder) as writer:
        view, before, entries = reader.view(), vectors_of(reader), list(reader.entries())
        held, file = np.array(view.vectors), reader.layout.features(view.generation)
        packed = [stored_features(file, entry).descriptors for entry in entries]
        writer.remove([photos / "003.png", photos / "004.png"])
        writer.add(pictures(tmp_path / "others", (40, 41, 42)))
        np.testing.assert_array_equal(view.vectors, held)
        now = vectors_of(reader)
        assert_same({name: now[name] for name in before if name in now}, {n: before[n] for n in before if n in now})
        for entry, descriptors in zip(entries, packed, strict=True):
            np.testing.assert_array_equal(stored_features(file, entry).descriptors, descriptors)


def test_an_index_never_stands_for_images_that_came_later(folder, photos, tmp_path, monkeypatch):
    """It covers the first N slots, also those of removed images, which are not used again."""
    pytest.importorskip("faiss")
    monkeypatch.setattr(HNSW, "least", 1)
    monkeypatch.setattr(reading, "_MORE", 1)
    with Collection.open(folder) as collection:
        collection.add(pictures(tmp_path / "more", range(100, 106)))
        collection.search(photos / "000.png", index="hnsw")
        collection.remove([tmp_path / "more" / "104.png", tmp_path / "more" / "105.png"])
        new = pictures(tmp_path / "new", (300, 301))
        collection.add(new)
        for image in sorted(new.iterdir()):
            (answer,) = collection.search(image, index="hnsw", top=1)
            assert answer.hits[0].path == image


def test_an_image_that_is_removed_during_a_search_is_still_an_answer(folder, photos, monkeypatch):
    """It was there when the search began."""
    search = View.search

    def meanwhile(view: View, *how: Any, **more: Any) -> Any:
        found = search(view, *how, **more)
        with Collection.open(folder) as other:
            other.remove(photos / "002.png")
        monkeypatch.undo()
        return found

    with Collection.open(folder) as reader:
        features = reader.features(photos / "002.png")
        monkeypatch.setattr(View, "search", meanwhile)
        (answer,) = reader.search_features([features], top=9)
        assert len(answer.hits) == 5
        assert answer.hits[0].path == photos / "002.png"
        (answer,) = reader.search_features([features], top=9)
        assert len(answer.hits) == 4


@pytest.mark.parametrize("times", [1, 5])
def test_compaction_between_looking_up_a_file_and_opening_it(folder, photos, monkeypatch, times):
    rows, left = SlotFile.rows, [times]

    def meanwhile(file: SlotFile, count: int) -> Any:
        if left[0] and not only_once:
            left[0] -= 1
            only_once.append(True)
            with Collection.open(folder) as other, other._changing(None) as writer:
                writer.compact(other.model)
            only_once.clear()
        return rows(file, count)

    only_once: list[bool] = []
    with Collection.open(folder) as reader:
        features = reader.features(photos / "002.png")
        monkeypatch.setattr(SlotFile, "rows", meanwhile)
        (answer,) = reader.search_features([features], top=9)
        assert len(answer.hits) == 5
        assert left == [0]


def moving_all_before_the_next_read(module, monkeypatch, folder: Path, image: Path) -> None:
    """When `module` reads from a file next, another process has just taken out an image and compacted the rest."""
    read_at = module.read_at

    def meanwhile(path: Path, offset: int, length: int) -> bytes:
        monkeypatch.setattr(module, "read_at", read_at)
        with Collection.open(folder) as other:
            other.remove(image)
            with other._changing(None) as writer:
                writer.compact(other.model)
        return read_at(path, offset, length)

    monkeypatch.setattr(module, "read_at", meanwhile)


def test_compaction_between_looking_up_features_and_reading_them(folder, photos, monkeypatch):
    with Collection.open(folder) as reader:
        expected = reader.features(photos / "002.png").descriptors
        moving_all_before_the_next_read(stored, monkeypatch, folder, photos / "000.png")
        np.testing.assert_array_equal(reader.features(photos / "002.png").descriptors, expected)


def test_a_check_while_all_is_moved_finds_no_faults(folder, photos, monkeypatch):
    with Collection.open(folder) as reader:
        moving_all_before_the_next_read(stored, monkeypatch, folder, photos / "000.png")
        assert reader.check() == []


def test_a_reader_that_came_before_the_model_had_learned(tmp_path, photos):
    with Collection.create(tmp_path / "c", new_tiny_model()) as reader:
        with pytest.raises(InputError, match="holds no encoded images yet"):
            reader.search(photos / "000.png")
        with Collection.open(tmp_path / "c") as writer:
            writer.add(photos)
        (answer,) = reader.search(photos / "000.png", top=9)
        assert len(answer.hits) == 5
        assert reader.info().dimension > 0


def test_a_folder_that_cannot_be_read_does_not_take_its_images_out(folder, photos, monkeypatch):
    """A read error must not remove images."""
    picture(photos / "below" / "a.png", 50)
    with Collection.open(folder) as collection:
        collection.add(photos)
        scandir = os.scandir

        def guarded(path: Any) -> Any:
            if os.path.basename(path) == "below":
                raise PermissionError(13, "Permission denied")
            return scandir(path)

        monkeypatch.setattr(os, "scandir", guarded)
        report = collection.update()
        assert report.removed == 0
        assert report.failed == [f"the folder {photos / 'below'} cannot be read: Permission denied"]
        assert "../photos/below/a.png" in names_in(collection)
