"""The command that explains a result: what it prints and writes, and how a mistake looks."""

import json
import shutil
from pathlib import Path

import PIL.Image
import pytest
from command_line import Run, assert_mistake, assert_misuse, commands

from faemb.collection import Collection
from pictures import blank
from small_collections import make_collection, tiny_model, work_here

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_collection(tmp_path_factory.mktemp("explain"), ["a.png", "b.png", "c.png"])


@pytest.fixture
def run(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """In a folder with three images, a collection of them, and an enlarged copy of one."""
    shutil.copytree(template, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    with PIL.Image.open("photos/a.png") as small:
        small.resize((180, 135), PIL.Image.Resampling.BICUBIC).save("large.png")
    work_here(monkeypatch)
    return commands(monkeypatch, capfd)


def test_in_words(run):
    ended = run("explain", "photos.faemb", "large.png", "photos/a.png", "--out", "p.png", "--html", "p.html")
    assert (ended.code, ended.err) == (0, "")
    first, claim, agreement, shared, similarity, *written = ended.out.splitlines()
    assert first == f"large.png and {Path('photos/a.png').absolute()}"
    assert claim.startswith("  the same thing: confidence 9")
    assert "matches agree with one transform" in agreement
    assert shared.startswith("  both show ")
    assert similarity.startswith("  similarity of the vectors 0.")
    assert written == ["written to p.png", "written to p.html"]
    with PIL.Image.open("p.png") as drawn:
        assert drawn.height == 600
    assert "<h2>What matches</h2>" in Path("p.html").read_text(encoding="utf-8")


def test_for_programs(run):
    ended = run("explain", "photos.faemb", "large.png", "photos/a.png", "--json")
    value = json.loads(ended.out)
    assert value["verdict"] == "same"
    assert (value["in_collection"], value["verified"], value["shares"], value["notes"]) == (True, True, None, [])
    assert value["matches"] == len(value["pairs"])
    assert value["agreeing"] == sum(pair["agrees"] for pair in value["pairs"]) > 5
    assert value["evidence"] > 10
    assert value["transform"][0][0] == pytest.approx(2 / 3, abs=0.05)  # from the large picture to the small one
    assert value["transform"][2] == pytest.approx([0, 0, 1], abs=1e-3)
    for side, (width, height) in (("query", (180, 135)), ("result", (120, 90))):
        corners = value["overlap"][side]
        assert max(x for x, _ in corners) == pytest.approx(width - 1, abs=4)
        assert max(y for _, y in corners) == pytest.approx(height - 1, abs=4)


def test_without_features_the_largest_shares_are_given(run):
    with Collection.create("bare.faemb", tiny_model(), keep_features=False) as bare:
        bare.add("photos")
    ended = run("explain", "bare.faemb", "large.png", "photos/a.png", "--json", "--out", "p.png", "--html", "p.html")
    assert ended.code == 0
    value = json.loads(ended.out)
    assert (value["verified"], value["matches"], value["overlap"], value["pairs"]) == (False, None, None, None)
    shares = [each["share"] for each in value["shares"]]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(value["similarity"], abs=2e-3)
    assert all(0 <= x < 180 and 0 <= y < 135 for x, y in (each["query"] for each in value["shares"]))
    assert "not kept" in value["notes"][0]
    assert "<h2>What adds to the similarity</h2>" in Path("p.html").read_text(encoding="utf-8")


def test_quiet_and_a_box(run):
    assert run("explain", "photos.faemb", "large.png", "photos/a.png", "--box", "0,0,120,130", "-q") == (0, "", "")


def test_mistakes_are_told_in_a_sentence(run):
    blank(Path("flat.png"))
    Path("broken.png").write_text("no image")
    start = ["explain", "photos.faemb"]
    assert_mistake(run(*start, "flat.png", "photos/a.png"), "flat.png has no local features, so there is nothing to ex")
    assert_mistake(run(*start, "large.png", "flat.png"), "flat.png has no local features, so nothing can be compared")
    assert_mistake(run(*start, "large.png", "gone.png"), "gone.png is not in the collection .*, nor can it be read")
    assert_mistake(run(*start, "large.png", "broken.png"), "broken.png is not in the collection .*, nor can it be read")
    assert_mistake(run(*start, "gone.png", "photos/a.png"), "there is no file 'gone.png'")
    assert_mistake(run(*start, "large.png", "photos/a.png", "--box", "1,2,3"), "the box '1,2,3' cannot be read")
    assert_mistake(run(*start, "large.png", "photos/a.png", "--box", "900,900,950,950"), "lies outside the image")
    assert_mistake(run(*start, "large.png", "photos/a.png", "--out", "p.gif"), "cannot be written to p.gif")
    assert_mistake(run(*start, "large.png", "photos/a.png", "--open"), "--open shows the page that --html writes")
    assert_mistake(run("explain", "none.faemb", "large.png", "photos/a.png"), "no collection at none.faemb")
    assert_misuse(run(*start, "large.png"), "Missing argument 'RESULT'")


def test_a_file_that_is_gone_is_shown_by_its_thumbnail(run):
    Path("photos/a.png").unlink()
    ended = run("explain", "photos.faemb", "large.png", "photos/a.png", "--out", "p.png")
    assert ended.code == 0
    assert "stored thumbnail: " in ended.out
    with PIL.Image.open("p.png") as drawn:
        assert drawn.height == 600
