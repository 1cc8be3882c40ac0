"""Finding image files: order, links, what is skipped, what cannot be read."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faemb.errors import InputError
from faemb.features.folders import (
    SUFFIXES,
    by_suffix,
    common_folder,
    files_below,
    find_images,
    find_some,
    passed_over_sentences,
)

Tree = Callable[..., Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Makes empty files of these names in a folder "photos"."""

    def make(*names: str) -> Path:
        folder = tmp_path / "photos"
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        return folder

    return make


def found(*places: Any, below: Path) -> list[str]:
    return [os.path.relpath(image, below) for image in find_images(places).images]


def test_images_below_come_in_order_of_name(tree):
    folder = tree("c.jpg", "b/2.jpg", "b/10.jpg", "b/a/x.jpg", "a.jpg", "B.jpg")
    assert found(folder, below=folder) == ["B.jpg", "a.jpg", "b/10.jpg", "b/2.jpg", "b/a/x.jpg", "c.jpg"]


def test_suffixes_tell_in_upper_and_lower_case(tree):
    good = [f"{number:02}{suffix}" for number, suffix in enumerate(sorted(SUFFIXES | {".JPG", ".Png", ".TIFF"}))]
    folder = tree(*good, "notes.txt", "jpg", "a.jpg.npz", "a.jpg~", "no-suffix", "movie.mp4")
    assert sorted(found(folder, below=folder)) == sorted(good)


def test_hidden_files_and_folders_are_passed_over(tree):
    folder = tree("a.jpg", ".b.jpg", ".thumbnails/c.jpg", "d/.e/f.jpg", "d/g.jpg", "._a.jpg")
    assert found(folder, below=folder) == ["a.jpg", "d/g.jpg"]


@pytest.mark.parametrize(
    "name", ["@eaDir", "#recycle", "$RECYCLE.BIN", "System Volume Information", ".Trash-1000", ".Trashes", "__MACOSX"]
)
def test_folders_of_the_system_are_passed_over(tree, name):
    folder = tree("a.jpg", f"{name}/b.jpg", f"d/{name}/c.jpg", f"{name}.jpg", "Thumbs.db", "._a.jpg", "desktop.ini")
    assert set(found(folder, below=folder)) <= {"a.jpg", f"{name}.jpg"}
    assert find_images([folder]).others == []


def test_a_collection_is_passed_over(tree):
    folder = tree("a.jpg", "photos.faemb/catalogue.sqlite", "photos.faemb/thumbnail.jpg")
    assert found(folder, below=folder) == ["a.jpg"]


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        (["*.png"], ["a.jpg", "trip/b.jpg", "trip/raw/c.jpg"]),
        (["trip"], ["a.jpg", "x.png"]),
        (["trip/"], ["a.jpg", "x.png"]),
        (["./trip/raw"], ["a.jpg", "trip/b.jpg", "x.png"]),
        (["raw"], ["a.jpg", "trip/b.jpg", "x.png"]),
        (["trip/*.jpg", "x.*"], ["a.jpg"]),
        (["[ab].jpg"], ["trip/raw/c.jpg", "x.png"]),
        (["rip", "A.jpg.*", ""], ["a.jpg", "trip/b.jpg", "trip/raw/c.jpg", "x.png"]),
    ],
    ids=" ".join,
)
def test_patterns_leave_out_names_and_paths(tree, patterns, left):
    folder = tree("a.jpg", "x.png", "trip/b.jpg", "trip/raw/c.jpg")
    images = find_images([folder], patterns).images
    assert [os.path.relpath(image, folder) for image in images] == left


def test_patterns_leave_out_given_files_and_never_the_given_folder(tree):
    folder = tree("a.jpg", "b.jpg")
    assert find_images([folder / "a.jpg", folder / "b.jpg"], ["a*"]).images == [folder / "b.jpg"]
    assert len(find_images([folder], ["photos"]).images) == 2


def test_files_of_other_kinds_are_counted_once(tree):
    folder = tree("a.jpg", "b.CR2", "c.cr2", "d.nef", "e.mp4", "f/notes.txt", "f/README", "trip.xmp")
    counts = by_suffix(find_images([folder, folder / "f"]).others)
    assert counts == {"": 1, ".cr2": 2, ".mp4": 1, ".nef": 1, ".txt": 1, ".xmp": 1}
    assert passed_over_sentences(counts) == [
        "passed over 3 RAW files (.cr2, .nef), 1 video (.mp4) and 3 other files (no suffix, .txt, .xmp): "
        "faemb reads JPEG, PNG, WebP, TIFF, BMP, GIF, HEIC and AVIF"
    ]


def test_files_of_one_other_kind(tree):
    folder = tree("b.raf")
    assert passed_over_sentences({".mov": 1000})[0].startswith("passed over 1,000 videos (.mov): faemb reads JPEG")
    assert passed_over_sentences({}) == []
    with pytest.raises(
        InputError, match=r"there are no images in .*photos; passed over 1 RAW file \(\.raf\): faemb reads"
    ):
        find_some([folder])


def test_what_is_named_is_taken_whatever_its_suffix(tree):
    folder = tree("scan", "photo.raw", ".hidden.jpg", ".hidden/a.jpg")
    places = [folder / "scan", folder / "photo.raw", folder / ".hidden.jpg", folder / ".hidden"]
    assert found(*places, below=folder) == ["scan", "photo.raw", ".hidden.jpg", ".hidden/a.jpg"]


