"""Where a collection lies and where its images are: links, and names that lead nowhere."""

import os
import shutil

import pytest

from faemb.collection import Collection, images_in
from faemb.errors import InputError
from pictures import blank, pictures
from small_collections import tiny_model


@pytest.fixture
def home(tmp_path):
    """photos and photos.faemb beside each other."""
    pictures(tmp_path / "home" / "photos", range(3))
    with Collection.create(tmp_path / "home" / "photos.faemb", tiny_model()) as collection:
        collection.add(tmp_path / "home" / "photos")
    return tmp_path / "home"


def paths_in(folder):
    with Collection.open(folder) as collection:
        return sorted(collection.layout.path_of(entry.path) for entry in collection.entries())


def test_a_link_from_elsewhere_leads_to_the_same_images(home, tmp_path):
    (tmp_path / "desk").mkdir()
    link = tmp_path / "desk" / "pictures"
    link.symlink_to(home / "photos.faemb")
    assert [os.path.realpath(path) for path in paths_in(link)] == [
        os.path.realpath(path) for path in sorted((home / "photos").iterdir())
    ]
    with Collection.open(link) as collection:
        assert collection.update().unchanged == 3
        assert collection.search(home / "photos" / "001.png", top=1)[0].hits[0].path.name == "001.png"


def test_a_link_beside_it_and_a_link_to_the_folder_above(home, tmp_path):
    (home / "other-name").symlink_to(home / "photos.faemb")
    (tmp_path / "house").symlink_to(home)
    assert paths_in(home / "other-name") == sorted((home / "photos").iterdir())
    assert paths_in(tmp_path / "house" / "photos.faemb") == sorted((tmp_path / "house" / "photos").iterdir())


def test_images_added_through_a_link_move_with_the_folder(home, tmp_path):
    (tmp_path / "house").symlink_to(home)
    pictures(home / "more", [7])
    with Collection.open(tmp_path / "house" / "photos.faemb") as collection:
        collection.add(tmp_path / "house" / "more")
    shutil.move(home, tmp_path / "moved")
    assert paths_in(tmp_path / "moved" / "photos.faemb") == sorted(
        [*(tmp_path / "moved" / "photos").iterdir(), tmp_path / "moved" / "more" / "007.png"]
    )


def test_a_link_to_itself_is_no_collection(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(InputError, match="no collection at"):
        Collection.open(tmp_path / "loop")


def test_images_are_looked_for_once(home):
    places = images_in(home / "photos")
    assert places.folders == [home / "photos"]
    assert images_in(places) is places
    with Collection.open(home / "photos.faemb") as collection:
        assert collection.add(places).unchanged == 3


@pytest.mark.parametrize("nothing", ["an empty folder", "no folder"])
def test_no_images_are_known_before_anything_is_made(tmp_path, nothing):
    if nothing == "an empty folder":
        (tmp_path / "photos").mkdir()
    with pytest.raises(InputError, match="photos"):
        images_in(tmp_path / "photos")


def test_a_single_image_is_no_folder_to_remember(tmp_path):
    assert images_in(blank(tmp_path / "a.png")).folders == []
