"""Every view at the sizes of a phone and of a wide screen, light and dark: seen, and read by axe-core."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browsing import assert_accessible, assert_looks_right
from faemb.collection import Collection
from faemb.web.settings import ServerSettings
from served import serving
from small_collections import make_collection

VIEWS = {
    "start": "/",
    "results": "/?query=image-{palace}",
    "box": "/?query=image-{palace}&box=120,60,480,330",
    "compare": "/?query=image-{before}&compare={after}",
    "over": "/?query=image-{before}&compare={after}&how=over",
    "over-impossible": "/?query=image-{map}&box=0,0,150,150&compare={flower}&how=over",
    "browse": "/?view=browse",
    "groups": "/?view=groups&same_thing=1",
    "collection": "/?view=state",
    "add": "/?view=add",
    "jobs": "/?view=jobs",
    "api": "/api",
}


def show(page: Page, address: str, ids: dict[str, int]) -> None:
    named = {
        "palace": ids["palace/original.jpg"],
        "map": ids["map/original.jpg"],
        "flower": ids["flower/close.jpg"],
        "before": ids["planted/before.png"],
        "after": ids["planted/after.png"],
    }
    page.goto(address.format(**named))
    page.wait_for_load_state("networkidle")
    expect(page.locator("[aria-busy]")).to_have_count(0)
    expect(page.locator(".skeleton")).to_have_count(0)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view(looking: tuple[str, Page], view: str, writable: str, ids: dict[str, int]):
    """Nothing scrolls sideways, axe-core finds nothing serious, and a screenshot is kept."""
    name, page = looking
    show(page, writable + VIEWS[view], ids)
    assert_looks_right(page, f"{view}-{name}")
    assert_headings_follow_each_other(page)


SLOWLY = {"offline": False, "latency": 150, "downloadThroughput": -1, "uploadThroughput": -1}
SHIFTS = """() => new Promise((done) => new PerformanceObserver((list) =>
  done(list.getEntries().filter((entry) => !entry.hadRecentInput).map(
    (entry) => [entry.value, entry.sources.map((source) => source.node?.outerHTML?.slice(0, 100)).join()]))
).observe({ type: "layout-shift", buffered: true }) || setTimeout(() => done([]), 500))"""
"""What has moved by itself, and what it was."""


@pytest.mark.parametrize("looking", ["390-light", "1600-light"], indirect=True)
@pytest.mark.parametrize("view", VIEWS)
def test_nothing_moves_while_a_view_comes(looking: tuple[str, Page], view: str, writable: str, ids: dict[str, int]):
    """Each answer takes a while, so that the view is seen before it."""
    _, page = looking
    page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", SLOWLY)
    show(page, writable + VIEWS[view], ids)
    shifts = page.evaluate(SHIFTS)
    assert sum(value for value, _ in shifts) < 0.01, shifts


def assert_headings_follow_each_other(page: Page) -> None:
    """From the first level on, and none is left out on the way down, as those who jump by headings expect."""
    headings = page.locator("h1, h2, h3, h4").evaluate_all(
        "(all) => all.map((heading) => [Number(heading.tagName[1]), heading.textContent])"
    )
    assert headings[0][0] == 1
    left_out = [lower for upper, lower in pairwise(headings) if lower[0] > upper[0] + 1]
    assert left_out == []


def test_dark_is_dark(looking: tuple[str, Page], server: str):
    name, page = looking
    page.goto(server)
    colour = page.locator("body").evaluate("(body) => getComputedStyle(body).backgroundColor")
    red = int(re.findall(r"\d+", colour)[0])
    assert red < 60 if name.endswith("dark") else red > 200


def test_every_control_is_reached_and_seen_by_keyboard(page: Page, server: str, ids: dict[str, int]):
    show(page, server + VIEWS["results"], ids)
    reached = []
    for _ in range(24):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                """() => {
                  const focused = document.activeElement;
                  const seen = [focused, focused.closest("label")].some(
                    (each) => each && getComputedStyle(each).outlineStyle !== "none");
                  return [focused.tagName, focused.getAttribute("aria-label") ?? focused.textContent.trim(), seen];
                }"""
            )
        )
    assert [each for each in reached if not each[2]] == []
    names = [each[1] for each in reached]
    assert names[0] == "Skip to the content"
    assert any("Query picture" in name for name in names)
    assert any(name.startswith("Compare") for name in names)


def test_the_first_link_skips_to_the_content(page: Page, server: str):
    page.goto(f"{server}/?view=browse")
    expect(page.locator(".endless .card:not(.skeleton)").first).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    expect(page).to_have_url(f"{server}/?view=browse")


def test_headings_and_landmarks(page: Page, server: str, ids: dict[str, int]):
    show(page, server + VIEWS["results"], ids)
    expect(page.get_by_role("banner")).to_have_count(1)
    expect(page.get_by_role("main")).to_have_count(1)
    expect(page.get_by_role("navigation", name="Views")).to_have_count(1)
    expect(page.locator("h1")).to_have_count(1)
    expect(page.get_by_role("navigation").get_by_role("link", name="Search")).to_have_attribute("aria-current", "page")


def test_words_of_a_collection_and_of_its_results(page: Page, server: str, ids: dict[str, int]):
    """What is shown names what is in use, and claims nothing where there is nothing to claim."""
    page.goto(f"{server}/?view=state")
    expect(page.get_by_text("each query is compared with every picture")).to_be_visible()
    show(page, server + VIEWS["results"], ids)
    expect(page.locator(".results .claim.unsure").last).to_have_text("Confidence")
    show(page, server + VIEWS["over-impossible"], ids)
    expect(page.locator(".verdict")).to_have_text("Not confirmed: confidence 0 %")


def test_a_model_that_cannot_be_used_is_told(page: Page, tmp_path: Path):
    """Another process has learned it again while the server ran, and its file is damaged."""
    collection = make_collection(tmp_path, ["a.png", "b.png"]) / "photos.faemb"
    with serving(ServerSettings(collection, jobs=1)) as client:
        page.goto(f"{client.base_url}/?view=state")
        expect(page.get_by_text("2 pictures, 2 can be found")).to_be_visible()
        expect(page.locator(".problem")).to_have_count(0)
        with Collection.open(collection) as photos:
            photos.relearn()
            photos.layout.model(photos._catalogue.in_use().model).write_bytes(b"no model")
        page.reload()
        expect(page.locator(".problem")).to_contain_text("is not a faemb model")
        assert_accessible(page)
        page.close()  # it asks the server now and then
