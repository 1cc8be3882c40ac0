"""Evidence as a page and as a picture: what is drawn where, and that the page holds everything and runs nothing."""

import base64
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from faemb.collection.explaining import Compared, Explanation
from faemb.errors import InputError
from faemb.features import Image, LocalFeatures
from faemb.features.local_features import discs, frames_from, without_geometry
from faemb.features.region import Box
from faemb.pages.evidence import evidence_page, reasons
from faemb.pages.evidence_drawing import draw_evidence
from faemb.pages.reasons import agreement
from faemb.pages.side_by_side import MOST_LINES, side_by_side
from faemb.rerank import Verification
from html_pages import Page

pytestmark = pytest.mark.usefixtures("one_thread")

HOSTILE = """<script>alert(1)</script>"'&"""
LEFT, RIGHT = (400, 200), (200, 300)
"""Sizes of the two images."""
SHIFT = np.array([[1.0, 0, -100], [0, 1, 50], [0, 0, 1]])
"""The region 100..299 x 0..199 of the first is 0..199 x 50..249 of the second."""


def features(centres: np.ndarray, size: tuple[int, int]) -> LocalFeatures:
    count = len(centres)
    frames = frames_from(centres, discs(np.full(count, 6.0), np.zeros(count)))
    return LocalFeatures(np.zeros((count, 4), np.float32), frames, np.ones(count, np.float32), size)


def flat(size: tuple[int, int], colour: tuple[int, int, int]) -> Image:
    pixels = np.broadcast_to(np.array(colour, np.uint8), (size[1], size[0], 3))
    return Image(np.ascontiguousarray(pixels), size, "x")


def found(agreeing: int = 30, others: int = 5) -> tuple[np.ndarray, Verification]:
    """Centres in both images, and the verification of them."""
    rng = np.random.default_rng(0)
    first = rng.uniform((110, 10), (290, 190), (agreeing + others, 2)).astype(np.float32)
    points = np.concatenate([first, first + np.array([-100, 50], np.float32)], axis=1)
    rows = np.arange(agreeing + others)
    agree = rows < agreeing
    return points, Verification(80.0, np.stack([rows, rows], 1), agree, SHIFT, min(agreeing, 9), points)


def explained(**changes: Any) -> Explanation:
    points, verification = found()
    query = Compared("q.png", features(points[:, :2], LEFT), LEFT, flat(LEFT, (200, 0, 0)), Path("/photos/q.png"))
    result = Compared("r.png", features(points[:, 2:], RIGHT), RIGHT, flat(RIGHT, (0, 0, 200)), Path("/photos/r.png"))
    settings: dict[str, Any] = {
        "query": query,
        "result": result,
        "similarity": 0.4321,
        "confidence": 0.97,
        "verification": verification,
        "shares": None,
        "box": None,
        "notes": (),
    }
    return Explanation(**{**settings, **changes})


def unverified(**changes: Any) -> Explanation:
    shares = np.linspace(-0.01, 0.05, 35)
    return explained(**{"verification": None, "shares": shares, "notes": ("features are not kept",), **changes})


def embedded(page: Page) -> list[np.ndarray]:
    head = "data:image/jpeg;base64,"
    uris = [attributes["href"] for attributes in page.attributes("image")]
    assert all(uri.startswith(head) for uri in uris)
    return [np.asarray(PIL.Image.open(io.BytesIO(base64.b64decode(uri.removeprefix(head))))) for uri in uris]


class TestLayout:
    def test_both_images_are_equally_high_and_points_are_in_their_places(self):
        layout = side_by_side(LEFT, RIGHT, found()[1])
        assert (layout.first.left, layout.first.width) == (0, 2000)
        assert layout.second.width == 667
        assert layout.width == layout.second.left + 667
        centre = layout.second.of(np.array([[99.5, 149.5]]))
        np.testing.assert_allclose(centre, [[layout.second.left + 333.5, 500]])

    def test_lines_of_agreeing_matches_end_where_their_regions_are(self):
        points, verification = found(4, 3)
        layout = side_by_side(LEFT, RIGHT, verification)
        assert sum(map(len, layout.lines)) == 4
        assert len(layout.others) == 3
        for ends, rows in zip(layout.lines, layout.rows, strict=True):
            np.testing.assert_allclose(ends[:, :2], layout.first.of(points[rows, :2]), rtol=1e-6)
            np.testing.assert_allclose(ends[:, 2:], layout.second.of(points[rows, 2:]), rtol=1e-6)

    def test_few_lines_are_drawn_of_many_and_they_are_spread(self):
        points, verification = found(400, 0)
        points[:300] = points[0]  # most in one place
        layout = side_by_side(LEFT, RIGHT, verification)
        rows = np.concatenate(layout.rows)
        assert len(rows) == len(set(rows.tolist())) == MOST_LINES
        assert (rows >= 300).sum() >= 30

    def test_paths_are_short_text(self):
        layout = side_by_side(LEFT, RIGHT, found(400, 0)[1])
        assert all(re.fullmatch(r"(M-?\d+ -?\d+L-?\d+ -?\d+)+", path) for _, path in layout.paths)
        assert sum(len(path) for _, path in layout.paths) < 25 * MOST_LINES
        assert re.fullmatch(r"(M[\d L]+z){2}", layout.outline_path)

    def test_what_both_show_is_outlined_in_both(self):
        layout = side_by_side(LEFT, RIGHT, found()[1])
        first, second = layout.outlines
        np.testing.assert_allclose([*first.min(0), *first.max(0)], [502.5, 2.5, 1497.5, 997.5])
        down = 1000 / 300
        np.testing.assert_allclose([second[:, 1].min(), second[:, 1].max()], [50.5 * down, 249.5 * down])

    def test_without_a_verification_there_are_only_the_places(self):
        layout = side_by_side(LEFT, RIGHT, None)
        assert (layout.paths, layout.other_path, layout.outline_path, layout.shade_path) == ([], "", "", "")


