"""`faemb serve` of a collection whose vectors lie in a Milvus server, which is killed and comes back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from faemb.collection import Collection
from milvus_beside import MilvusBeside
from pictures import picture, pictures
from processes import PATIENCE, wait_until
from served import served
from small_collections import tiny_model, working_here
from writable_server import ended, names, problem, send

pytestmark = pytest.mark.milvus

JPEG = "image/jpeg"
AWAY = "does not answer"


@pytest.fixture(scope="module")
def folder(milvus_server: MilvusBeside, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of images 1 to 4, and of their collection."""
    root = tmp_path_factory.mktemp("served")
    address = milvus_server.address("served")
    with working_here(), Collection.create(root / "photos.faemb", tiny_model(), store=address) as photos:
        photos.add(pictures(root / "photos", range(4)))
    return root


@pytest.fixture(scope="module")
def client(folder: Path, milvus_server: MilvusBeside) -> Iterator[httpx.Client]:
    """Of the command, which is told another address of the same Milvus server than the catalogue has."""
    moved = milvus_server.address("served").replace("127.0.0.1", "localhost")
    with (
        served(folder / "photos.faemb", "--writable", "--store", moved) as server,
        httpx.Client(base_url=server.address, timeout=PATIENCE, trust_env=False) as client,
    ):
        yield client


def by_number(client: httpx.Client, number: int) -> Any:
    """An answer that no earlier one can give: Milvus is asked."""
    return client.post("/api/search", data={"query": f"image-{number}", "verify": str(next(VERIFIED))})


VERIFIED = iter(range(1000))


def by_upload(client: httpx.Client, file: Path) -> Any:
    return client.post("/api/search", files={"file": (file.name, file.read_bytes())})


def best(answer: Any) -> tuple[str, float]:
    assert answer.status_code == 200, answer.text
    hit = answer.json()["hits"][0]
    return hit["name"], hit["similarity"]


def test_searches(client, folder):
    assert best(by_number(client, 3)) == ("002.png", 1)
    assert best(by_upload(client, picture(folder / "query.png", 1))) == ("001.png", 1)
    assert client.get("/api/explain/image-3/3").json()["similarity"] == 1


def test_what_needs_no_vectors(client):
    known = client.get("/api/info").json()
    assert (known["images"], known["searchable"], known["writable"]) == (4, 4, True)
    assert names(client.get("/api/images").json()["images"]) == [f"{number:03}.png" for number in range(4)]
    assert client.get("/api/images/1/thumbnail").headers["content-type"] == JPEG


def test_images_come_and_go(client, folder):
    (added,) = send(client, picture(folder / "new.png", 50))["added"]
    assert best(by_number(client, added["id"])) == ("new.png", 1)
    removed = client.delete(f"/api/images/{added['id']}").json()
    assert best(by_upload(client, folder / "new.png"))[1] < 1
    assert client.post(f"/api/undo/{removed['undo']}").status_code == 201
    assert best(by_upload(client, folder / "new.png")) == ("new.png", 1)
    with Collection.open(folder / "photos.faemb") as photos:
        assert photos.check() == []
        assert photos._store.get().table(1, photos.model).count() == photos.info().searchable == 5


def test_a_milvus_server_that_is_killed_and_comes_back(client, folder, milvus_server):
    before = client.get("/api/info").json()["images"]
    milvus_server.kill()
    try:
        later = picture(folder / "later.png", 60)
        for answer in (by_number(client, 1), by_number(client, 2), by_upload(client, later)):
            assert AWAY in problem(answer, 503)
            assert answer.headers["retry-after"] == "10"
        assert AWAY in problem(client.post("/api/images", files=[("files", ("later.png", later.read_bytes()))]), 503)
        assert AWAY in problem(client.delete("/api/images/1"), 503)
        assert not (folder / "photos-uploads" / "later.png").exists()
        assert client.get("/api/info").json()["images"] == before  # nothing was added, and nothing removed
        assert client.get("/api/images/1/thumbnail").headers["content-type"] == JPEG
    finally:
        milvus_server.start()
    assert wait_until(lambda: by_number(client, 1).status_code == 200, pause=0.5)
    assert best(by_number(client, 1)) == ("000.png", 1)
    (added,) = send(client, later)["added"]
    assert best(by_number(client, added["id"])) == ("later.png", 1)
    job = client.post("/api/jobs", json={"kind": "update"}).json()
    assert ended(client, job)["state"] == "done"
