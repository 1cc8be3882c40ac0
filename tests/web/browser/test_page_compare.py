"""Query and result compared: matches, outlines, one laid over the other."""

import re

import httpx
import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect

from gallery import PLANTED
from processes import wait_until


@pytest.fixture
def pair(ids: dict[str, int]) -> tuple[int, int]:
    return ids["planted/before.png"], ids["planted/after.png"]


@pytest.fixture
def compared(page: Page, server: str, pair: tuple[int, int]) -> Page:
    """Opened from the results."""
    page.goto(f"{server}/?query=image-{pair[0]}")
    page.locator(f'.card[data-id="{pair[1]}"] .open').click()
    expect(page.locator(".joined .match").first).to_be_visible()
    return page


def test_matches_are_drawn_and_joined(compared: Page, server: str, pair: tuple[int, int]):
    told = httpx.get(f"{server}/api/explain/image-{pair[0]}/{pair[1]}").json()
    agreeing = sum(each["agrees"] for each in told["pairs"])
    assert agreeing > 20
    expect(compared.locator(".joined .match")).to_have_count(min(48, agreeing))
    expect(compared.locator(".joined image")).to_have_count(2)
    expect(compared.locator(".joined .outline")).to_be_visible()
    expect(compared.locator(".joined .other")).to_be_hidden()
    expect(compared.locator(".reasons li")).to_have_text(told["reasons"][1:])
    expect(compared.locator(".verdict")).to_contain_text("The same thing")
    with compared.expect_download() as saved:
        compared.get_by_role("link", name="Original file of the result").click()
    assert saved.value.suggested_filename == "after.png"


def test_ends_of_lines_lie_on_their_regions(compared: Page, server: str, pair: tuple[int, int]):
    """Each line begins at a place of the query and ends at the matching place of the result."""
    told = httpx.get(f"{server}/api/explain/image-{pair[0]}/{pair[1]}").json()
    places = compared.locator(".joined image").evaluate_all(
        "(all) => all.map((image) => ['x', 'y', 'width', 'height'].map((name) => Number(image.getAttribute(name))))"
    )
    lines = compared.locator(".joined .match path:first-child").evaluate_all(
        "(all) => all.map((path) => path.getAttribute('d').match(/-?[\\d.]+/g).map(Number))"
    )
    expected = []
    for each in told["pairs"]:
        if each["agrees"]:
            ends = [
                (left + (x + 0.5) * wide / told[side]["width"], top + (y + 0.5) * high / told[side]["height"])
                for side, (x, y), (left, top, wide, high) in zip(
                    ("query", "result"), (each["query"], each["result"]), places, strict=True
                )
            ]
            expected.append([*ends[0], *ends[1]])
    distances = np.abs(np.array(lines)[:, None] - np.array(expected)[None]).max(2).min(1)
    assert distances.max() < 0.2


def test_what_is_drawn_can_be_chosen(compared: Page):
    compared.get_by_label("Matches that agree").uncheck()
    expect(compared.locator(".joined .match").first).to_be_hidden()
    compared.get_by_label("Other matches").check()
    expect(compared.locator(".joined .other")).to_be_attached()
    assert compared.locator(".joined .other").evaluate("(path) => getComputedStyle(path).display") == "inline"
    compared.get_by_label("What both show").uncheck()
    expect(compared.locator(".joined .outline")).to_be_hidden()


def corners(width: float, height: float) -> np.ndarray:
    """Of an image on the screen: its own corner is half a pixel before the centre of the first pixel."""
    return np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float64)


def mapped(transform: np.ndarray, points: np.ndarray) -> np.ndarray:
    found = np.column_stack([points, np.ones(len(points))]) @ transform.T
    return found[:, :2] / found[:, 2:]


