"""Images that are removed through the server, and brought back."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from faemb.collection import Collection
from faemb.collection.locking import only_writer
from faemb.web import changing
from pictures import picture
from small_collections import make_collection
from writable_server import names, problem, send, writable


@pytest.fixture
def collection(tmp_path: Path, in_this_process: None) -> Path:
    return make_collection(tmp_path, ["a.png", "b.png", "c.png"]) / "photos.faemb"


@pytest.fixture
def client(collection: Path) -> Iterator[httpx.Client]:
    with writable(collection) as client:
        yield client


def listed(client: httpx.Client) -> list[str]:
    return names(client.get("/api/images").json()["images"])


def test_an_image_is_removed_and_brought_back(client, collection, tmp_path):
    found = client.delete("/api/images/1").json()
    assert found["image"]["name"] == "a.png"
    assert (tmp_path / "photos" / "a.png").is_file()
    assert listed(client) == ["b.png", "c.png"]
    assert "There is no image 1" in problem(client.get("/api/images/1"), 404)
    answer = client.post(f"/api/undo/{found['undo']}")
    assert answer.status_code == 201
    assert answer.json()["image"]["name"] == "a.png"
    assert listed(client) == ["a.png", "b.png", "c.png"]
    with Collection.open(collection) as photos:
        assert photos.kept_out() == []
        assert photos.check() == []


def test_addresses_of_an_image_that_comes_back_stay_valid(client, collection, tmp_path):
    """Also if others were added meanwhile."""
    token = client.delete("/api/images/2").json()["undo"]
    (other,) = send(client, picture(tmp_path / "new.png", 50))["added"]
    assert client.post(f"/api/undo/{token}").json()["image"]["id"] == 2
    hits = client.post("/api/search", data={"query": "image-2"}).json()["hits"]
    assert (hits[0]["name"], hits[0]["itself"]) == ("b.png", True)
    assert client.get("/api/images/2/thumbnail").status_code == 200
    assert client.get(f"/api/images/{other['id']}").json()["name"] == "new.png"
    with Collection.open(collection) as photos:
        assert photos.check() == []


def test_an_image_that_was_added_again_meanwhile_keeps_its_new_number(client, tmp_path):
    token = client.delete("/api/images/1").json()["undo"]
    with Collection.open(tmp_path / "photos.faemb") as photos:
        photos.add(tmp_path / "photos" / "a.png")
        (now,) = [entry.id for entry in photos.entries() if entry.path.endswith("a.png")]
    assert now != 1
    assert client.post(f"/api/undo/{token}").json()["image"]["id"] == now


def test_a_token_works_once(client):
    token = client.delete("/api/images/1").json()["undo"]
    assert client.post(f"/api/undo/{token}").status_code == 201
    assert "faemb add" in problem(client.post(f"/api/undo/{token}"), 404)


def test_a_server_that_was_started_again_says_how_to_bring_an_image_back(collection):
    collection = collection.rename(collection.with_name("my photos.faemb"))
    with writable(collection) as client:
        token = client.delete("/api/images/1").json()["undo"]
    with writable(collection) as client:
        assert f"faemb add '{collection}' FILE" in problem(client.post(f"/api/undo/{token}"), 404)


def test_an_image_whose_file_is_gone_comes_back_when_the_file_does(client, tmp_path):
    token = client.delete("/api/images/1").json()["undo"]
    away = (tmp_path / "photos" / "a.png").rename(tmp_path / "away.png")
    assert "a.png" in problem(client.post(f"/api/undo/{token}"), 422)
    away.rename(tmp_path / "photos" / "a.png")
    assert client.post(f"/api/undo/{token}").status_code == 201


def test_an_image_whose_file_is_damaged_meanwhile(client, tmp_path):
    token = client.delete("/api/images/1").json()["undo"]
    (tmp_path / "photos" / "a.png").write_text("no image any more")
    assert "not an image" in problem(client.post(f"/api/undo/{token}"), 409)
    picture(tmp_path / "photos" / "a.png", 5)
    assert client.post(f"/api/undo/{token}").status_code == 201


def test_removals_that_are_remembered_are_bounded(client, monkeypatch):
    monkeypatch.setattr(changing, "_REMEMBERED", 1)
    first, second = (client.delete(f"/api/images/{number}").json()["undo"] for number in (1, 2))
    assert client.post(f"/api/undo/{first}").status_code == 404
    assert client.post(f"/api/undo/{second}").status_code == 201


def test_an_image_that_is_not_there(client):
    assert "may have been removed" in problem(client.delete("/api/images/99"), 404)
    assert client.post("/api/undo/nonsense").status_code == 404


def test_a_removed_upload_can_be_sent_again(client, tmp_path):
    new = picture(tmp_path / "new.png", 50)
    (image,) = send(client, new)["added"]
    client.delete(f"/api/images/{image['id']}")
    (again,) = send(client, new)["added"]
    assert (again["name"], again["folder"]) == (image["name"], image["folder"])


def test_another_process_changes_the_collection(client, collection):
    with Collection.open(collection) as photos, only_writer(photos.layout):
        assert "is being changed by another program" in problem(client.delete("/api/images/1"), 503)
    assert listed(client) == ["a.png", "b.png", "c.png"]
