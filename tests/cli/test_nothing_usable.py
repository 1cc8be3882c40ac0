"""Images of which none can be used: each is named with the reason, and no empty collection stays behind."""

import json
import sys

import pytest
from command_line import Run, commands

from faemb.collection import Collection
from pictures import blank, picture
from small_collections import new_tiny_model, work_here

HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100)


@pytest.fixture
def run(tmp_path, monkeypatch, capfd) -> Run:
    """The command line in a folder of two photographs in a format whose extra is not installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    (tmp_path / "phone").mkdir()
    for name in ("1.heic", "2.heic"):
        (tmp_path / "phone" / name).write_bytes(HEIC)
    work_here(monkeypatch)
    return commands(monkeypatch, capfd)


SENTENCES = [
    f"reading phone/{name}, a HEIC image, needs the extra 'heic': pip install \"faemb[heic]\""
    for name in ("1.heic", "2.heic")
]


def test_each_reason_is_printed(run):
    ended = run("index", "phone", "--out", "phone.faemb")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines() == [
        *(f"faemb: {each}" for each in SENTENCES),
        "faemb: none of the images can be used",
    ]


def test_programs_get_the_reasons_too(run):
    ended = run("index", "phone", "--out", "phone.faemb", "--json")
    known = json.loads(ended.out)
    assert (ended.code, known["added"]) == (1, 0)
    assert known["failed"] == [
        {"path": f"phone/{name}", "reason": sentence}
        for name, sentence in zip(("1.heic", "2.heic"), SENTENCES, strict=True)
    ]


def test_a_file_that_is_no_image(run, tmp_path):
    (tmp_path / "note.jpg").write_text("no image")
    ended = run("fit", "note.jpg", "--out", "new.model")
    assert "note.jpg is not an image of a known format" in ended.err
    assert ended.code == 1


def test_from_python(run, tmp_path):
    with (
        Collection.create(tmp_path / "phone.faemb", new_tiny_model()) as made,
        pytest.raises(
            ValueError, match=r"^none of .* used: reading .*1\.heic, a HEIC image, needs .*; 1 more cannot be used$"
        ),
    ):
        made.add(tmp_path / "phone")


@pytest.mark.parametrize("images", ["phone", "flat.png"])
def test_no_empty_collection_stays_behind(run, tmp_path, images):
    blank(tmp_path / "flat.png")
    before = sorted(tmp_path.iterdir())
    assert run("index", images, "--out", "new.faemb").code == 1
    assert sorted(tmp_path.iterdir()) == before


def test_what_was_there_before_stays(run, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / ".hidden").touch()
    with Collection.create(tmp_path / "made.faemb", new_tiny_model()):
        pass
    kept = sorted(each.name for each in (tmp_path / "made.faemb").iterdir())
    run("index", "phone", "--out", "folder")
    run("add", "made.faemb", "phone")
    assert [each.name for each in (tmp_path / "folder").iterdir()] == [".hidden"]
    assert set(kept) <= {each.name for each in (tmp_path / "made.faemb").iterdir()}


def test_the_reasons_are_printed_if_the_others_are_too_few(run, tmp_path):
    picture(tmp_path / "phone" / "3.png", 3)
    ended = run("index", "phone", "--out", "new.faemb", "--max-features", "4")
    *reasons, verdict = ended.err.splitlines()
    assert reasons == [f"faemb: {each}" for each in SENTENCES]
    assert verdict == "faemb: 1 images with 4 local features in all are too few to learn from; give more images"
    assert (tmp_path / "new.faemb").is_dir()  # more images help
