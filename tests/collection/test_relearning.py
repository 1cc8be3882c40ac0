"""A collection that grows learns its model again; until that is complete, the old one answers."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faemb.collection import Collection, Model, encoding, relearning, slots, stored
from faemb.collection.current_model import CurrentModel
from faemb.collection.relearning import history
from faemb.collection.slots import SlotFile
from faemb.errors import FaembError, InputError
from pictures import blank, picture, pictures
from recording import recording
from small_collections import assert_finds, assert_same, names_in, new_tiny_model, tiny_model, vectors_of

FEW, MANY = range(3), range(3, 9)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `few` whose collection has learned from its 3 images, and a folder `more` with 6."""
    root = tmp_path_factory.mktemp("original")
    pictures(root / "more", MANY)
    with Collection.create(root / "c", new_tiny_model()) as made:
        made.add(pictures(root / "few", FEW))
    return root


@pytest.fixture
def root(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "root")


@pytest.fixture
def growing(root: Path) -> Iterator[Collection]:
    with Collection.open(root / "c") as opened:
        yield opened


@pytest.fixture
def at_once(root: Path) -> dict[str, np.ndarray]:
    """Vectors of a collection that has learned from all images at once."""
    with Collection.create(root / "at-once", new_tiny_model()) as made:
        made.add([root / "few", root / "more"])
        return vectors_of(made)


class Stopped(BaseException):
    """As if the process were killed: nothing in the code handles it."""


