"""A server of a collection whose images lie on another server."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import PIL.Image
import pytest

from elsewhere import served
from faemb.collection import Collection
from pictures import picture, pixels
from small_collections import tiny_model
from writable_server import problem, send, writable


@pytest.fixture
def far(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """The address of a server with two pictures, and the requests that it gets."""
    picture(tmp_path / "far" / "album" / "a.png", 1)
    picture(tmp_path / "far" / "album" / "trip" / "b.png", 2)
    with served(tmp_path / "far") as running:
        yield running


@pytest.fixture
def client(tmp_path: Path, far: tuple[str, list[str]], in_this_process: None) -> Iterator[httpx.Client]:
    with Collection.create(tmp_path / "c.faemb", tiny_model()) as photos:
        photos.add(f"{far[0]}/album")
    far[1].clear()
    with writable(tmp_path / "c.faemb") as client:
        yield client


def test_lists_and_thumbnails_need_no_other_server(client, far):
    server, asked = far
    images = client.get("/api/images").json()["images"]
    assert [(image["folder"], image["name"]) for image in images] == [
        (f"{server}/album", "a.png"),
        (f"{server}/album/trip", "b.png"),
    ]
    folders = {each["folder"]: each["images"] for each in client.get("/api/folders").json()["folders"]}
    assert folders == {f"{server}/album": 2, f"{server}/album/trip": 1}
    for image in images:
        assert client.get(f"/api/images/{image['id']}").json()["available"]
        assert client.get(f"/api/images/{image['id']}/thumbnail").headers["content-type"] == "image/jpeg"
    found = client.post("/api/search", data={"query": f"image-{images[0]['id']}"})
    assert found.status_code == 200, found.text
    assert asked == []


def test_files_are_given_as_they_were_indexed(client, tmp_path):
    file = tmp_path / "far" / "album" / "a.png"
    number = client.get("/api/images", params={"name": "a.png"}).json()["images"][0]["id"]
    assert client.get(f"/api/images/{number}/file").content == file.read_bytes()
    assert client.get(f"/api/pictures/image-{number}").headers["content-type"] == "image/jpeg"
    picture(file, 9)
    assert "has changed since it was indexed" in problem(client.get(f"/api/images/{number}/file"), 409)
    file.unlink()
    assert "is not there, or cannot be read" in problem(client.get(f"/api/images/{number}/file"), 404)
    kept = client.get(f"/api/pictures/image-{number}")
    assert kept.content == client.get(f"/api/images/{number}/thumbnail").content


def test_visitors_cannot_make_the_server_ask_another(client, far, tmp_path):
    server, asked = far
    for folder in (f"{server}/album", f"{server}/album/trip", f"{server}/other", "s3://bucket", "file:///etc"):
        answer = client.post("/api/jobs", json={"kind": "add", "folder": folder})
        assert "does not belong to this collection" in problem(answer, 403)
    for query in (f"{server}/album/a.png", "s3://bucket/a.png"):
        assert client.post("/api/search", data={"query": query}).status_code in (404, 422)
        assert client.get(f"/api/pictures/{query}").status_code in (404, 422)
        assert client.get("/api/images", params={"folder": query}).json()["total"] == 0
    added = send(client, (f"{server}/album/c.png", picture(tmp_path / "c.png", 5).read_bytes()))["added"]
    assert not added[0]["folder"].startswith("http")
    assert asked == []


def test_a_server_that_is_away(tmp_path, in_this_process):
    """Stored features are enough for all but what needs the file itself, also of an image with few of them."""
    picture(tmp_path / "far" / "a.png", 1)
    PIL.Image.fromarray(pixels(4)[:70, :90]).save(tmp_path / "far" / "small.png")
    with served(tmp_path / "far") as (server, _), Collection.create(tmp_path / "c.faemb", tiny_model()) as photos:
        photos.add(server)
    with writable(tmp_path / "c.faemb") as client:
        for image in client.get("/api/images").json()["images"]:
            query = {"query": f"image-{image['id']}"}
            found = client.post("/api/search", data=query)
            assert found.status_code == 200, found.text
            assert found.json()["hits"][0]["itself"]
            turned = client.post("/api/search", data={**query, "turned": "true"})
            file = client.get(f"/api/images/{image['id']}/file")
            for answer in (turned, file):
                assert "cannot be reached" in problem(answer, 503)
                assert answer.headers["retry-after"] == "10"
            kept = client.get(f"/api/pictures/image-{image['id']}")
            assert kept.content == client.get(f"/api/images/{image['id']}/thumbnail").content


def test_features_that_are_not_stored_wait_for_their_server(tmp_path, in_this_process):
    picture(tmp_path / "far" / "a.png", 1)
    with (
        served(tmp_path / "far") as (server, _),
        Collection.create(tmp_path / "c.faemb", tiny_model(), keep_features=False) as photos,
    ):
        photos.add(server)
    with writable(tmp_path / "c.faemb") as client:
        answer = client.post("/api/search", data={"query": "image-1"})
        assert "cannot be reached" in problem(answer, 503)
        assert answer.headers["retry-after"] == "10"
