"""Pages in the browser, and what none of them may do."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, BrowserType, ConsoleMessage, Page, Request, expect

SCREENSHOTS = Path(__file__).parents[1] / "build" / "screenshots"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
PATIENCE = 20_000
"""Milliseconds that a test waits for what it expects: machines that run tests are busy."""

expect.set_options(timeout=PATIENCE)


class Watch:
    """What no page may do."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.expected: tuple[str, ...] = ()
        """Parts of errors that a test causes on purpose."""

    def over(self, context: BrowserContext) -> None:
        context.on("console", self._console)
        context.on("weberror", lambda error: self.faults.append(f"uncaught: {error.error}"))
        context.on("request", self._request)

    def assert_nothing(self) -> None:
        assert [fault for fault in self.faults if not any(part in fault for part in self.expected)] == []

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "blob:http://127.0.0.1:", "data:")):
            self.faults.append(f"request to {request.url}")


@contextmanager
def launched(chromium: BrowserType, *flags: str) -> Iterator[Browser]:
    browser = chromium.launch(executable_path=CHROMIUM, args=flags)
    yield browser
    browser.close()


@contextmanager
def opened(chromium: Browser, watch: Watch, **options: Any) -> Iterator[Page]:
    """A page of a new context: with nothing kept from others."""
    chosen: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}, **options}
    context = chromium.new_context(**chosen)
    context.set_default_timeout(PATIENCE)
    watch.over(context)
    yield context.new_page()
    context.close()


def assert_looks_right(page: Page, name: str) -> None:
    """Nothing scrolls sideways, axe-core finds nothing serious; a screenshot is kept to be looked at."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.evaluate("innerWidth")
    assert_accessible(page)


def assert_accessible(page: Page) -> None:
    """axe-core finds nothing serious in what is shown now."""
    found = Axe().run(page).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [f"{each['id']}: {each['nodes'][0]['html']}" for each in serious] == []
