"""The box on the query, by mouse, touch and keyboard; it is searched with as soon as it is let go."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from browsing import SCREENSHOTS, Watch, opened
from faemb.collection import Collection
from faemb.web.settings import ServerSettings
from processes import wait_until
from served import serving


@pytest.fixture
def asked(page: Page, server: str, ids: dict[str, int]) -> Page:
    page.goto(f"{server}/?query=image-{ids['palace/original.jpg']}")
    expect(page.locator(".results .card:not(.skeleton)").first).to_be_visible()
    return page


def box_in_address(page: Page) -> list[int]:
    expect(page).to_have_url(re.compile(r"box=\d+,\d+,\d+,\d+"))
    found = re.search(r"box=([\d,]+)", page.url)
    assert found
    return [int(corner) for corner in found[1].split(",")]


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    """From one place of the picture to another, as parts of its sides."""
    place = page.locator(".surface").bounding_box()
    assert place
    at = [(place["x"] + x * place["width"], place["y"] + y * place["height"]) for x, y in (start, end)]
    page.mouse.move(*at[0])
    page.mouse.down()
    page.mouse.move(*at[1], steps=4)
    page.mouse.up()


def assert_near(box: list[int], expected: tuple[float, float, float, float], size: tuple[int, int]) -> None:
    """Within two pixels of the screen, which are fewer than four of the picture."""
    for corner, part, side in zip(box, expected, (*size, *size), strict=True):
        assert abs(corner - part * side) < 5, (box, expected)


SIZE = (640, 427)


def test_box_by_mouse_drawn_moved_and_resized(asked: Page):
    drag(asked, (0.2, 0.2), (0.6, 0.7))
    assert_near(box_in_address(asked), (0.2, 0.2, 0.6, 0.7), SIZE)
    expect(asked.locator(".query .detail").first).to_contain_text("in the box")
    drag(asked, (0.4, 0.45), (0.5, 0.35))
    expect(asked).to_have_url(re.compile("box=19[0-9]"))
    assert_near(box_in_address(asked), (0.3, 0.1, 0.7, 0.6), SIZE)
    drag(asked, (0.7, 0.6), (0.9, 0.8))
    expect(asked).to_have_url(re.compile(r"box=\d+,\d+,57"))
    assert_near(box_in_address(asked), (0.3, 0.1, 0.9, 0.8), SIZE)
    asked.go_back()
    assert_near(box_in_address(asked), (0.3, 0.1, 0.7, 0.6), SIZE)
    asked.get_by_role("button", name="Remove the box").click()
    expect(asked).not_to_have_url(re.compile("box="))
    expect(asked.locator(".query .detail").first).not_to_contain_text("in the box")


def test_a_click_is_no_box(asked: Page):
    drag(asked, (0.5, 0.5), (0.503, 0.503))
    expect(asked.locator(".box-frame")).to_be_hidden()
    expect(asked).not_to_have_url(re.compile("box="))


def test_a_box_from_the_address_is_drawn_where_it_is(page: Page, server: str, ids: dict[str, int]):
    page.goto(f"{server}/?query=image-{ids['palace/original.jpg']}&box=64,43,319,212")
    expect(page.locator(".query .detail").first).to_contain_text("in the box")
    frame, surface = (page.locator(each).bounding_box() for each in (".box-frame", ".surface"))
    assert frame
    assert surface
    scale = surface["width"] / SIZE[0]
    assert abs(frame["x"] - surface["x"] - 64 * scale) < 1
    assert abs(frame["width"] - 256 * scale) < 1
    assert abs(frame["height"] - 170 * scale) < 1


def test_box_by_keyboard(asked: Page):
    """Start, move, resize, search, remove; each step is said."""
    picture = asked.get_by_role("application")
    said = asked.locator("#said")
    picture.focus()
    asked.keyboard.press("Enter")
    expect(said).to_have_text("Box from 160, 107 to 479, 319: 25 % of the picture.")
    expect(asked).not_to_have_url(re.compile("box="))
    for _ in range(3):
        asked.keyboard.press("ArrowLeft")
    asked.keyboard.press("ArrowUp")
    asked.keyboard.press("Shift+ArrowRight")
    asked.keyboard.press("Shift+ArrowDown")
    expect(said).to_contain_text("Box from 121, 98 to 453, 319")
    asked.keyboard.press("Enter")
    assert box_in_address(asked) == [121, 98, 453, 319]
    expect(asked.locator(".query .detail").first).to_contain_text("in the box")
    expect(picture).to_be_focused()
    asked.keyboard.press("Escape")
    expect(said).not_to_contain_text("Box from")
    expect(asked).not_to_have_url(re.compile("box="))


def test_a_box_stays_inside_the_picture(asked: Page):
    asked.get_by_role("application").focus()
    asked.keyboard.press("Enter")
    for _ in range(40):
        asked.keyboard.press("ArrowRight")
        asked.keyboard.press("Shift+ArrowDown")
    asked.keyboard.press("Enter")
    x1, _, x2, y2 = box_in_address(asked)
    assert (x2, y2) == (SIZE[0] - 1, SIZE[1] - 1)
    assert x2 - x1 == 319


def test_a_box_without_features_is_explained(asked: Page, server: str, ids: dict[str, int]):
    asked.goto(f"{server}/?query=image-{ids['palace/original.jpg']}&box=0,0,3,3")
    expect(asked.locator(".results .summary")).to_contain_text("The box holds no local features")


@pytest.fixture
def phone(chromium: Browser, watch: Watch) -> Iterator[Page]:
    with opened(chromium, watch, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True) as made:
        yield made


def swipe(page: Page, *path: tuple[float, float]) -> None:
    """With one finger, over places of the picture as parts of its sides."""
    place = page.locator(".surface").bounding_box()
    assert place
    fingers = page.context.new_cdp_session(page)
    for number, (x, y) in enumerate(path):
        at = {"x": place["x"] + x * place["width"], "y": place["y"] + y * place["height"]}
        kind = "touchMove" if number else "touchStart"
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [at]})
    fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def is_at_rest(page: Page) -> bool:
    """A page goes on scrolling after a swipe, and a touch then stops it, and does nothing else."""
    return bool(
        page.evaluate("new Promise((tell) => { const y = scrollY; setTimeout(() => tell(y === scrollY), 300); })")
    )


def test_a_finger_scrolls_the_page_and_draws_a_box_after_a_button(phone: Page, server: str, ids: dict[str, int]):
    phone.goto(f"{server}/?query=image-{ids['palace/original.jpg']}")
    expect(phone.locator(".results .card:not(.skeleton)").first).to_be_attached()
    swipe(phone, (0.5, 0.9), (0.5, 0.7), (0.55, 0.4), (0.6, 0.1))
    assert wait_until(lambda: phone.evaluate("scrollY > 50"))
    expect(phone.locator(".box-frame")).to_be_hidden()
    expect(phone).not_to_have_url(re.compile("box="))
    assert wait_until(lambda: is_at_rest(phone))
    phone.evaluate("scrollTo(0, 0)")
    phone.get_by_role("button", name="Draw a box").tap()
    swipe(phone, (0.25, 0.25), (0.5, 0.5), (0.75, 0.75))
    assert_near(box_in_address(phone), (0.25, 0.25, 0.75, 0.75), SIZE)
    expect(phone.get_by_role("button", name="Draw a box")).to_be_hidden()
    swipe(phone, (0.75, 0.75), (0.8, 0.8), (0.9, 0.85))
    expect(phone).to_have_url(re.compile(r"box=\d+,\d+,57"))
    assert_near(box_in_address(phone), (0.25, 0.25, 0.9, 0.85), SIZE)


def test_a_box_on_a_query_whose_picture_is_away(page: Page, watch: Watch, gallery: Path, tmp_path: Path):
    """That is known before its size: the frame is shown, without a picture, as soon as a box can be drawn."""
    watch.expected = ("404",)
    shutil.copytree(gallery / "images" / "palace", tmp_path / "images")
    with Collection.create(tmp_path / "palace.faemb", Collection.open(gallery / "gallery.faemb").model) as collection:
        collection.make_thumbnails = False
        collection.add(tmp_path / "images")
    (tmp_path / "images" / "original.jpg").unlink()
    held: list[Route] = []
    page.route("**/api/search", lambda route: held.append(route))
    with serving(ServerSettings(tmp_path / "palace.faemb", jobs=1)) as client:
        images = client.get("/api/images").json()["images"]
        away = next(image["id"] for image in images if image["name"] == "original.jpg")
        page.goto(f"{client.base_url}?query=image-{away}")
        expect(page.get_by_text("The picture cannot be shown.")).to_be_visible()
        expect(page.locator(".surface")).to_be_hidden()
        assert wait_until(lambda: page.evaluate("1") and bool(held))
        held.pop().continue_()
        page.unroute("**/api/search")
        expect(page.locator(".surface")).to_be_visible()
        expect(page.locator(".query .detail").first).to_contain_text("The picture cannot be shown.")
        drag(page, (0.2, 0.2), (0.6, 0.7))
        assert_near(box_in_address(page), (0.2, 0.2, 0.6, 0.7), SIZE)
        expect(page.locator(".query .detail").first).to_contain_text("in the box")
        page.screenshot(path=SCREENSHOTS / "box-without-picture.png")
        page.close()  # it asks the server now and then
