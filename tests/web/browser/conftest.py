"""A real browser and a real server on a small gallery. No test may leave errors in the console or ask other hosts."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from browsing import Watch, launched, opened
from gallery import make_gallery
from served import served

SIZES = {390: {"has_touch": True, "is_mobile": True, "device_scale_factor": 2}, 1600: {}}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_gallery(tmp_path_factory.mktemp("gallery"))


@pytest.fixture(scope="session")
def untouched(gallery: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that no server has open: files of a database come and go beside one that is in use."""
    return Path(shutil.copytree(gallery, tmp_path_factory.mktemp("untouched") / "copy"))


@pytest.fixture(scope="session")
def server(gallery: Path, untouched: Path) -> Iterator[str]:
    """Only for reading."""
    with served(gallery / "gallery.faemb") as process:
        yield process.address.rstrip("/")


@pytest.fixture(scope="module")
def own_gallery(untouched: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that tests of this module may change."""
    return Path(shutil.copytree(untouched, tmp_path_factory.mktemp("own") / "copy"))


@pytest.fixture(scope="module")
def writable(own_gallery: Path) -> Iterator[str]:
    with served(own_gallery / "gallery.faemb", "--writable") as process:
        yield process.address.rstrip("/")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as driver, launched(driver.chromium) as browser:
        yield browser


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    yield made
    made.assert_nothing()


@pytest.fixture(params=[f"{width}-{scheme}" for width in SIZES for scheme in ("light", "dark")])
def looking(request: pytest.FixtureRequest, chromium: Browser, watch: Watch) -> Iterator[tuple[str, Page]]:
    width, scheme = request.param.split("-")
    size = {"width": int(width), "height": 844 if int(width) < 600 else 1000}
    with opened(chromium, watch, viewport=size, color_scheme=scheme, **SIZES[int(width)]) as page:
        yield request.param, page


@pytest.fixture
def page(chromium: Browser, watch: Watch) -> Iterator[Page]:
    with opened(chromium, watch) as made:
        yield made


@pytest.fixture(scope="session")
def ids(server: str) -> dict[str, int]:
    """Numbers of the images of the gallery, by folder and name."""
    found = httpx.get(f"{server}/api/images", params={"limit": 500}).json()["images"]
    return {f"{os.path.basename(each['folder'])}/{each['name']}": each["id"] for each in found}