def laid_corners(page: Page) -> np.ndarray:
    """Where the browser shows the corners of the result, from the corner of the query."""
    return np.array(
        page.locator(".laid").evaluate(
            """(image) => {
              const matrix = new DOMMatrix(getComputedStyle(image).transform);
              const { clientWidth: width, clientHeight: height } = image;
              return [[0, 0], [width, 0], [width, height], [0, height]].map(([x, y]) => {
                const point = matrix.transformPoint(new DOMPoint(x, y));
                return [point.x / point.w, point.y / point.w];
              });
            }"""
        )
    )


def assert_things_cover_themselves(page: Page, told: dict, scale: float) -> None:
    """By the transform with which the picture was made, for places inside of what both show."""
    outline = np.array(told["overlap"][0])
    points = (outline + outline.mean(0)) / 2
    on_query = (points + 0.5) * scale
    in_result = (mapped(PLANTED, points) + 0.5).tolist()
    shown = page.locator(".laid").evaluate(
        """(image, [points, size]) => {
          const matrix = new DOMMatrix(getComputedStyle(image).transform);
          return points.map(([x, y]) => {
            const place = [x * image.clientWidth / size[0], y * image.clientHeight / size[1]];
            const point = matrix.transformPoint(new DOMPoint(...place));
            return [point.x / point.w, point.y / point.w];
          });
        }""",
        [in_result, [told["result"]["width"], told["result"]["height"]]],
    )
    assert np.abs(np.array(shown) - on_query).max() < 3


def test_the_result_is_laid_over_the_query_where_the_transform_says(compared: Page, server: str, pair: tuple[int, int]):
    """All four corners within a pixel of the screen; and near the transform with which the picture was made."""
    compared.get_by_text("One over the other").click()
    expect(compared).to_have_url(re.compile("how=over"))
    expect(compared.locator(".laid")).to_be_visible()
    told = httpx.get(f"{server}/api/explain/image-{pair[0]}/{pair[1]}").json()
    size = told["query"]["width"], told["query"]["height"]
    shown = compared.locator(".over").bounding_box()
    assert shown
    scale = shown["width"] / size[0]
    assert scale > 1  # else a pixel of the screen would be no strict measure
    in_result = corners(told["result"]["width"], told["result"]["height"]) - 0.5
    expected = (mapped(np.linalg.inv(np.array(told["transform"])), in_result) + 0.5) * scale
    found = laid_corners(compared)
    assert np.abs(found - expected).max() < 1
    assert_things_cover_themselves(compared, told, scale)

    # The element's own box is what the browser has made of the matrix.
    box = compared.locator(".laid").evaluate(
        "(image) => { const box = image.getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom]; }"
    )
    corner = (shown["x"], shown["y"])
    np.testing.assert_allclose(box, [*(expected.min(0) + corner), *(expected.max(0) + corner)], atol=1)


def test_fade_wipe_and_blink(compared: Page):
    compared.get_by_text("One over the other").click()
    laid, window = compared.locator(".laid"), compared.locator(".window")
    expect(laid).to_have_css("opacity", "0.5")
    compared.get_by_label("From query to result").fill("100")
    expect(laid).to_have_css("opacity", "1")
    compared.get_by_text("Wipe").click()
    compared.get_by_label("Edge between result and query").fill("30")
    expect(window).to_have_css("clip-path", "inset(0px 70% 0px 0px)")
    expect(laid).to_have_css("opacity", "1")
    place = compared.locator(".over").bounding_box()
    assert place
    compared.mouse.move(place["x"] + 0.3 * place["width"], place["y"] + 50)
    compared.mouse.down()
    compared.mouse.move(place["x"] + 0.8 * place["width"], place["y"] + 80)
    compared.mouse.up()
    expect(compared.get_by_label("Edge between result and query")).to_have_value("80")
    expect(window).to_have_css("clip-path", "inset(0px 20% 0px 0px)")
    compared.get_by_text("Blink").click()
    expect(laid).to_have_css("opacity", "0")
    expect(laid).to_have_css("opacity", "1")


