"""About the server: facts, health, numbers, and the page of its API."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import faemb
from faemb.collection import Collection
from faemb.web.settings import ServerSettings
from html_pages import Page
from processes import wait_until
from served import serving
from small_collections import make_collection, working_here


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two images and a file that is none."""
    folder = make_collection(tmp_path_factory.mktemp("about"), ["a.png", "b.png"])
    (folder / "photos" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    with working_here(), Collection.open(folder / "photos.faemb") as photos:
        photos.update()
    return folder


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    with serving(ServerSettings(folder / "photos.faemb", jobs=1, most_bytes=10_000)) as client:
        yield client


def number(client: httpx.Client, name: str, **labels: str) -> float:
    families = text_string_to_metric_families(client.get("/metrics").text)
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())


def test_facts_are_those_of_the_collection(client, folder):
    told = client.get("/api/info").json()
    with Collection.open(folder / "photos.faemb") as photos:
        known = photos.info()
    for name in ("images", "searchable", "folders", "encoder", "extractor", "dimension", "index", "keeps_features"):
        assert told[name] == getattr(known, name), name
    assert (told["name"], told["images"], told["writable"]) == ("photos", 2, False)
    assert (told["most_bytes"], told["version"]) == (10_000, faemb.__version__)
    (unreadable,) = told["unreadable"]
    assert unreadable["name"] == str(folder / "photos" / "broken.png")
    assert unreadable["reason"]


def test_health(client):
    assert client.get("/healthz").json() == {"status": "ok"}


def test_requests_are_counted_by_route_method_and_status(client):
    one = {"route": "/api/images/{id}", "method": "GET", "status": "200"}
    missing = one | {"status": "404"}
    before = [number(client, "faemb_requests_total", **labels) for labels in (one, missing)]
    client.get("/api/images/1")
    client.get("/api/images/2")
    client.get("/api/images/77")
    after = [number(client, "faemb_requests_total", **labels) for labels in (one, missing)]
    assert [later - earlier for earlier, later in zip(before, after, strict=True)] == [2, 1]
    assert number(client, "faemb_request_seconds_count", route="/api/images/{id}") >= 3
    assert number(client, "faemb_images") == 2
    assert number(client, "faemb_waiting", thread="searching") == 0
    assert number(client, "faemb_requests_in_flight") == 1  # that of the numbers themselves


def test_visitors_cannot_make_new_labels(client):
    for name in ("one", "two", "three"):
        client.request(name.upper(), f"/{name}")
    assert number(client, "faemb_requests_total", route="other", method="other") >= 3
    page = client.get("/metrics").text
    assert "/one" not in page
    assert "TWO" not in page


def test_each_application_has_numbers_of_its_own(client, folder):
    with serving(ServerSettings(folder / "photos.faemb", jobs=1)) as other:
        assert number(other, "faemb_requests_total", route="/healthz") == 0
        other.get("/healthz")
        assert wait_until(lambda: number(other, "faemb_requests_total", route="/healthz") == 1)


def test_the_api_is_explained_on_a_page_of_its_own(client):
    page = Page(client.get("/api").text)
    paths = {tuple(text.split()) for text in page.texts("h2")}
    assert {("POST", "/api/search"), ("GET", "/api/explain/{query}/{id}"), ("GET", "/api/images/{id}")} <= paths
    described = client.get("/openapi.json").json()["paths"]
    assert {path for _, path in paths} == set(described)
    assert any(text.startswith("least_confidence") for text in page.texts("dt"))
    assert page.attributes("script") == []
    hosts = [each.get("href", "") for tag in ("a", "link") for each in page.attributes(tag)]
    assert all(host.startswith("/") for host in hosts)


def test_errors_and_pictures_are_described_as_they_are_sent(client):
    paths = client.get("/openapi.json").json()["paths"]
    for path, media in (
        ("/api/images/{id}/thumbnail", "image/jpeg"),
        ("/api/images/{id}/file", "application/octet-stream"),
    ):
        responses = paths[path]["get"]["responses"]
        assert list(responses["200"]["content"]) == [media]
        assert list(responses["4XX"]["content"]) == ["application/problem+json"]


def test_a_model_that_cannot_be_used_any_more_is_told(tmp_path):
    """Another process has learned it again, and its file is damaged."""
    collection = make_collection(tmp_path, ["a.png", "b.png"]) / "photos.faemb"
    with serving(ServerSettings(collection, jobs=1)) as client:
        assert client.get("/api/info").json()["model_fault"] is None
        with Collection.open(collection) as photos:
            photos.relearn()
            photos.layout.model(photos._catalogue.in_use().model).write_bytes(b"no model")
        told = client.get("/api/info").json()
        assert "is not a faemb model" in told["model_fault"]
        assert "--repair" in told["model_fault"]
        assert told["images"] == 2
