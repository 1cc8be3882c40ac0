"""Images that cannot be read, and images without features: they are reported, and the others are added."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from faemb.collection import Hit, gathering
from faemb.errors import MissingExtraError
from faemb.runtime.cluster_worker import NotSharedError
from faemb.runtime.parallel import spread
from pictures import blank, picture
from recording import recording
from small_collections import assert_finds, counts, names_below

BLANK = "flat.png"


class DescribeOneForEver(gathering.Describe):
    """In place of a picture that keeps a decoder busy; the search of a regular expression, which keeps the GIL."""

    def __call__(self, file: gathering.Known) -> gathering.Described:
        if file.path.name == "endless.png":
            re.findall("(a*)*b", "a" * 40)
        return super().__call__(file)


def describe_without_privileges(task: gathering.Describe, file: gathering.Known) -> gathering.Described:
    """As an ordinary user: the superuser may read all files."""
    me = os.geteuid()
    os.seteuid(me or 65534)
    try:
        return DESCRIBE(task, file)
    finally:
        os.seteuid(me)


DESCRIBE = gathering.Describe.__call__
FAULTY_DISK = Path("/proc/self/mem")
"""A plain file for Linux, of which nothing can be read."""


@pytest.fixture
def faulty(photos: Path) -> Path:
    """A path at which reading fails with an error of the system."""
    if not FAULTY_DISK.is_file():
        pytest.skip("this system has no file that fails")
    (photos / "a.png").rename(photos.parent / "away.png")
    (photos / "a.png").symlink_to(FAULTY_DISK)
    return photos / "a.png"


class TestFilesThatTheSystemCannotRead:
    """Nothing is known of their content, and they may be readable the next time."""

    @pytest.mark.skipif(not hasattr(os, "seteuid"), reason="this system has no users of this kind")
    def test_one_that_may_be_read_later_is_an_image_then(self, empty, photos, monkeypatch):
        """Its size and time are the same: permissions change neither."""
        locked = photos / "a.png"
        locked.chmod(0)
        with monkeypatch.context() as patch:
            patch.setattr(gathering.Describe, "__call__", describe_without_privileges)
            report = empty.add(locked)
        assert counts(report) == (0, 0, 0, 0)
        assert report.failed == [f"{locked} cannot be read: Permission denied"]
        assert empty.info().unreadable == {str(locked): report.failed[0]}
        locked.chmod(0o600)
        assert counts(empty.add(locked)) == (1, 0, 0, 0)
        assert empty.info().unreadable == {}

    def test_an_image_that_is_stored_is_kept(self, collection, photos, faulty):
        report = collection.update()
        assert counts(report) == (0, 0, 4, 0)
        assert report.failed == [f"{faulty} cannot be read: Input/output error"]
        assert collection.entry(faulty) is not None
        assert collection.info().unreadable == {}
        assert collection.check() == []
        (photos.parent / "away.png").rename(faulty)
        assert counts(collection.update()) == (0, 0, 5, 0)

    def test_a_new_one_is_tried_by_every_change(self, empty, photos, faulty, monkeypatch):
        asked: list[str] = []
        monkeypatch.setattr(
            gathering.Describe, "__call__", recording(lambda _, file: asked.append(file.path.name), DESCRIBE)
        )
        assert len(empty.add(photos).failed) == 1
        asked.clear()
        assert counts(empty.update()) == (0, 0, 4, 0)
        assert asked == ["a.png"]
        assert list(empty.info().unreadable) == [str(faulty)]

    def test_a_repair_that_has_nothing_else_keeps_the_image(self, collection, faulty):
        """Neither its features nor its vector are left."""
        entry = collection.entry(faulty)
        assert entry is not None
        with collection._changing(None) as writer, writer.catalogue.change():
            writer.catalogue.forget_features(entry.id)
            writer.catalogue.forget_vector(entry.id)
        assert len(collection.check(repair=True)) == 1
        assert len(collection.check()) == 1
        (faulty.parent.parent / "away.png").rename(faulty)
        assert len(collection.check(repair=True)) >= 1
        assert collection.check() == []


class TestBrokenImages:
    def test_one_is_told_and_stops_no_other(self, empty, photos):
        (photos / "broken.png").write_text("no image")
        report = empty.add(photos)
        assert counts(report) == (5, 0, 0, 0)
        (sentence,) = report.failed
        assert str(photos / "broken.png") in sentence
        assert "\n" not in sentence
        info = empty.info()
        assert info.images == 5
        (reason,) = info.unreadable.values()
        assert reason in sentence

    def test_it_is_named_where_it_lies(self, empty, photos):
        (photos / "broken.png").write_text("no image")
        empty.add(photos)
        assert list(empty.info().unreadable) == [str(photos / "broken.png")]

    @pytest.mark.parametrize(
        "error", [MissingExtraError("HEIC", "heic"), NotSharedError("a.png is not there")], ids=repr
    )
    def test_a_worker_that_cannot_look_at_a_file_knows_nothing_of_it(self, empty, photos, monkeypatch, error):
        empty.add(photos)
        changed = picture(photos / "a.png", 99)

        def fail(*_: Any) -> gathering.Described:
            raise error

        monkeypatch.setattr(gathering.Describe, "__call__", fail)
        report = empty.update()
        assert counts(report) == (0, 0, 4, 0)
        assert len(report.failed) == 1
        assert empty.entry(changed) is not None
        assert empty.info().unreadable == {}

    def test_it_is_tried_again_only_when_it_has_changed(self, empty, photos, monkeypatch):
        (photos / "broken.png").write_text("no image")
        empty.add(photos)
        asked: list[str] = []
        describe = recording(lambda self, file: asked.append(file.path.name), gathering.Describe.__call__)
        monkeypatch.setattr(gathering.Describe, "__call__", describe)
        for _ in range(2):
            report = empty.add(photos)
            assert counts(report) == (0, 0, 5, 0)
            assert len(report.failed) == 1
        assert asked == []
        (photos / "broken.png").write_text("still no image")
        assert len(empty.add(photos).failed) == 1
        assert asked == ["broken.png"]
        assert len(empty.info().unreadable) == 1

    def test_one_that_is_beyond_a_limit_is_tried_again_as_the_limit_may_be_raised(self, empty, photos, monkeypatch):
        picture(photos / "large.png", 30, size=(1200, 900))
        monkeypatch.setenv("FAEMB_ITEM_MEMORY", "7MB")
        report = empty.add(photos)
        assert counts(report) == (5, 0, 0, 0)
        (sentence,) = report.failed
        assert f"{photos / 'large.png'} needs" in sentence
        monkeypatch.delenv("FAEMB_ITEM_MEMORY")
        assert counts(empty.add(photos)) == (1, 0, 5, 0)

    def test_one_that_takes_too_long_is_told_and_stops_no_other(self, empty, photos, monkeypatch):
        monkeypatch.setattr(gathering, "spread", spread)
        monkeypatch.setattr(gathering, "Describe", DescribeOneForEver)
        monkeypatch.setenv("FAEMB_ITEM_SECONDS", "2")
        picture(photos / "endless.png", 30)
        report = empty.add(photos, jobs=2)
        assert counts(report) == (5, 0, 0, 0)
        (sentence,) = report.failed
        assert sentence.startswith(f"{photos / 'endless.png'}: it took longer than 2 s; ")

    def test_mended_it_is_an_image_like_any_other(self, empty, photos):
        (photos / "broken.png").write_text("no image")
        empty.add(photos)
        picture(photos / "broken.png", 30)
        report = empty.add(photos)
        assert counts(report) == (1, 0, 5, 0)
        assert report.failed == []
        assert empty.info().unreadable == {}
        assert_finds(empty.search(photos / "broken.png", top=1)[0].hits, photos / "broken.png")

    def test_an_image_that_breaks_is_taken_out(self, collection, photos):
        (photos / "a.png").write_text("no image")
        report = collection.add(photos)
        assert counts(report) == (0, 0, 4, 1)
        assert len(report.failed) == 1
        assert "a.png" not in names_below(collection, photos)
        assert "a.png" not in names_below(collection.search(photos / "b.png")[0].hits, photos)

    def test_a_folder_that_cannot_be_read_is_told(self, collection, photos, monkeypatch):
        scandir = os.scandir

        def guarded(path: Any) -> Any:
            if os.path.basename(path) == "trip":
                raise PermissionError(13, "Permission denied")
            return scandir(path)

        monkeypatch.setattr(os, "scandir", guarded)
        assert collection.add(photos).failed == [f"the folder {photos / 'trip'} cannot be read: Permission denied"]
        report = collection.update()
        assert report.failed == [f"the folder {photos / 'trip'} cannot be read: Permission denied"]
        assert report.removed == 0
        assert len(collection) == 5

    def test_an_unexpected_fault_is_reported_with_the_image(self, collection, photos, monkeypatch):
        picture(photos / "new.png", 9)

        def fail(self: Any, file: Any) -> None:
            raise ZeroDivisionError("of all things")

        monkeypatch.setattr(gathering.Describe, "__call__", fail)
        (sentence,) = collection.add(photos).failed
        assert str(photos / "new.png") in sentence
        assert "ZeroDivisionError" in sentence


class TestBlankImages:
    @pytest.fixture(autouse=True)
    def with_a_blank_one(self, collection, photos):
        self.report = collection.add(blank(photos / BLANK))

    def test_it_is_kept_and_told(self, collection, photos):
        assert counts(self.report) == (1, 0, 0, 0)
        assert self.report.without_features == [str(photos / BLANK)]
        info = collection.info()
        assert (info.images, info.searchable, info.without_features, info.waiting) == (6, 5, 1, 0)
        assert counts(collection.add(photos)) == (0, 0, 6, 0)

    def test_it_is_ranked_last(self, collection, photos):
        hits = collection.search(photos / "a.png")[0].hits
        assert len(hits) == 6
        assert hits[-1] == Hit(photos / BLANK, None)
        assert None not in [hit.similarity for hit in hits[:-1]]

    def test_it_takes_no_place_from_others(self, collection, photos):
        assert None not in [hit.similarity for hit in collection.search(photos / "a.png", top=5)[0].hits]
        assert [hit.similarity for hit in collection.search(photos / "a.png", top=6)[0].hits][-1] is None

    def test_it_is_not_similar_to_any_degree(self, collection, photos):
        assert BLANK not in names_below(collection.search(photos / "a.png", threshold=-1)[0].hits, photos)

    def test_it_finds_nothing(self, collection, photos):
        (answer,) = collection.search(photos / BLANK)
        assert (answer.features, answer.hits) == (0, [])

    def test_it_is_no_duplicate_of_another_one(self, collection, photos):
        blank(photos / "other.png", level=90)
        collection.add(photos)
        assert collection.duplicates(1.0) == []

    def test_many_of_them_come_in_order_of_their_adding(self, collection, photos):
        for number in range(4):
            collection.add(blank(photos / f"flat-{3 - number}.png"))
        last = names_below(collection.search(photos / "a.png", top=8)[0].hits, photos)[5:]
        assert last == [BLANK, "flat-3.png", "flat-2.png"]

    def test_it_can_be_removed_and_repainted(self, collection, photos):
        picture(photos / BLANK, 40)
        assert counts(collection.update()) == (0, 1, 5, 0)
        assert_finds(collection.search(photos / BLANK, top=1)[0].hits, photos / BLANK)
        assert collection.remove(photos / BLANK) == 1
        assert len(collection) == 5

    def test_only_blank_ones(self, empty, photos):
        empty.add(photos / BLANK)
        assert empty.search(photos / "a.png")[0].hits == [Hit(photos / BLANK, None)]
        assert empty.duplicates() == []
        assert empty.export(photos / "out.npz", "npz") == 0