class TestWords:
    def test_of_a_verified_result(self):
        assert reasons(explained()) == [
            "the same thing: confidence 97 %",
            "30 of 35 matches agree with one transform, at 9 places",
            "both show 50 % of the query and 66 % of the result",
            "similarity of the vectors 0.432, from -1 to 1",
        ]

    @pytest.mark.parametrize(
        ("confidence", "words"),
        [(1.0, "the same thing: confidence 99 %"), (0.6, "maybe the same thing"), (0.2, "not confirmed: conf")],
    )
    def test_of_a_verdict(self, confidence, words):
        assert reasons(explained(confidence=confidence))[0].startswith(words)

    @pytest.mark.parametrize(
        ("confidence", "words", "legend"),
        [
            (0.6, "both show 50 % of the query", "both pictures show."),
            (
                0.2,
                "if that transform were right, both would show 50 % of",
                "both pictures would show if it were right.",
            ),
        ],
    )
    def test_a_transform_that_is_not_confirmed_claims_nothing(self, confidence, words, legend):
        found = explained(confidence=confidence)
        assert reasons(found)[2].startswith(words)
        assert any(each.endswith(legend) for each in Page(evidence_page(found, title="")).texts("p", "soft"))

    def test_a_caption_that_does_not_count(self):
        told = agreement(replace(found()[1], written_over=12))
        assert told.endswith("at 9 places; not counted: 12 of a caption, a logo or a frame in the same place of both")

    def test_notes_come_last(self):
        assert reasons(unverified())[-1] == "features are not kept"
        assert "local features were not compared" in reasons(unverified())

    @pytest.mark.parametrize(
        ("count", "words"),
        [
            (0, "no regions of both match"),
            (1, "1 region of both matches, and no more agree with one transform than by chance"),
            (2, "2 regions of both match, and no more agree with one transform than by chance"),
        ],
    )
    def test_of_matches_that_do_not_agree(self, count, words):
        points, _ = found(count, 0)
        rows = np.repeat(np.arange(count), 2).reshape(count, 2)
        assert agreement(Verification(0.0, rows, np.zeros(count, bool), None, points=points)) == words


