"""Pages of answers: what they show, that they hold everything, and that names from outside cannot become HTML."""

import base64
import io
import os
import re
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import PIL.Image
import pytest

from faemb.collection import Answer, Group, GroupedImage, Hit
from faemb.collection.thumbnails import LARGEST_THUMBNAIL
from faemb.errors import InputError
from faemb.pages.contact_sheet import answers_page, groups_page
from faemb.pages.document import breakable, save_page
from faemb.rerank import Verification
from html_pages import Page

HOSTILE = """<script>alert(1)</script>"'&<img src=x onerror=y>"""


def photo(
    path: Path, width: int = 300, height: int = 200, colour: tuple[int, int, int] = (200, 40, 40), **how: str
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.new("RGB", (width, height), colour).save(path, **how)
    return path


def thumbnails(page: Page) -> list[PIL.Image.Image]:
    head = "data:image/jpeg;base64,"
    uris = [attributes["href"] for attributes in page.attributes("image")]
    assert all(uri.startswith(head) for uri in uris)
    return [PIL.Image.open(io.BytesIO(base64.b64decode(uri.removeprefix(head)))) for uri in uris]


def target(uri: str) -> Path:
    assert uri.startswith("file:///")
    return Path(unquote(urlsplit(uri).path))


def test_a_row_shows_the_query_and_its_hits_in_their_order(tmp_path):
    query, first, second = (photo(tmp_path / "trip" / name) for name in ("q.jpg", "b one.jpg", "a.jpg"))
    page = Page(answers_page([Answer(str(query), 1234, [Hit(first, 0.98765), Hit(second, -0.0312)])], title="Trip"))
    assert page.texts("h1") == page.texts("title") == ["Trip"]
    assert page.texts("h2") == ["trip/q.jpg"]
    assert page.texts("p", "name") == ["trip/b one.jpg", "trip/a.jpg"]
    assert page.texts("p", "detail") == ["1,234 local features", "0.988", "-0.031"]
    assert [target(link["href"]) for link in page.attributes("a")] == [query, first, second]
    assert [link["title"] for link in page.attributes("a")] == [str(query), str(first), str(second)]
    assert [bar["style"] for bar in page.attributes("i")] == ["width:99%", "width:0%"]


def test_the_query_itself_is_not_among_its_answers_and_a_copy_is_marked(tmp_path):
    query, copy = (photo(tmp_path / name) for name in ("q.jpg", "copy.jpg"))
    hits = [Hit(query, 0.9, itself=True), Hit(copy, 0.8, copy_of_query=True)]
    page = Page(answers_page([Answer(str(query), 5, hits)], title="T"))
    assert page.texts("p", "name") == [f"{tmp_path.name}/copy.jpg"]
    assert page.texts("p", "detail")[:3] == ["5 local features", "In the collection itself, similarity 0.900", "0.800"]
    assert page.texts("p", "mark") == ["copy of the query"]
    page = Page(answers_page([Answer(str(query), 5, hits[:1])], title="T"))
    assert page.texts("p", "soft") == ["Nothing found: there is no other image to compare."]


def test_the_page_is_made_for_readers_and_browsers(tmp_path):
    query = photo(tmp_path / "q.jpg")
    page = Page(answers_page([Answer(str(query), 5, [Hit(query, 1.0)])], title="T", note="A & B"))
    assert page.attributes("html") == [{"lang": "en"}]
    metas = {each.get("name") or each.get("http-equiv"): each.get("content") for each in page.attributes("meta")}
    assert metas["Content-Security-Policy"] == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    assert metas["viewport"] == "width=device-width, initial-scale=1"
    assert metas["color-scheme"] == "light dark"
    assert "A & B" in page.texts("header")[0]
    pictures = page.attributes("svg")
    assert [(each["role"], each["aria-label"]) for each in pictures] == 2 * [("img", "picture of q.jpg")]


def test_nothing_is_loaded_or_run(tmp_path):
    query = photo(tmp_path / "q.jpg")
    text = answers_page([Answer(str(query), 5, [Hit(query, 1.0), Hit(tmp_path / "gone.jpg", 0.5)])], title="T")
    page = Page(text)
    assert not {"script", "link", "iframe", "object", "embed", "form", "base", "img"} & {e[0] for e in page.elements}
    for _, attributes, _ in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
        assert re.match(r"(data:image/jpeg;|file:///|#p\d+$|$)", attributes.get("href", ""))
    assert "url(" not in text
    assert "@import" not in text


@pytest.mark.parametrize(
    ("width", "height", "shown"),
    [(300, 200, (240, 160)), (2000, 1000, (240, 120)), (100, 400, (60, 240)), (30, 20, (30, 20)), (1, 1, (1, 1))],
)
def test_thumbnails_are_small_and_never_enlarged(tmp_path, width, height, shown):
    query = photo(tmp_path / "q.png", width, height)
    page = Page(answers_page([Answer(str(query), 5, [])], title="T"))
    (thumbnail,) = thumbnails(page)
    assert thumbnail.format == "JPEG"
    assert thumbnail.size == shown
    assert max(thumbnail.size) <= LARGEST_THUMBNAIL
    assert page.attributes("svg")[0]["viewbox"] == f"0 0 {width} {height}"


def test_thumbnails_are_upright(tmp_path):
    """Red above blue as it lies in the file; orientation 6 is turned clockwise: blue left, red right."""
    pixels = np.zeros((100, 60, 3), np.uint8)
    pixels[:50, :, 0] = pixels[50:, :, 2] = 255
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    PIL.Image.fromarray(pixels).save(tmp_path / "q.jpg", exif=exif)
    (thumbnail,) = thumbnails(Page(answers_page([Answer(str(tmp_path / "q.jpg"), 5, [])], title="T")))
    shown = np.asarray(thumbnail).astype(int)
    assert shown.shape == (60, 100, 3)
    assert shown[30, 20, 2] > 200 > 60 > shown[30, 20, 0]
    assert shown[30, 80, 0] > 200 > 60 > shown[30, 80, 2]


@pytest.mark.parametrize("kind", ["grey", "deep", "transparent"])
def test_thumbnails_of_all_kinds_of_files(tmp_path, kind):
    made = {
        "grey": PIL.Image.new("L", (40, 30), 128),
        "deep": PIL.Image.fromarray(np.full((30, 40), 32896, np.uint16)),
        "transparent": PIL.Image.new("RGBA", (40, 30), (128, 128, 128, 255)),
    }
    made[kind].save(tmp_path / "q.png")
    (thumbnail,) = thumbnails(Page(answers_page([Answer(str(tmp_path / "q.png"), 5, [])], title="T")))
    np.testing.assert_allclose(np.asarray(thumbnail.convert("RGB")), 128, atol=3)


def test_a_picture_is_held_once_however_often_it_is_shown(tmp_path):
    paths = [photo(tmp_path / f"{number}.jpg", colour=(20 * number, 0, 0)) for number in range(4)]
    answers = [Answer(str(path), 5, [Hit(hit, 0.5) for hit in paths]) for path in paths]
    page = Page(answers_page(answers, title="T"))
    ids = [image["id"] for image in page.attributes("image")]
    assert len(ids) == len(set(ids)) == 4
    used = [each["href"] for each in page.attributes("use")]
    assert len(used) == 16
    assert set(used) <= {f"#{each}" for each in ids}


def test_thousands_of_hits_make_a_page_of_reasonable_size(tmp_path):
    paths = [photo(tmp_path / f"{number}.jpg") for number in range(10)]
    page = answers_page([Answer(str(paths[0]), 5, [Hit(path, 0.5) for path in paths])] * 300, title="T")
    assert page.count("data:image/jpeg") == 10
    assert len(page) / 3000 < 800


def test_a_box_is_drawn_on_the_query_alone(tmp_path):
    """In pixels of the image, corners included: the box covers the columns 100..199 and the rows 50..149."""
    query = photo(tmp_path / "q.png", 600, 300)
    hit = photo(tmp_path / "h.png", 50, 50)
    page = Page(
        answers_page([Answer(str(query), 5, [Hit(query, 1.0), Hit(hit, 0.5)])], title="T", box=(100, 50, 199, 149))
    )
    shade, outline = page.attributes("path")
    assert outline == {"class": "box", "d": "M100 50h100v100h-100z"}
    assert shade["d"] == "M0 0h600v300h-600z" + outline["d"]
    assert page.texts("p", "detail")[0] == "5 local features in the box"


def test_a_box_that_leaves_the_image_is_cut_and_one_beside_it_refused(tmp_path):
    answers = [Answer(str(photo(tmp_path / "q.png", 100, 50)), 5, [])]
    page = Page(answers_page(answers, title="T", box=(-20, 10, 500, 500)))
    assert page.attributes("path")[1]["d"] == "M0 10h100v40h-100z"
    with pytest.raises(InputError, match="lies outside the image, which is 100 x 50 pixels"):
        answers_page(answers, title="T", box=(200, 10, 300, 20))


def test_images_without_features_say_so(tmp_path):
    query = photo(tmp_path / "q.jpg")
    page = Page(answers_page([Answer(str(query), 1, [Hit(query, None)])], title="T"))
    assert page.texts("p", "detail") == ["1 local feature", "no local features"]


def test_a_query_without_features_says_so(tmp_path):
    query = photo(tmp_path / "q.jpg")
    page = Page(answers_page([Answer(str(query), 0, [])], title="T"))
    assert page.texts("p", "detail") == ["0 local features"]
    assert page.texts("p", "soft") == [
        "The query has no local features, so nothing can be compared with it. Give a larger or more detailed picture."
    ]


def test_a_query_without_hits_says_so(tmp_path):
    query = photo(tmp_path / "q.jpg")
    page = Page(answers_page([Answer(str(query), 7, [], least_confidence=0.9, threshold=0.25)], title="T"))
    assert page.texts("p", "soft") == [
        "Nothing found: no image has a confidence of 0.9 or more and a similarity of 0.25 or more."
    ]
    assert page.texts("p", "detail") == ["7 local features"]


def judged(path: Path, confidence: float, found: Verification | None = None) -> Hit:
    return Hit(path, 0.4, confidence=confidence, verification=found)


def agreeing(count: int) -> Verification:
    """Matches on the diagonals of two pictures of 300 x 200 pixels, the second shifted by ten pixels."""
    share = np.linspace(0.1, 0.8, count)[:, None]
    points = np.concatenate([share * (300, 200), share * (300, 200) + 10], axis=1).astype(np.float32)
    rows = np.arange(count)
    shift = np.array([[1.0, 0, 10], [0, 1, 10], [0, 0, 1]])
    return Verification(90.0, np.stack([rows, rows], 1), np.ones(count, bool), shift, count, points)


def test_verdict_and_confidence_are_on_the_card(tmp_path):
    paths = [photo(tmp_path / f"{number}.jpg") for number in range(4)]
    hits = [judged(path, confidence) for path, confidence in zip(paths, (0.999, 0.9, 0.5, 0.2), strict=True)]
    page = Page(answers_page([Answer(str(paths[0]), 5, hits)], title="T"))
    assert page.texts("span", "claim") == ["same, 99 %", "same, 90 %", "maybe, 50 %", "20 %"]
    assert [each["class"] for each in page.attributes("span") if "claim" in each.get("class", "")] == [
        *2 * ["claim same"],
        "claim maybe",
        "claim unsure",
    ]


@pytest.mark.parametrize(
    ("confidences", "words", "before"),
    [
        ((0.95, 0.3, 0.2), "Not confirmed (confidence below 50 %):", 1),
        ((0.3, 0.2), "No confirmed match; most similar images:", 0),
    ],
)
def test_a_line_is_drawn_under_what_is_claimed(tmp_path, confidences, words, before):
    path = photo(tmp_path / "q.jpg")
    page = Page(answers_page([Answer(str(path), 5, [judged(path, each) for each in confidences])], title="T"))
    assert page.texts("li", "line") == [words]
    kinds = [each["class"] for each in page.attributes("li")]
    assert kinds.index("line") == before
    claimed = answers_page([Answer(str(path), 5, [judged(path, 0.95)])], title="T")
    assert Page(claimed).texts("li", "line") == []


def test_a_hit_shows_why_it_is_one_with_the_thumbnails_of_the_page(tmp_path):
    query, hit = photo(tmp_path / "q.jpg"), photo(tmp_path / "h.jpg")
    text = answers_page([Answer(str(query), 5, [judged(hit, 0.99, agreeing(12))])], title="T")
    page = Page(text)
    assert page.texts("summary") == ["why"]
    assert page.texts("details")[0].split("\n")[-2:] == [
        "The same thing: confidence 99 %.",
        "12 of 12 matches agree with one transform, at 12 places.",
    ]
    assert text.count("data:image/jpeg") == 2
    assert [each["href"] for each in page.attributes("use")] == ["#p0", "#p1"]
    assert [each["transform"] for each in page.attributes("use")] == [
        "translate(0 0) scale(5 5)",
        "translate(1524 0) scale(5 5)",
    ]
    lines = [each["d"] for each in page.attributes("path") if "stroke" in each]
    assert sum(path.count("L") for path in lines) == 12
    assert lines[0].startswith("M152 102L1726 152")  # (30, 20) and (40, 30), each pixel five units wide


def test_a_hit_says_through_which_image_it_was_found(tmp_path):
    query, hit = photo(tmp_path / "q.jpg"), photo(tmp_path / "h.jpg")
    through = tmp_path / HOSTILE.replace("/", "|")
    hits = [replace(judged(hit, confidence), through=through) for confidence in (0.6, 0.3)]
    page = Page(answers_page([Answer(str(query), 5, hits)], title="T"))
    assert page.texts("p", "mark") == [f"found through {through.name}"]
    assert [each.split("\n")[-1] for each in page.texts("details")] == 2 * [
        f"It shows the same thing as {through.name}, which shows the same thing as the query."
    ]


def test_evidence_takes_little_room(tmp_path):
    paths = [photo(tmp_path / f"{number}.jpg") for number in range(10)]
    hits = [judged(path, 0.99, agreeing(400)) for path in paths]
    page = answers_page([Answer(str(paths[0]), 5, hits)] * 30, title="T")
    assert page.count("data:image/jpeg") == 10
    assert len(page) / 300 < 4000


def test_what_cannot_be_drawn_is_said_in_words(tmp_path):
    """Not compared; compared without agreement; a query without a picture."""
    query, hit = photo(tmp_path / "q.jpg"), photo(tmp_path / "h.jpg")
    nothing = Verification(0.0, np.zeros((0, 2), np.int64), np.zeros(0, bool), None)
    hits = [judged(hit, 0.6, None), judged(hit, 0.6, nothing)]
    page = Page(answers_page([Answer(str(query), 5, hits), Answer("the array", 5, [judged(hit, 0.9)])], title="T"))
    assert [each.split("\n")[-1] for each in page.texts("details")] == [
        "Local features were not compared.",
        "No regions of both match.",
        "Local features were not compared.",
    ]
    assert not [each for each in page.attributes("svg") if each["class"] == "joined"]


def test_a_hit_that_was_not_compared_says_why(tmp_path):
    query, hit = photo(tmp_path / "q.jpg"), photo(tmp_path / "h.jpg")
    hits = [judged(hit, 0.6), judged(hit, 0.5, agreeing(12))]
    first, second = Page(answers_page([Answer(str(query), 5, hits, "not kept; index anew")], title="T")).texts(
        "details"
    )
    assert first.split("\n")[-2:] == ["Local features were not compared.", "Not kept; index anew."]
    assert "index anew" not in second


def test_what_could_not_be_verified_is_said(tmp_path):
    answer = Answer(str(photo(tmp_path / "q.jpg")), 5, [], note="features are lost; run: faemb check <c>")
    page = Page(answers_page([answer], title="T"))
    assert page.texts("p", "note") == ["Features are lost; run: faemb check <c>."]


@pytest.mark.parametrize("query", ["the array", ""])
def test_a_query_that_is_not_a_file_is_shown_without_a_picture(tmp_path, query):
    page = Page(answers_page([Answer(query, 3, [Hit(photo(tmp_path / "h.jpg"), 0.5)])], title="T", box=(1, 1, 9, 9)))
    assert page.texts("h2") == ["Query without a file"]
    assert page.texts("div", "missing") == ["no picturethe query was given as an array or as features"]
    assert len(page.attributes("a")) == 1


def test_a_missing_or_broken_file_is_shown_with_the_reason(tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 nothing")
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "folder.jpg").mkdir()
    names = ["gone.jpg", "broken.jpg", "empty.png", "folder.jpg"]
    page = Page(answers_page([Answer("", 3, [Hit(tmp_path / name, 0.5) for name in names])], title="T"))
    reasons = page.texts("div", "missing")[1:]
    for name, reason, cause in zip(names, reasons, ["there is no file", "decoded", "empty", "a folder"], strict=True):
        assert reason.startswith("no picture")
        assert name in reason
        assert cause in reason
        assert str(tmp_path) not in reason
    assert page.texts("p", "name") == [f"{tmp_path.name}/{name}" for name in names]


def test_relative_paths_lead_to_the_file(tmp_path, monkeypatch):
    photo(tmp_path / "trip" / "q.jpg")
    monkeypatch.chdir(tmp_path)
    page = Page(answers_page([Answer("trip/../trip/q.jpg", 3, [])], title="T"))
    assert target(page.attributes("a")[0]["href"]) == tmp_path / "trip" / "q.jpg"


def test_names_and_titles_stay_text(tmp_path):
    name = HOSTILE.replace("/", "_") + "\n%41#?.jpg"
    path = photo(tmp_path / "<b>" / name, format="JPEG")
    text = answers_page([Answer(str(path), 3, [Hit(path, 0.5)])], title=HOSTILE, note=HOSTILE)
    page = Page(text)
    assert page.texts("h1") == page.texts("title") == [HOSTILE]
    assert page.texts("h2") == [f"<b>/{name}"]
    assert [target(link["href"]) for link in page.attributes("a")] == [path, path]
    assert {e[0] for e in page.elements}.isdisjoint({"script", "img"})
    assert page.texts("b") == ["0.500"]
    assert not [1 for _, attributes, _ in page.elements if "onerror" in attributes]
    assert Page(groups_page([group_of([path], 0.5)], title=HOSTILE)).texts("h1") == [HOSTILE]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("IMG_20190204_holiday.jpg", ["IMG_", "20190204_", "holiday", ".jpg"]),
        ("summerPalace-roofEast.v2.jpeg", ["summer", "Palace-", "roof", "East", ".v", "2", ".jpeg"]),
        ("DSC01234.JPG", ["DSC01234", ".JPG"]),
        ("a__b--c..d.png", ["a__", "b--", "c", "..d", ".png"]),
        ("<b>_&.png", ["&lt;b&gt;_", "&amp;", ".png"]),
        ("plain name", ["plain name"]),
    ],
)
def test_lines_of_a_name_end_between_words(name, parts):
    assert breakable(name) == "<wbr>".join(parts)


