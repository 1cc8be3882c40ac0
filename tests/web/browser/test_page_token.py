"""The page that asks for the token of a server: seen, and what it leads to."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from browsing import Watch, assert_looks_right
from served import served

TOKEN = "only-for-the-family"  # noqa: S105, of a server of this test


@pytest.fixture(scope="module")
def guarded(gallery: Path) -> Iterator[str]:
    with served(gallery / "gallery.faemb", FAEMB_TOKEN=TOKEN) as process:
        yield process.address.rstrip("/")


@pytest.fixture(autouse=True)
def refusals(watch: Watch) -> None:
    watch.expected = ("401",)


@pytest.mark.parametrize("state", ["asked", "wrong"])
def test_it_looks_like_the_other_pages(looking: tuple[str, Page], guarded: str, state: str):
    name, page = looking
    page.goto(f"{guarded}/?token=wrong-one" if state == "wrong" else guarded)
    expect(page.get_by_label("Token")).to_be_focused()
    expect(page.get_by_role("alert")).to_have_count(int(state == "wrong"))
    expect(page.get_by_role("button")).to_have_css("border-radius", "9px")
    assert_looks_right(page, f"token-{state}-{name}")


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/", {"view": "browse", "name": '"><b>close & more'}),
        ("/", {"query": "image-3", "box": "1,2,99,99"}),
        ("/api", {}),
    ],
    ids=["list", "search", "api"],
)
def test_an_address_that_was_shared_is_not_lost(page: Page, guarded: str, path: str, fields: dict[str, str]):
    """Also after a token that was wrong; and the token itself is not in the address."""
    address = guarded + path + ("?" + urlencode(fields, safe=",") if fields else "")
    page.goto(address)
    for token in ("a-wrong-token", TOKEN):
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Open the collection").click()
        page.wait_for_load_state()
    expect(page).to_have_url(address)
    expect(page.get_by_role("heading", level=1).first).not_to_have_text("Token needed")


def test_the_token_is_sent_to_this_server_alone(page: Page, guarded: str):
    """An address with two slashes would name another host."""
    page.goto(f"{guarded}//elsewhere.example/?view=browse")
    assert page.locator("form").evaluate("(form) => form.action") == f"{guarded}/elsewhere.example"