class TestPage:
    def test_it_shows_both_pictures_lines_and_words(self):
        page = Page(evidence_page(explained(), title="A and B"))
        assert page.texts("h1") == page.texts("title") == ["A and B"]
        assert page.texts("h2") == ["What matches", "The result on the query", "In words and numbers"]
        assert [link["href"] for link in page.attributes("a")] == ["file:///photos/q.png", "file:///photos/r.png"]
        assert len(page.attributes("circle")) == 60
        assert "The same thing: confidence 97 %." in page.texts("header")[0]
        assert page.texts("li")[1].startswith("30 of 35 matches agree")
        assert page.texts("td") == ["1", "0", "-100", "0", "1", "50", "0", "0", "1"]

    def test_the_result_is_mapped_onto_the_query(self):
        """Where both show the same, the pixels of the result; elsewhere those of the query."""
        query, result, both = embedded(Page(evidence_page(explained(), title="T")))
        assert query.shape == both.shape == (200, 400, 3)
        assert result.shape == (300, 200, 3)
        assert both[100, 200, 2] > 150 > 60 > both[100, 200, 0]
        assert both[100, 50, 0] > 150 > 60 > both[100, 50, 2]
        assert both[100, 350, 0] > 150

    def test_one_can_switch_with_the_keyboard_and_without_scripts(self):
        text = evidence_page(explained(), title="T")
        page = Page(text)
        inputs = page.attributes("input")
        assert {(each["type"], each["name"]) for each in inputs} == {("radio", "shown")}
        assert [each["for"] for each in page.attributes("label")] == [each["id"] for each in inputs]
        assert "#show-result:checked ~ svg .mapped { opacity: 1; }" in text
        assert "form" not in {name for name, _, _ in page.elements}

    @pytest.mark.parametrize("made", [explained, unverified], ids=["verified", "not verified"])
    def test_nothing_is_loaded_or_run(self, made):
        text = evidence_page(made(), title=HOSTILE)
        page = Page(text)
        assert not {"script", "link", "iframe", "object", "embed", "form", "base", "img"} & {
            e[0] for e in page.elements
        }
        for _, attributes, _ in page.elements:
            assert not [name for name in attributes if name.startswith("on") or name == "src"]
            assert re.match(r"(data:image/jpeg;|file:///|#query$|$)", attributes.get("href", ""))
        assert "url(" not in text
        assert page.texts("h1") == [HOSTILE]

    def test_the_box_is_drawn_on_the_query(self):
        """In units of five per pixel of the query."""
        boxed = explained(box=Box(20, 10, 220, 190))
        (outline,) = [
            each["d"] for each in Page(evidence_page(boxed, title="T")).attributes("path") if each.get("class") == "box"
        ]
        assert outline == "M102 52L1102 52L1102 952L102 952z"
        drawn = draw_evidence(explained(box=Box(20, 10, 80, 190)))
        assert drawn[300, 61].max() > 200 > 130 > drawn[300, 40].max()

    def test_names_stay_text(self):
        query = Compared(HOSTILE, features(found()[0][:, :2], LEFT), LEFT, None, Path("/a") / HOSTILE.replace("/", "_"))
        page = Page(evidence_page(explained(query=query, notes=(HOSTILE,)), title="T"))
        assert "script" not in {name for name, _, _ in page.elements}
        assert page.texts("li")[-1] == f"{HOSTILE}."

    def test_without_verification_it_shows_shares_and_what_is_approximated(self):
        page = Page(evidence_page(unverified(), title="T"))
        assert page.texts("h2") == ["What adds to the similarity", "In words and numbers"]
        assert "To the first order" in page.texts("p", "soft")[0]
        assert len(page.attributes("image")) == 2
        assert page.attributes("input") == []

    def test_a_large_picture_makes_a_page_of_reasonable_size(self):
        noise = np.random.default_rng(0).integers(0, 256, (1200, 1600, 3), np.uint8)
        query = Compared("q", features(found()[0][:, :2], LEFT), LEFT, Image(noise, LEFT, "q"))
        assert len(evidence_page(explained(query=query), title="T")) < 3_000_000
        assert max(embedded(Page(evidence_page(explained(query=query), title="T")))[0].shape) == 1000


class TestPicture:
    def test_both_images_are_side_by_side_and_what_is_not_shared_is_dark(self):
        drawn = draw_evidence(explained(verification=found(0, 3)[1]))
        assert drawn.shape[0] == 600
        layout = side_by_side(LEFT, RIGHT, None)
        assert drawn.shape[1] == round(layout.width * 0.6)
        assert drawn[300, 600, 0] > 180  # shared
        assert drawn[300, 100, 0] < 130 > drawn[300, 1100, 0]
        second = round(layout.second.left * 0.6) + 200
        assert drawn[300, second, 2] > 180
        assert drawn[50, second, 2] < 130

    def test_lines_are_drawn_from_region_to_region(self):
        plain, lined = draw_evidence(explained(verification=found(0, 3)[1])), draw_evidence(explained())
        gap = slice(1201, 1213)  # between the images
        assert (plain[:, gap] == 255).all()
        assert (lined[:, gap] != 255).any(axis=(1, 2)).sum() > 30

    def test_a_query_is_lit_by_its_shares(self):
        """A region of a large share is bright, one of a negative share and the ground are dark."""
        centres = np.array([[100.0, 100], [300, 100]])
        query = Compared("q", features(centres, LEFT), LEFT, flat(LEFT, (200, 200, 200)))
        drawn = draw_evidence(unverified(query=query, shares=np.array([0.2, -0.1])))
        assert drawn[300, 300].min() > 150
        assert drawn[300, 900].max() < 80
        assert drawn[60, 60].max() < 80

    def test_without_positive_shares_it_is_dark(self):
        drawn = draw_evidence(unverified(shares=np.full(35, -0.01)))
        assert drawn[:, :1200].max() < 100

    def test_an_image_without_pixels_is_a_plain_ground_for_its_lines(self):
        points, _ = found()
        bare = Compared("r.npz", features(points[:, 2:], (0, 0)), (0, 0), None)
        drawn = draw_evidence(explained(result=bare))
        assert drawn.shape[0] == 600
        assert drawn[-5, -5].min() > 100

    @pytest.mark.parametrize("size", [(1 << 31, 1), (1, 1 << 31), (1, 1)])
    def test_absurd_sizes_take_no_memory(self, size):
        points, _ = found()
        odd = Compared("r.npz", features(points[:, 2:], size), size, None)
        drawn = draw_evidence(explained(result=odd))
        assert drawn.shape[0] <= 900
        assert drawn.shape[1] <= 6001

    def test_descriptors_without_geometry_cannot_be_drawn(self):
        bare = LocalFeatures(np.zeros((3, 4), np.float32), without_geometry(3), np.ones(3, np.float32), (0, 0))
        query = Compared("q.fvecs", bare, (0, 0), None)
        for show in (draw_evidence, lambda each: evidence_page(each, title="T")):
            with pytest.raises(InputError, match="descriptors without geometry, so there is nothing to draw"):
                show(unverified(query=query, shares=np.ones(3)))
