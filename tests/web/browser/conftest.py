"""A real browser, and a real server on a small gallery. No test may leave an error in the console or ask another host."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from gallery import make_gallery
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from served import served

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
PATIENCE = 20_000
"""Milliseconds that a test waits for what it expects: machines that run tests are busy."""

expect.set_options(timeout=PATIENCE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_gallery(tmp_path_factory.mktemp("gallery"))


@pytest.fixture(scope="session")
def server(gallery: Path) -> Iterator[str]:
    """Only for reading."""
    with served(gallery / "gallery.faemb") as process:
        yield process.address.rstrip("/")


@pytest.fixture(scope="module")
def own_gallery(gallery: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that tests of this module may change."""
    return Path(shutil.copytree(gallery, tmp_path_factory.mktemp("own") / "copy"))


@pytest.fixture(scope="module")
def writable(own_gallery: Path) -> Iterator[str]:
    with served(own_gallery / "gallery.faemb", "--writable") as process:
        yield process.address.rstrip("/")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


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


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    yield made
    made.assert_nothing()


@contextmanager
def opened(chromium: Browser, watch: Watch, **options: object) -> Iterator[Page]:
    """A page of a new context: with nothing kept from others."""
    context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE)
    watch.over(context)
    yield context.new_page()
    context.close()


@pytest.fixture
def page(chromium: Browser, watch: Watch) -> Iterator[Page]:
    with opened(chromium, watch) as made:
        yield made


@pytest.fixture(scope="session")
def ids(server: str) -> dict[str, int]:
    """Numbers of the images of the gallery, by folder and name."""
    found = httpx.get(f"{server}/api/images", params={"limit": 500}).json()["images"]
    return {f"{os.path.basename(each['folder'])}/{each['name']}": each["id"] for each in found}