def test_places_come_in_the_order_in_which_they_are_named(tree):
    folder = tree("b/1.jpg", "a/1.jpg", "c.jpg")
    assert found(folder / "c.jpg", str(folder / "b"), folder / "a", below=folder) == ["c.jpg", "b/1.jpg", "a/1.jpg"]


def test_an_image_that_is_named_several_times_comes_once(tree, monkeypatch):
    folder = tree("a.jpg", "b/c.jpg")
    monkeypatch.chdir(folder.parent)
    places = ["photos", "photos/", "./photos", folder, "photos/a.jpg", folder / "b" / ".." / "a.jpg", "photos/b"]
    assert found(*places, below=folder) == ["a.jpg", "b/c.jpg"]


def test_links_are_followed_to_files_and_folders(tree, tmp_path):
    folder = tree("a.jpg")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "deep").mkdir(parents=True)
    (elsewhere / "deep" / "x.jpg").touch()
    (elsewhere / "named-otherwise").touch()
    (folder / "link").symlink_to(elsewhere)
    (folder / "b.jpg").symlink_to(elsewhere / "named-otherwise")
    (folder / "link-to-image").symlink_to(elsewhere / "deep" / "x.jpg")  # its own name counts
    assert found(folder, below=folder) == ["a.jpg", "b.jpg", "link/deep/x.jpg"]


def test_links_back_to_a_folder_above_end(tree):
    folder = tree("a/b/x.jpg")
    (folder / "a" / "b" / "up").symlink_to(folder)
    (folder / "a" / "here").symlink_to(".")
    assert found(folder, below=folder) == ["a/b/x.jpg"]


def test_two_folders_that_link_to_each_other_end(tree):
    folder = tree("a/1.jpg", "b/2.jpg")
    (folder / "a" / "other").symlink_to("../b")
    (folder / "b" / "other").symlink_to("../a")
    assert found(folder, below=folder) == ["a/1.jpg", "a/other/2.jpg", "b/2.jpg", "b/other/1.jpg"]


@pytest.mark.parametrize("aim", ["gone.jpg", "self.jpg", "a.jpg/inside"], ids=["broken", "to-itself", "into-a-file"])
def test_links_to_nothing_are_passed_over(tree, aim):
    folder = tree("a.jpg", "z.jpg")
    (folder / "self.jpg").symlink_to(aim)
    assert found(folder, below=folder) == ["a.jpg", "z.jpg"]


def test_pipes_in_a_folder_are_passed_over(tree):
    folder = tree("a.jpg")
    os.mkfifo(folder / "pipe.jpg")
    assert found(folder, below=folder) == ["a.jpg"]


def test_a_folder_that_cannot_be_read_is_told_and_others_are_searched(tree, monkeypatch):
    """Simulated, since the superuser can read all."""
    folder = tree("a.jpg", "locked/b.jpg", "open/c.jpg")
    scandir = os.scandir

    def guarded(path: Any) -> Any:
        if os.path.basename(path) == "locked":
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    result = find_images([folder])
    assert [image.name for image in result.images] == ["a.jpg", "c.jpg"]
    assert result.unreadable == [f"the folder {folder / 'locked'} cannot be read: Permission denied"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser can read all folders")
def test_a_folder_without_permission_is_told(tree):
    folder = tree("a.jpg", "locked/b.jpg")
    (folder / "locked").chmod(0)
    try:
        result = find_images([folder])
    finally:
        (folder / "locked").chmod(0o700)
    assert [image.name for image in result.images] == ["a.jpg"]
    assert len(result.unreadable) == 1


@pytest.mark.parametrize("name", ["gone", "gone.jpg", "a.jpg/b.jpg", "nul\0byte"])
def test_what_is_not_there_is_explained(tree, name):
    folder = tree("a.jpg")
    with pytest.raises(InputError, match="there is no file or folder"):
        find_images([folder, folder / name])


def test_files_below_are_those_that_are_wanted(tree):
    folder = tree("b.jpg", "gt/labels.txt", "gt/a.jpg", ".hidden.txt")
    assert list(files_below(folder)) == find_images([folder]).images
    assert list(files_below(folder, lambda path: path.suffix == ".txt")) == [folder / "gt" / "labels.txt"]


def test_nothing_in_nothing(tree):
    assert find_images([]) == ([], [], [])
    assert find_images([tree()]) == ([], [], [])


@pytest.mark.parametrize(
    ("places", "common"),
    [
        (["photos"], "photos"),
        (["photos/a.jpg"], "photos"),
        (["photos/a.jpg", "photos/b/c.jpg"], "photos"),
        (["photos/b", "photos/b/c.jpg"], "photos/b"),
        (["photos/b", "photos/bc"], "photos"),
        (["photos/b/../b/c.jpg"], "photos/b"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else value,
)
def test_the_common_folder_holds_everything(tree, monkeypatch, places, common):
    folder = tree("a.jpg", "b/c.jpg", "bc/d.jpg")
    monkeypatch.chdir(folder.parent)
    assert common_folder(places) == folder.parent / common
    assert common_folder([folder.parent / place for place in places]) == folder.parent / common


def test_several_drives_are_explained(monkeypatch):
    def other_drives(paths: Any) -> str:
        raise ValueError("Paths don't have the same drive")

    monkeypatch.setattr(os.path, "commonpath", other_drives)
    with pytest.raises(InputError, match="of one at a time"):
        common_folder(["a.jpg", "b.jpg"])