def test_names_are_cut_only_where_a_word_is_wider_than_its_card(tmp_path):
    text = answers_page([Answer(str(photo(tmp_path / "my_trip" / "q_1.jpg")), 5, [])], title="T")
    assert "my_<wbr>trip" in text
    assert "q_<wbr>1<wbr>.jpg" in text
    assert re.search(r"\.name \{[^}]*overflow-wrap: break-word", text)


def test_each_name_keeps_its_own_writing_direction(tmp_path):
    path = photo(tmp_path / "trip" / "\u05e9\u05dc\u05d5\u05dd.jpg")
    page = Page(answers_page([Answer(str(path), 3, [])], title="T"))
    assert page.texts("bdi") == ["T", "trip", path.name]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no names that are not Unicode")
def test_a_name_that_is_not_unicode_can_be_shown_and_saved(tmp_path):
    path = photo(tmp_path / os.fsdecode(b"caf\xe9.jpg"))
    text = answers_page([Answer(str(path), 3, [])], title="T")
    assert Page(text).texts("h2") == [f"{tmp_path.name}/caf?.jpg"]
    assert Page(text).attributes("a")[0]["href"].endswith("/caf%E9.jpg")
    save_page(tmp_path / "page.html", text)
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == text


def group_of(paths: list[Path], smallest: float, *, all_pairs: bool = True) -> Group:
    """The first image is larger than the others."""
    date = datetime(2014, 7, 20)
    first = GroupedImage(paths[0], 4000, 3000, 2_345_678, date, taken=True)
    others = [GroupedImage(path, 30, 20, 777, date, taken=False) for path in paths[1:]]
    return Group([first, *others], "most pixels", smallest, 0.95, all_pairs)


