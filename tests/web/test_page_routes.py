"""The page as it is served: its HTML, and the files that it loads."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import faemb.pages
import faemb.web
from faemb.web.routes.page import SHARED_STYLES
from faemb.web.settings import ServerSettings
from served import serving
from small_collections import make_collection

STATIC = Path(faemb.web.__path__[0]) / "static"
SCRIPTS = sorted((STATIC / "js").glob("*.js"))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = make_collection(tmp_path_factory.mktemp("page") / "a & <b>", ["a.png", "b.png"])
    with serving(ServerSettings(folder / "photos.faemb", jobs=1)) as made:
        yield made


def loaded(html: str) -> list[str]:
    """Addresses that the page loads."""
    return re.findall(r'(?:src|href)="(/static/[^"]+)"', html)


def test_everything_that_the_page_loads_is_there(client: httpx.Client):
    html = client.get("/").text
    assert len(loaded(html)) > 20
    for address in loaded(html):
        assert client.get(address).status_code == 200, address


def test_nothing_runs_or_is_styled_inside_the_html(client: httpx.Client):
    """The Content-Security-Policy would stop it."""
    html = client.get("/").text
    assert re.findall(r"<script(?![^>]*\ssrc=)", html) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", html) == []


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("/static/js/main.js", "text/javascript"),
        ("/static/css/1-page.css", "text/css"),
        ("/static/base.css", "text/css"),
        ("/static/favicon.svg", "image/svg+xml"),
        ("/favicon.ico", "image/svg+xml"),
        ("/", "text/html"),
    ],
)
def test_types(client: httpx.Client, address: str, kind: str):
    assert client.get(address).headers["content-type"].split(";")[0] == kind


@pytest.mark.parametrize("style", SHARED_STYLES)
def test_styles_are_those_of_the_pages_in_files(client: httpx.Client, style: str):
    content = (Path(faemb.pages.__path__[0]) / "templates" / style).read_text()
    assert client.get(f"/static/{style}").text == content
    assert "{%" not in content  # served as it is


def test_a_browser_loads_a_file_once(client: httpx.Client):
    first = client.get("/static/js/main.js")
    again = client.get("/static/js/main.js", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304
    assert first.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path",
    [
        "../app.py",
        "%2e%2e/app.py",
        "js/../../app.py",
        "answers.html",
        "page.html",
        "js",
        "",
        "js/none.js",
        "//etc/passwd",
    ],
)
def test_no_other_file_is_served(client: httpx.Client, path: str):
    answer = client.get(f"/static/{path}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_name_of_the_collection_is_text(tmp_path: Path):
    folder = make_collection(tmp_path, ["a.png"])
    named = (folder / "photos.faemb").rename(folder / '<img src=x onerror="run()">.faemb')
    with serving(ServerSettings(named, jobs=1)) as client:
        html = client.get("/").text
    assert "<img src=x" not in html
    assert "&lt;img src=x onerror=&#34;run()&#34;&gt;" in html


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_make_no_markup_of_data(script: Path):
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function", script.read_text()
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_words_stand_in_one_module(script: Path):
    """So that they can be translated: other modules hold no sentences."""
    if script.name == "words.js":
        return
    code = re.sub(r"/\*.*?\*/|//.*", "", script.read_text(), flags=re.S)
    assert re.findall(r'"[A-Z][a-z]+ [a-z][^"]*"', code) == []
