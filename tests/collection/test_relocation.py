"""Folders and images that were moved: their new names, without reading them."""

import shutil

import pytest

from faemb.collection import gathering, images_in
from faemb.errors import InputError
from pictures import picture
from small_collections import assert_finds, counts, names_below, names_in, work_here


@pytest.fixture(autouse=True)
def nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering.Describe, "__call__", None)


def images_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    work_here(monkeypatch)


def test_a_folder(collection, photos):
    new = photos.parent / "archive" / "pictures"
    shutil.move(photos, new)
    assert collection.relocate(photos, new) == 5
    assert collection.info().folders == [str(new)]
    assert names_below(collection, new) == ["a.png", "b.png", "c.jpg", "trip/d.png", "trip/e.png"]
    assert_finds(collection.search(new / "a.png", top=1)[0].hits, new / "a.png")
    assert counts(collection.update()) == (0, 0, 5, 0)


def test_away_from_the_collection_and_back(collection, photos, tmp_path_factory):
    """Names are absolute there, and relative beside the collection."""
    far = tmp_path_factory.mktemp("far") / "photos"
    shutil.move(photos, far)
    before = names_in(collection)
    assert collection.relocate(photos, far) == 5
    assert names_in(collection) == {str(far / name.removeprefix("../photos/")) for name in before}
    shutil.move(far, photos)
    assert collection.relocate(far, photos) == 5
    assert names_in(collection) == before


def test_a_folder_below_and_one_image(collection, photos):
    (photos / "trip").rename(photos / "journey")
    (photos / "a.png").rename(photos / "z.png")
    assert collection.relocate(photos / "trip", photos / "journey") == 2
    assert collection.relocate(str(photos / "a.png"), str(photos / "z.png")) == 1
    assert names_below(collection, photos) == ["b.png", "c.jpg", "journey/d.png", "journey/e.png", "z.png"]
    assert counts(collection.update()) == (0, 0, 5, 0)


def test_into_a_folder_of_its_own(collection, photos):
    """The new name of one image can be the old name of another."""
    (photos / "trip" / "trip").mkdir()
    shutil.copy(photos / "trip" / "d.png", photos / "trip" / "trip" / "d.png")
    assert collection.relocate(photos / "trip" / "d.png", photos / "trip" / "trip" / "d.png") == 1
    (photos / "trip" / "trip" / "trip").mkdir()
    shutil.copy(photos / "trip" / "d.png", photos / "trip" / "trip" / "trip" / "d.png")
    assert collection.relocate(photos / "trip", photos / "trip" / "trip") == 2
    below = [name for name in names_below(collection, photos) if name.startswith("trip")]
    assert below == ["trip/trip/e.png", "trip/trip/trip/d.png"]


def test_unreadable_files(collection, photos, monkeypatch):
    images_are_read(monkeypatch)
    (photos / "broken.png").write_text("no image")
    collection.update()
    photos.rename(photos.parent / "new")
    assert collection.relocate(photos, photos.parent / "new") == 5
    assert list(collection.info().unreadable) == [str(photos.parent / "new" / "broken.png")]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("gone", "trip", r"there is nothing of .*gone in .*photos\.faemb; its folders: .*photos"),
        ("", "gone", r"there is no file or folder .*gone; move the images first, or connect their drive"),
        ("", "new", r"none of the 5 images of .*photos is in .*new, such as .*; check both names"),
        ("a.png", "new", r"none of the 1 images of .*a\.png is in .*new, such as .*; check both names"),
        ("a.png", "b.png", r"b\.png is in the collection already, as another image; .* faemb remove .*photos/b\.png"),
    ],
    ids=["nothing", "missing", "others", "no-file", "taken"],
)
def test_refusals_change_nothing(collection, photos, old, new, words):
    picture(photos / "new" / "x.png", 30)
    before = names_in(collection)
    with pytest.raises(InputError, match=words):
        collection.relocate(photos / old, photos / new)
    assert (names_in(collection), collection.info().folders) == (before, [str(photos)])


def test_a_folder_that_was_added_at_its_new_place(collection, photos, monkeypatch):
    """Its images were recognised there; what is left is the old folder."""
    images_are_read(monkeypatch)
    new = photos.parent / "new"
    photos.rename(new)
    assert collection.add(new).moved == 5
    assert collection.relocate(photos, new) == 0
    assert collection.info().folders == [str(new)]
    assert counts(collection.update()) == (0, 0, 5, 0)


def test_what_was_removed_or_excluded_stays_out(collection, photos):
    picture(photos / "small" / "f.png")
    collection.add(images_in(photos, ["small"]))
    collection.remove(photos / "a.png")
    new = photos.parent / "pictures"
    shutil.move(photos, new)
    collection.relocate(photos, new)
    report = collection.update()
    assert (counts(report), report.kept_out) == ((0, 0, 4, 0), 1)
    assert names_below(collection, new) == ["b.png", "c.jpg", "trip/d.png", "trip/e.png"]


def test_the_new_name_may_be_that_of_a_removed_image(collection, photos):
    collection.remove(photos / "a.png")
    (photos / "b.png").replace(photos / "a.png")
    assert collection.relocate(photos / "b.png", photos / "a.png") == 1
    assert collection.info().removed == 0
    assert counts(collection.update()) == (0, 0, 4, 0)
