"""Renamed, moved and copied files are recognised by their content, and neither described nor encoded again."""

import shutil
from pathlib import Path

import pytest

from faemb.collection import Collection, Model, Report, gathering
from faemb.collection.catalogue import Entry
from pictures import blank, picture
from small_collections import assert_finds, counts, names_below, touch, vectors_of

DESCRIBE = gathering.Describe.__call__


@pytest.fixture(autouse=True)
def described(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files whose features are extracted from now on."""
    names: list[str] = []

    def counted(task: gathering.Describe, file: gathering.Known) -> gathering.Described:
        result = DESCRIBE(task, file)
        if result.packed:
            names.append(file.path.name)
        return result

    monkeypatch.setattr(gathering.Describe, "__call__", counted)
    return names


def entry_of(collection: Collection, image: Path) -> Entry:
    (found,) = [entry for entry in collection.entries() if entry.path == collection.layout.name_of(image)]
    return found


def data_of(entry: Entry) -> tuple[object, ...]:
    """All but its name and the file's time."""
    return entry.id, entry.hash, entry.slot, entry.vector_crc, entry.offset, entry.length, entry.features_crc


def all_counts(report: Report) -> tuple[int, ...]:
    return *counts(report), report.moved


class TestMoved:
    @pytest.mark.parametrize("how", ["update", "add"])
    def test_an_image_keeps_its_data_and_gets_the_new_name(self, collection, photos, described, how):
        before = entry_of(collection, photos / "a.png")
        new = photos / "trip" / "z.png"
        (photos / "a.png").rename(new)
        report = collection.update() if how == "update" else collection.add(new)
        assert (report.added, report.moved, report.removed) == (0, 1, 0)
        assert described == []
        assert data_of(entry_of(collection, new)) == data_of(before)
        assert_finds(collection.search(new, top=1)[0].hits, new)
        assert collection.check() == []
        assert all_counts(collection.update()) == (0, 0, 5, 0, 0)

    def test_a_whole_folder(self, collection, photos, described):
        (photos / "trip").rename(photos / "journey")
        assert all_counts(collection.update()) == (0, 0, 3, 0, 2)
        assert names_below(collection, photos) == ["a.png", "b.png", "c.jpg", "journey/d.png", "journey/e.png"]
        assert described == []

    def test_a_file_that_took_the_name_of_another(self, collection, photos, described):
        before = entry_of(collection, photos / "a.png")
        (photos / "a.png").replace(photos / "b.png")
        touch(photos / "b.png")
        assert all_counts(collection.update()) == (0, 0, 3, 1, 1)
        assert data_of(entry_of(collection, photos / "b.png")) == data_of(before)
        assert described == []
        assert collection.check() == []

    def test_files_that_moved_up_by_one_name(self, collection, photos, described):
        """The new name of one is the old name of the next."""
        content = {name: (photos / name).read_bytes() for name in ("a.png", "b.png")}
        (photos / "b.png").rename(photos / "bb.png")
        (photos / "a.png").rename(photos / "b.png")
        for name in ("b.png", "bb.png"):
            touch(photos / name)
        report = collection.update()
        assert names_below(collection, photos) == ["b.png", "bb.png", "c.jpg", "trip/d.png", "trip/e.png"]
        assert (report.moved, report.failed, described) == (1, [], [])
        for name, old in (("b.png", "a.png"), ("bb.png", "b.png")):
            assert (photos / name).read_bytes() == content[old]
            assert_finds(collection.search(photos / name, top=1)[0].hits, photos / name)
        assert collection.check() == []

    def test_two_files_that_changed_places(self, collection, photos):
        (photos / "a.png").rename(photos / "x")
        (photos / "b.png").rename(photos / "a.png")
        (photos / "x").rename(photos / "b.png")
        for name in ("a.png", "b.png"):
            touch(photos / name)
        assert all_counts(collection.update()) == (0, 2, 3, 0, 0)
        for name in ("a.png", "b.png"):
            assert_finds(collection.search(photos / name, top=1)[0].hits, photos / name)
        assert collection.check() == []

    def test_one_that_moved_and_was_copied(self, collection, photos, described):
        shutil.copy(photos / "a.png", photos / "x.png")
        (photos / "a.png").rename(photos / "y.png")
        assert all_counts(collection.update()) == (1, 0, 4, 0, 1)
        assert described == []
        assert {hit.path.name for hit in collection.search(photos / "x.png", top=2)[0].hits} == {"x.png", "y.png"}
        assert collection.check() == []

    def test_one_without_features(self, collection, photos, described):
        blank(photos / "blank.png")
        collection.update()
        described.clear()
        (photos / "blank.png").rename(photos / "white.png")
        report = collection.update()
        assert (report.moved, report.without_features, described) == (1, [], [])

    def test_one_that_cannot_be_read_is_tried_again(self, collection, photos):
        (photos / "broken.png").write_text("no image")
        collection.update()
        (photos / "broken.png").rename(photos / "torn.png")
        report = collection.update()
        assert (report.moved, len(report.failed)) == (0, 1)
        assert list(collection.info().unreadable) == [str(photos / "torn.png")]

    def test_onto_the_name_of_one_that_could_not_be_read(self, collection, photos):
        (photos / "z.png").write_text("no image")
        collection.update()
        (photos / "a.png").replace(photos / "z.png")
        touch(photos / "z.png")
        assert collection.update().moved == 1
        assert collection.info().unreadable == {}

    def test_where_no_features_are_kept(self, tmp_path, model, described):
        photos = tmp_path / "photos"
        with Collection.create(tmp_path / "bare.faemb", model, keep_features=False) as bare:
            bare.add(picture(photos / "a.png", 1).parent)
            before = vectors_of(bare)["../photos/a.png"]
            (photos / "a.png").rename(photos / "b.png")
            shutil.copy(photos / "b.png", photos / "c.png")
            described.clear()
            assert all_counts(bare.update()) == (1, 0, 0, 0, 1)
            assert described == []
            assert bare.check() == []
            for vector in vectors_of(bare).values():
                assert (vector == before).all()


class TestCopied:
    def test_an_image_gets_the_data_of_the_other(self, collection, photos, described, monkeypatch):
        monkeypatch.setattr(Model, "encode", None)
        shutil.copy(photos / "a.png", photos / "copy.png")
        assert all_counts(collection.update()) == (1, 0, 5, 0, 0)
        assert described == []
        one, other = (entry_of(collection, photos / name) for name in ("a.png", "copy.png"))
        assert (one.hash, one.vector_crc, one.features_crc) == (other.hash, other.vector_crc, other.features_crc)
        assert one.slot != other.slot
        assert one.offset != other.offset
        assert collection.check() == []

    def test_a_changed_image_that_is_a_copy_now(self, collection, photos, described):
        shutil.copy(photos / "a.png", photos / "b.png")
        touch(photos / "b.png")
        assert all_counts(collection.update()) == (0, 1, 4, 0, 0)
        assert described == []
        assert {hit.path.name for hit in collection.search(photos / "a.png", top=2)[0].hits} == {"a.png", "b.png"}
        assert collection.check() == []

    def test_several_new_files_of_one_content(self, collection, photos):
        for name in ("x.png", "y.png", "z.png"):
            picture(photos / name, 50)
        assert all_counts(collection.update()) == (3, 0, 5, 0, 0)
        hits = collection.search(photos / "x.png", top=3, threshold=1)[0].hits
        assert {hit.path.name for hit in hits} == {"x.png", "y.png", "z.png"}

    @pytest.mark.parametrize("name", ["features-1.bin", "vectors-1.f32"])
    def test_damaged_data_is_not_copied(self, collection, photos, name):
        file = collection.layout.folder / name
        file.write_bytes(bytes(file.stat().st_size))
        shutil.copy(photos / "a.png", photos / "copy.png")
        assert all_counts(collection.update()) == (1, 0, 5, 0, 0)
        assert not [fault for fault in collection.check() if "copy.png" in fault]

    def test_a_file_that_only_has_the_same_size(self, collection, photos, described):
        content = bytearray((photos / "c.jpg").read_bytes())
        content[content.index(b"\xff\xda") + 40] ^= 1
        (photos / "other.jpg").write_bytes(content)
        assert collection.update().added == 1
        assert described == ["other.jpg"]
