"""Results whose files are not there any more, or are other pictures: nobody may take them for what was indexed."""

import json
import shutil
from pathlib import Path

import pytest
from command_line import Run, commands

from html_pages import Page
from pictures import picture
from small_collections import make_collection, work_here

pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = ["a.png", "b.png", "c.png"]


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    return make_collection(tmp_path_factory.mktemp("astray"), NAMES)


@pytest.fixture
def here(template, tmp_path, monkeypatch) -> Path:
    """A copy of it as the current folder, with a query that is a copy of a picture of the collection."""
    folder = tmp_path / "here"
    shutil.copytree(template, folder)
    shutil.copy(folder / "photos" / "a.png", folder / "query.png")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(here, monkeypatch, capfd) -> Run:
    work_here(monkeypatch)
    return commands(monkeypatch, capfd)


def hits(run: Run, collection: str = "photos.faemb") -> dict[str, tuple[bool, str]]:
    ended = run("search", collection, "query.png", "--json", "--quiet")
    return {
        Path(hit["path"]).name: (hit["copy_of_query"], hit["state"])
        for hit in json.loads(ended.out)["answers"][0]["hits"]
    }


def test_nothing_is_said_of_files_that_are_as_they_were(run, here):
    ended = run("search", "photos.faemb", "query.png", "--html", "found.html")
    assert ended.err == ""
    assert "a.png  (copy of the query)\n" in ended.out
    assert hits(run) == {"a.png": (True, "unchanged"), "b.png": (False, "unchanged"), "c.png": (False, "unchanged")}
    assert len(Page((here / "found.html").read_text()).texts("p", "mark")) == 1  # the copy


def test_a_collection_that_was_moved_alone(run, here):
    (here / "elsewhere").mkdir()
    (here / "photos.faemb").rename(here / "elsewhere" / "moved.faemb")
    ended = run("search", "elsewhere/moved.faemb", "query.png")
    assert ended.out.count("  (not there)\n") == 3
    assert "copy of the query" not in ended.out
    assert ended.err == (
        "faemb: none of these files is the one that was indexed; if the images are in another folder, run: "
        "faemb relocate elsewhere/moved.faemb elsewhere/photos NEW_FOLDER, "
        "otherwise: faemb update elsewhere/moved.faemb\n"
    )
    assert set(hits(run, "elsewhere/moved.faemb").values()) == {(True, "missing"), (False, "missing")}
    assert run("relocate", "elsewhere/moved.faemb", "elsewhere/photos", "photos").code == 0
    again = run("search", "elsewhere/moved.faemb", "query.png")
    assert (again.err, "not there" in again.out) == ("", False)


def test_other_pictures_of_the_same_names(run, here):
    for seed, name in enumerate(NAMES, 50):
        picture(here / "other" / "photos" / name, seed)
    shutil.copytree(here / "photos.faemb", here / "other" / "photos.faemb")
    ended = run("search", "other/photos.faemb", "query.png", "--html", "found.html")
    assert ended.out.count("  (changed since it was indexed)\n") == 3
    assert "faemb relocate other/photos.faemb other/photos NEW_FOLDER" in ended.err
    page = (here / "found.html").read_text()
    assert Page(page).texts("p", "mark") == ["changed since it was indexed"] * 3
    assert (here / "query.png").as_uri() in page
    assert (here / "other").as_uri() not in page  # no link to a picture that is not the one shown


def test_one_deleted_photograph(run, here):
    (here / "photos" / "a.png").unlink()
    ended = run("search", "photos.faemb", "query.png")
    assert f"{here}/photos/a.png  (not there)\n" in ended.out
    assert ended.err == (
        "faemb: of these 3 files, 1 cannot be found or changed after indexing; run: faemb update photos.faemb, "
        "or if images were moved: faemb relocate photos.faemb OLD NEW\n"
    )


class TestDuplicates:
    @pytest.fixture(autouse=True)
    def with_copies(self, here, run):
        for name in ("first.png", "second.png"):
            shutil.copy(here / "photos" / "a.png", here / "photos" / name)
        run("add", "photos.faemb", "photos")

    def test_the_image_to_keep_is_one_that_is_there(self, run, here):
        (here / "photos" / "a.png").unlink()  # first by name
        ended = run("duplicates", "photos.faemb", "--html", "groups.html")
        keep, second, gone = ended.out.splitlines()[1:4]
        assert f"keep  {here}/photos/first.png" in keep
        assert "not there" not in keep + second
        assert f"{here}/photos/a.png" in gone
        assert gone.endswith("(not there)")
        assert "faemb update photos.faemb" in ended.err
        page = Page((here / "groups.html").read_text())
        assert page.texts("p", "mark")[1:] == ["not there"]

    def test_the_only_one_that_is_there(self, run, here):
        (here / "photos" / "a.png").unlink()
        picture(here / "photos" / "first.png", 70)
        (group,) = json.loads(run("duplicates", "photos.faemb", "--json").out)
        assert (Path(group["keep"]).name, group["reason"]) == (
            "second.png",
            "the only one that is there as it was indexed",
        )
        assert [image["state"] for image in group["images"]] == ["unchanged", "missing", "changed"]