def test_nothing_blinks_by_itself_where_motion_is_unwanted(compared: Page):
    compared.emulate_media(reduced_motion="reduce")
    compared.get_by_text("One over the other").click()
    compared.get_by_text("Blink").click()
    laid = compared.locator(".laid")
    expect(laid).to_have_css("opacity", "1")
    compared.wait_for_timeout(1500)
    expect(laid).to_have_css("opacity", "1")
    compared.locator(".over").click()
    expect(laid).to_have_css("opacity", "0")


def test_a_comparison_is_no_second_page(compared: Page):
    """Its head is not announced as that of another page."""
    expect(compared.get_by_role("banner", include_hidden=True)).to_have_count(1)
    expect(compared.get_by_role("main", include_hidden=True)).to_have_count(1)


def test_arrow_keys_step_through_the_results(compared: Page, pair: tuple[int, int]):
    numbers = compared.locator(".results .card[data-id]").evaluate_all("cards => cards.map((card) => card.dataset.id)")
    place = numbers.index(str(pair[1]))
    compared.keyboard.press("ArrowRight")
    expect(compared).to_have_url(re.compile(f"compare={numbers[place + 1]}$"))
    expect(compared.get_by_role("dialog")).to_be_visible()
    compared.keyboard.press("ArrowLeft")
    expect(compared).to_have_url(re.compile(f"compare={pair[1]}$"))


def test_a_pair_that_is_awaited_is_not_taken_for_the_one_before(compared: Page):
    held: list[Route] = []
    compared.route("**/api/explain/**", lambda route: held.append(route))
    compared.keyboard.press("ArrowRight")
    assert wait_until(lambda: compared.evaluate("1") and bool(held))
    compared.get_by_text("One over the other").click()
    expect(compared).to_have_url(re.compile("how=over"))
    expect(compared.locator(".compare-body")).to_have_attribute("aria-busy", "true")
    expect(compared.locator(".laid")).to_have_count(0)
    held[0].continue_()
    expect(compared.locator(".compare-body")).not_to_have_attribute("aria-busy", "true")
    expect(compared.locator(".joined")).to_have_count(0)


@pytest.mark.parametrize("leave", ["Escape", "back", "close"])
def test_it_closes_and_the_results_are_as_before(compared: Page, pair: tuple[int, int], leave: str):
    if leave == "Escape":  # twice at once, which is one step back
        compared.locator(".compare").evaluate(
            """(dialog) => [1, 2].forEach(() => dialog.dispatchEvent(
              new KeyboardEvent("keydown", { key: "Escape", bubbles: true, cancelable: true })))"""
        )
    elif leave == "back":
        compared.go_back()
    else:
        compared.get_by_role("button", name="Close").click()
    expect(compared.get_by_role("dialog")).to_have_count(0)
    expect(compared).to_have_url(re.compile(rf"\?query=image-{pair[0]}$"))
    expect(compared.locator(f'.card[data-id="{pair[1]}"] .open')).to_be_focused()


def test_an_address_of_a_comparison_can_be_shared(page: Page, server: str, pair: tuple[int, int]):
    page.goto(f"{server}/?query=image-{pair[0]}&compare={pair[1]}&how=over")
    expect(page.locator(".laid")).to_be_visible()
    expect(page.get_by_role("button", name="Next result")).to_have_attribute("aria-disabled", "false")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".results .card:not(.skeleton)").first).to_be_visible()


def test_without_a_transform_it_says_so(page: Page, server: str, ids: dict[str, int]):
    page.goto(
        f"{server}/?query=image-{ids['map/original.jpg']}&box=0,0,150,150&compare={ids['flower/close.jpg']}&how=over"
    )
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("one cannot be laid over the other")
    expect(dialog.get_by_role("slider")).to_have_count(0)
    expect(dialog.get_by_role("radio")).to_have_count(2)
    dialog.get_by_text("Side by side").click()
    expect(dialog.locator(".joined")).to_be_visible()
    expect(dialog.get_by_label("Matches that agree")).to_be_visible()
