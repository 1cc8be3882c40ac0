"""A photograph by the camera of a laptop: seen before it is taken, and the camera is off afterwards."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, JSHandle, Locator, Page, expect

from browsing import Watch, assert_looks_right, launched, opened
from processes import wait_until

CAMERA = "--use-fake-device-for-media-stream"
"""Chromium draws what it sees."""
ALLOWED = "--use-fake-ui-for-media-stream"


@pytest.fixture(scope="module")
def with_camera(chromium: Browser) -> Iterator[Browser]:
    with launched(chromium.browser_type, CAMERA, ALLOWED) as browser:
        yield browser


@pytest.fixture(params=[390, 1600])
def laptop(request: pytest.FixtureRequest, with_camera: Browser, watch: Watch, server: str) -> Iterator[Page]:
    """Its window can be narrow."""
    with opened(with_camera, watch, viewport={"width": request.param, "height": 1000}) as page:
        page.goto(server)
        yield page


def camera_button(page: Page) -> Locator:
    return page.get_by_role("button", name="Take a photograph")


def camera_of(page: Page) -> JSHandle:
    """The camera, once it shows something."""
    expect(page.get_by_role("button", name="Take it")).to_be_enabled()
    return page.locator("video").evaluate_handle("(video) => video.srcObject.getVideoTracks()[0]")


def assert_is_off(camera: JSHandle) -> None:
    assert wait_until(lambda: camera.evaluate("(track) => track.readyState") == "ended")


def test_a_photograph_is_taken_and_searched_with(laptop: Page):
    expect(camera_button(laptop)).to_be_visible()
    width = laptop.evaluate("innerWidth")
    expect(laptop.locator(".start-cards .card:not(.skeleton)").first).to_be_visible()
    assert_looks_right(laptop, f"start-camera-{width}")
    camera_button(laptop).click()
    camera = camera_of(laptop)
    assert_looks_right(laptop, f"camera-{width}")
    laptop.get_by_role("button", name="Take it").press("Enter")
    expect(laptop).to_have_url(re.compile(r"\?query=upload-[0-9a-f]{32}$"))
    expect(laptop.locator(".query .name")).to_have_text("photograph.jpg")
    expect(laptop.locator(".query .detail").first).to_contain_text("local features")
    expect(laptop.get_by_role("dialog")).to_have_count(0)
    assert_is_off(camera)


@pytest.mark.parametrize("by", ["button", "key"])
def test_the_camera_is_off_when_its_dialog_is_closed(laptop: Page, by: str):
    camera_button(laptop).click()
    camera = camera_of(laptop)
    if by == "key":
        laptop.keyboard.press("Escape")
    else:
        laptop.get_by_role("button", name="Cancel").click()
    expect(laptop.get_by_role("dialog")).to_have_count(0)
    expect(camera_button(laptop)).to_be_focused()
    assert_is_off(camera)


def test_a_camera_that_is_not_allowed_is_explained(chromium: Browser, watch: Watch, server: str):
    with launched(chromium.browser_type, CAMERA) as browser, opened(browser, watch) as page:
        page.context.grant_permissions([])
        page.goto(server)
        camera_button(page).click()
        expect(page.get_by_role("alert")).to_contain_text("does not let this page use the camera: allow it")
        expect(page.get_by_role("button", name="Take it")).to_be_disabled()
        assert_looks_right(page, "camera-refused")


def test_a_computer_without_a_camera_is_offered_none(page: Page, server: str):
    page.goto(server)
    expect(page.locator(".start-cards .card:not(.skeleton)").first).to_be_visible()
    assert page.evaluate("navigator.mediaDevices.enumerateDevices()") == []
    expect(camera_button(page)).to_be_hidden()


def test_a_phone_has_a_camera_of_its_own(with_camera: Browser, watch: Watch, server: str):
    with opened(with_camera, watch, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True) as phone:
        phone.goto(server)
        expect(phone.get_by_text("Take a photograph").locator("visible=true")).to_have_count(1)
        expect(phone.locator("label.camera")).to_be_visible()