def stop_at_batch(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of two images; the process ends when it writes this one."""
    monkeypatch.setattr(encoding, "PORTION", 2)
    write, left = SlotFile.write, [number]

    def stopping(file: SlotFile, first: int, rows: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise Stopped
        return write(file, first, rows)

    monkeypatch.setattr(SlotFile, "write", stopping)


def interrupted(growing: Collection, root: Path, batches: int = 2) -> None:
    """All images are there, and so many batches of two of them are encoded with a new model."""
    with pytest.MonkeyPatch.context() as patch:
        stop_at_batch(batches, patch)
        with pytest.raises(Stopped):
            growing.add(root / "more")


class TestGrowth:
    def test_it_is_as_if_all_had_been_there_at_first(self, growing, root, at_once):
        told: list[str] = []
        report = growing.add(root / "more", notice=told.append)
        assert told == [
            "the model has learned from 3 of 9 images; it is learned again from 9, "
            "and 9 images are encoded again, which needs no image file"
        ]
        assert (report.added, report.relearned_from) == (6, 9)
        assert growing.info().learned_from == 9
        assert not growing.info().relearning_is_due
        assert_same(vectors_of(growing), at_once)
        assert growing.check() == []
        assert growing.layout.stale(growing._catalogue.in_use()) == []
        assert_finds(growing.search(root / "more" / "005.png", top=1)[0].hits, root / "more" / "005.png")
        with Collection.open(root / "c") as again:
            assert again.check() == []
            assert again.search(root / "few" / "001.png") == growing.search(root / "few" / "001.png")
            assert again.add([root / "few", root / "more"]).relearned_from == 0

    def test_update_does_it_too(self, growing, root):
        pictures(root / "few", MANY)
        assert growing.update().relearned_from == 9

    def test_with_fewer_than_twice_as_many_it_waits(self, growing, root):
        assert growing.add([root / "more" / "003.png", root / "more" / "004.png"]).relearned_from == 0
        blank(root / "flat.png")  # teaches nothing
        assert growing.add(root / "flat.png").relearned_from == 0
        assert growing.add(root / "more" / "005.png").relearned_from == 6

    def test_it_can_be_refused_and_done_later(self, growing, root, at_once):
        before = vectors_of(growing)
        assert growing.add(root / "more", relearn=False).relearned_from == 0
        known = growing.info()
        assert (known.learned_from, known.relearning_is_due, known.searchable) == (3, True, 9)
        now = vectors_of(growing)
        assert_same({name: now[name] for name in before}, before)
        assert growing.relearn().relearned_from == 9
        assert_same(vectors_of(growing), at_once)

    def test_a_model_that_has_seen_enough_is_kept(self, growing, root, monkeypatch):
        monkeypatch.setattr(relearning, "LEARNING_IMAGES", 3)
        assert growing.add(root / "more").relearned_from == 0

    def test_a_model_that_was_given_is_kept(self, root):
        with Collection.create(root / "given", tiny_model()) as made:
            made.add(root / "few" / "000.png")
            made.add(root / "more")
            assert (made.info().learned_from, made.info().relearning_is_due) == (0, False)

    def test_a_model_that_was_given_is_replaced_on_demand(self, root, at_once):
        told: list[str] = []
        with Collection.create(root / "given", tiny_model()) as made:
            made.add([root / "few", root / "more"])
            made.relearn(notice=told.append)
            assert told[0].startswith("the model was given, and not learned from this collection; it is learned again")
            assert made.info().learned_from == 9
            assert_same(vectors_of(made), at_once)
        with Collection.resume(root / "given", tiny_model()) as again:  # the command that made it goes on
            assert again.add(root / "few").unchanged == 3

    def test_it_can_be_done_again_and_again(self, growing, root):
        for _ in range(3):
            growing.relearn()
            assert growing.check() == []
            assert_finds(growing.search(root / "few" / "001.png", top=1)[0].hits, root / "few" / "001.png")

    def test_indexes_are_made_anew(self, growing, root):
        pytest.importorskip("faiss")
        growing.search(root / "few" / "000.png", index="hnsw")
        growing.add(root / "more")
        for kind in ("hnsw", "binary"):
            hits = growing.search(root / "more" / "004.png", index=kind)
            assert hits == growing.search(root / "more" / "004.png", index="exact")

    def test_compaction_follows(self, growing, root):
        growing.add(root / "more")
        with growing._changing(None) as writer:
            writer.compact(growing.model)
        assert growing.check() == []
        assert growing.relearn().relearned_from == 9
        assert growing.check() == []


class TestWithoutFeatures:
    def test_it_is_said_once_that_it_would_be_due(self, root):
        with Collection.create(root / "bare", new_tiny_model(), keep_features=False) as made:
            made.add(root / "few")
            told: list[str] = []
            for image in sorted((root / "more").iterdir()):
                assert made.add(image, notice=told.append).relearned_from == 0
            (sentence,) = told
            assert sentence.startswith("the collection has outgrown its model; the model of ")
            assert "local features are not kept in it; index the images into a new collection" in sentence
            with pytest.raises(InputError, match="cannot be learned again, because local features are not kept"):
                made.relearn()
            assert made.check() == []
            assert made.info().searchable == 9

    def test_features_of_an_image_that_are_lost_are_not_paid_with_its_vector(self, growing, root):
        growing.add(root / "more", relearn=False)
        growing._catalogue.forget_features(2)
        assert growing.update().relearned_from == 0
        with pytest.raises(InputError, match="because 1 of its images have lost their features; restore"):
            growing.relearn()
        assert growing.info().searchable == 9

    def test_damaged_features_do_not_stop_an_addition(self, growing, root):
        told: list[str] = []
        file = growing.layout.features(1)
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        report = growing.add(root / "more", notice=told.append)
        assert (report.added, report.relearned_from, growing.info().searchable) == (6, 0, 9)
        assert told[-1].startswith("the model was not learned again: ")
        assert told[-1].endswith(f"run: faemb check {growing.layout.folder} --repair")

    def test_lost_features_come_back_with_their_file(self, growing, root):
        """A repair while the file is away keeps the vector alone; a later one has the features, and a copy too."""
        content = bytearray(growing.layout.features(1).read_bytes())
        content[100] ^= 1
        growing.layout.features(1).write_bytes(content)
        stored = min((each for each in growing.entries() if each.offset is not None), key=lambda each: each.offset)
        first = growing.layout.path_of(stored.path)
        first.rename(root / "away.png")
        assert len(growing.check(repair=True)) == 1
        with pytest.raises(InputError, match=r"1 of its images have lost their features"):
            growing.relearn()
        assert not growing.info().relearning_is_due
        (root / "away.png").rename(first)
        shutil.copy(first, root / "more" / "copy.png")
        growing.add(root / "more" / "copy.png")
        assert len(growing.features(root / "more" / "copy.png"))
        assert growing.check(repair=True) == [f"the local features of {stored.path} were missing"]
        assert growing.check() == []
        assert growing.relearn().relearned_from == 4

    def test_before_there_is_a_model(self, root):
        with (
            Collection.create(root / "new", new_tiny_model()) as made,
            pytest.raises(InputError, match="holds no encoded images yet"),
        ):
            made.relearn()


def test_an_update_does_not_learn_from_images_that_it_removes(growing, root):
    (root / "few" / "000.png").unlink()
    pictures(root / "few", range(20, 24))
    report = growing.update()
    assert (report.added, report.removed, report.relearned_from) == (4, 1, 6)
    growing.remove([root / "few" / name for name in ("020.png", "021.png")])
    assert history(6, len(growing)) == "the model has learned from 6 images, some of which have been removed"


class TestInterruption:
    def test_it_goes_on_where_it_was(self, growing, root, at_once, monkeypatch):
        interrupted(growing, root)
        assert growing.info().relearning_is_due
        encoded: list[int] = []
        monkeypatch.setattr(Model, "encode", recording(lambda _, sets: encoded.append(len(sets)), Model.encode))
        monkeypatch.setattr(Model, "fit", None)
        told: list[str] = []
        assert growing.update(notice=told.append).relearned_from == 9
        assert told == ["learning the model again was interrupted and continues: 5 of 9 images are not encoded"]
        assert sum(encoded) == 5
        assert_same(vectors_of(growing), at_once)
        assert growing.check() == []

    def test_meanwhile_the_old_model_answers(self, growing, root):
        before = vectors_of(growing)
        interrupted(growing, root)
        with Collection.open(root / "c") as other:
            for collection in (growing, other):
                assert_same(vectors_of(collection), before)
                assert_finds(collection.search(root / "few" / "001.png", top=1)[0].hits, root / "few" / "001.png")
                assert collection.check() == []
                assert collection.info().waiting == 6
        assert growing.add(root / "few", relearn=False).relearned_from == 0
        assert growing.info().searchable == 9

    def test_what_changes_meanwhile_is_encoded_again(self, growing, root):
        interrupted(growing, root)  # the first four are staged
        picture(root / "few" / "000.png", 50)
        os.utime(root / "few" / "000.png", (5, 5))
        growing.remove(root / "few" / "001.png")
        picture(root / "few" / "new.png", 51)
        growing.update(relearn=False)
        assert growing.relearn().relearned_from == 9
        assert growing.check() == []
        names = {f"../few/{name}" for name in ("000.png", "002.png", "new.png")}
        assert names_in(growing) == names | {f"../more/{seed:03}.png" for seed in MANY}
        for image in ("few/000.png", "few/new.png", "more/003.png", "few/002.png"):
            assert_finds(growing.search(root / image, top=1)[0].hits, root / image)

    def test_if_it_has_grown_again_it_starts_anew(self, growing, root):
        interrupted(growing, root)
        assert growing.add(pictures(root / "still-more", range(20, 40))).relearned_from == 29

    def test_all_images_are_removed_meanwhile(self, growing, root):
        interrupted(growing, root)
        growing.remove([root / "few", root / "more"])
        growing.relearn()
        assert len(growing) == 0
        assert growing.add(root / "few").added == 3
        assert growing.check() == []

    @pytest.mark.parametrize("damage", [Path.unlink, lambda file: os.truncate(file, 900)], ids=["deleted", "cut"])
    def test_a_new_model_that_is_damaged_is_learned_anew(self, growing, root, at_once, damage):
        interrupted(growing, root)
        damage(root / "c" / "model-generation-2.faemb")
        growing.relearn()
        assert_same(vectors_of(growing), at_once)

    def test_nothing_is_compacted_in_between(self, growing, root):
        interrupted(growing, root)
        with growing._changing(None) as writer:
            assert not writer.compaction_is_due()
        pictures(root / "many", range(100, 140))
        growing.add(root / "many", relearn=False)
        growing.remove(root / "many")
        assert growing._catalogue.generation() == 1
        growing.relearn()
        assert growing._catalogue.generation() == 2
        assert growing.check() == []

    def test_where_files_cannot_have_two_names(self, growing, root, at_once, monkeypatch):
        def refused(*_: object) -> None:
            raise OSError(95, "Operation not supported")

        monkeypatch.setattr(os, "link", refused)
        growing.add(root / "more")
        assert_same(vectors_of(growing), at_once)
        assert growing.check() == []


class TestReaders:
    """They have the collection open while another process learns its model again."""

    def test_one_that_came_before(self, growing, root, at_once):
        with Collection.open(root / "c") as reader:
            assert len(reader.search(root / "few" / "001.png")[0].hits) == 3
            growing.add(root / "more")
            for image in ("few/001.png", "more/004.png"):
                assert_finds(reader.search(root / image, top=1)[0].hits, root / image)
            assert_same(vectors_of(reader), at_once)
            assert reader.check() == []
            assert reader.info().learned_from == 9
            assert reader.model.fingerprint == growing.model.fingerprint

    def test_one_that_writes_afterwards(self, growing, root):
        with Collection.open(root / "c") as other:
            assert len(other.search(root / "few" / "001.png")[0].hits) == 3
            growing.add(root / "more")
            other.add(picture(root / "new.png", 77))
            assert other.check() == []
            assert_finds(other.search(root / "new.png", top=1)[0].hits, root / "new.png")
        assert_finds(growing.search(root / "new.png", top=1)[0].hits, root / "new.png")

    @pytest.mark.parametrize("place", [(CurrentModel, "_read"), (SlotFile, "rows"), (Model, "encode")], ids=str)
    def test_during_a_search(self, growing, root, monkeypatch, place):
        """Vectors and the model that encodes the query belong together."""
        whole, attribute = place
        inner = getattr(whole, attribute)

        def meanwhile(*given: Any) -> Any:
            monkeypatch.setattr(whole, attribute, inner)
            growing.add(root / "more")
            return inner(*given)

        with Collection.open(root / "c") as reader:
            monkeypatch.setattr(whole, attribute, meanwhile)
            assert_finds(reader.search(root / "few" / "001.png", top=1)[0].hits, root / "few" / "001.png")
            assert len(reader.search(root / "few" / "001.png")[0].hits) == 9

    def test_during_a_check(self, growing, root, monkeypatch):
        read_at = slots.read_at

        def meanwhile(*given: Any) -> bytes:
            monkeypatch.setattr(stored, "read_at", read_at)
            growing.add(root / "more")
            return read_at(*given)

        with Collection.open(root / "c") as reader:
            monkeypatch.setattr(stored, "read_at", meanwhile)
            assert reader.check() == []


def test_a_full_disk_is_explained_and_costs_nothing(growing, root, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(SlotFile, "write", full)
        with pytest.raises(FaembError, match="make room on the disk and run the same command again"):
            growing.add(root / "more")
    assert growing.check() == []
    assert growing.add(root / "more").relearned_from == 9