def test_groups(tmp_path):
    paths = [photo(tmp_path / "trip" / f"{number}.jpg") for number in range(3)]
    page = Page(groups_page([group_of(paths, 0.41239), group_of(paths[:2], 0.9, all_pairs=False)], title="Duplicates"))
    assert page.texts("h2") == ["Group 1", "Group 2"]
    assert page.texts("p", "soft") == [
        "copies: 3 images, similarity 0.412 to 0.950",
        "copies: 2 images, similarity 0.900 to 0.950 of linked pairs, others not compared",
    ]
    assert page.texts("p", "name") == [f"trip/{number}.jpg" for number in (0, 1, 2, 0, 1)]
    assert len(page.attributes("image")) == 3
    facts = ["4,000 x 3,000 pixels, 2.3 MB, taken 2014-07-20", "30 x 20 pixels, 1 KB, changed 2014-07-20"]
    assert page.texts("p", "detail") == [
        facts[0],
        "keep: most pixels",
        *facts[1:] * 2,
        facts[0],
        "keep: most pixels",
        facts[1],
    ]


def test_pages_of_nothing():
    assert "0 queries." in Page(answers_page([], title="T")).texts("header")[0]
    assert "0 groups of images" in Page(groups_page([], title="T")).texts("header")[0]


@pytest.mark.parametrize("name", ["page.html", "page.HTM", "ż ü.html"])
def test_a_page_is_saved(tmp_path, name):
    page = answers_page([], title="Zażółć")
    save_page(tmp_path / name, page)
    save_page(str(tmp_path / name), page)
    assert (tmp_path / name).read_text(encoding="utf-8") == page
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["page", "page.txt", "page.html.jpg", ".html"])
def test_other_names_are_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"a page cannot be written to .*; give a name that ends in \.html"):
        save_page(tmp_path / name, "")
    assert os.listdir(tmp_path) == []


def test_a_missing_folder_is_explained(tmp_path):
    with pytest.raises(InputError, match=r"the folder .* does not exist"):
        save_page(tmp_path / "nowhere" / "page.html", "")
