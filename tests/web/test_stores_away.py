"""A server of a collection whose vectors lie in a Milvus server that is not there: `make test-milvus` has one."""

from pathlib import Path

import pytest

from faemb.collection import Collection
from faemb.collection.stores.milvus_server import StoreFullError
from faemb.web import changing
from pictures import picture
from small_collections import make_collection
from writable_server import ended, problem, writable


@pytest.fixture
def collection(tmp_path: Path, in_this_process: None) -> Path:
    folder = make_collection(tmp_path, ["a.png", "b.png"]) / "photos.faemb"
    with Collection.open(folder) as photos, photos._changing(None), photos._catalogue.change():
        photos._catalogue.attach("milvus://127.0.0.1:1/photos", "an identity", 1)
    return folder


def test_it_starts_and_says_what_is_wrong(collection, tmp_path):
    with writable(collection) as client:
        assert client.get("/api/info").json()["images"] == 2
        assert client.get("/api/images/1/thumbnail").status_code == 200
        new = picture(tmp_path / "new.png", 50).read_bytes()
        for answer in (
            client.post("/api/search", data={"query": "image-1"}),
            client.post("/api/search", files={"file": ("new.png", new)}),
            client.post("/api/images", files=[("files", ("new.png", new))]),
            client.delete("/api/images/1"),
        ):
            assert "The Milvus server at 127.0.0.1:1 does not answer" in problem(answer, 503)
            assert answer.headers["retry-after"] == "10"
        assert client.get("/api/info").json()["images"] == 2
    assert list((tmp_path / "photos-uploads").iterdir()) == []


def test_a_comparison_is_possible_later(collection, monkeypatch):
    monkeypatch.setenv("FAEMB_STORE_SECONDS", "1")
    with writable(collection) as client:
        job = client.get("/api/duplicates").json()
        assert ended(client, job)["state"] == "failed"
        answer = client.get("/api/duplicates")
        assert "The Milvus server at 127.0.0.1:1 does not answer" in problem(answer, 503)
        assert answer.headers["retry-after"] == "10"
        assert client.get("/api/duplicates").json()["id"] != job["id"]


def test_one_that_is_full(collection, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise StoreFullError("the Milvus server at 127.0.0.1:1 has no room")

    monkeypatch.setattr(changing._Batch, "store", full)
    with writable(collection) as client:
        answer = client.post("/api/images", files=[("files", ("new.png", picture(tmp_path / "new.png").read_bytes()))])
        assert "has no room" in problem(answer, 507)
