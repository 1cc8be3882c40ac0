"""Groups of duplicates through the server: found by a job, then kept while the collection stays the same."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import PIL.Image
import pytest

from faemb.collection import Collection
from faemb.errors import InputError
from pictures import pixels
from processes import PATIENCE
from small_collections import make_collection
from writable_server import ended, names, problem, send, writable


@pytest.fixture
def collection(tmp_path: Path, in_this_process: None) -> Path:
    made = make_collection(tmp_path, ["a.png", "b.png", "c.png"]) / "photos.faemb"
    for number, seed in enumerate((0, 1)):
        PIL.Image.fromarray(pixels(seed)).save(tmp_path / "photos" / f"copy{number}.jpg", quality=95)
    with Collection.open(made) as photos:
        photos.add(tmp_path / "photos")
    return made


@pytest.fixture
def client(collection: Path) -> Iterator[httpx.Client]:
    with writable(collection, writable=False) as client:
        yield client


def asked(client: httpx.Client, **question: Any) -> httpx.Response:
    return client.get("/api/duplicates", params=question)


def found(client: httpx.Client, **question: Any) -> Any:
    """The answer when the job that looks for it is done."""
    first = asked(client, **question)
    if first.status_code == 202:
        assert first.headers["location"] == f"/api/jobs/{first.json()['id']}"
        assert ended(client, first.json())["state"] == "done"
    answer = asked(client, **question)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_copies(client):
    answer = found(client)
    assert answer["total"] == 2
    assert [sorted(names(group["images"])) for group in answer["groups"]] == [
        ["a.png", "copy0.jpg"],
        ["b.png", "copy1.jpg"],
    ]
    (first, _) = answer["groups"]
    assert first["kind"] == "copies"
    assert first["reason"] == "same pixels, largest file"
    assert first["similarity"].startswith("similarity ")
    assert all(image["bytes"] > 0 for image in first["images"])
    (job,) = client.get("/api/jobs").json()["jobs"]
    assert (job["kind"], job["result"]) == ("duplicates", "2 groups found.")


def test_pages(client):
    found(client)
    page = asked(client, offset=1, limit=1).json()
    assert page["total"] == 2
    assert ["copy1.jpg" in names(group["images"]) for group in page["groups"]] == [True]
    assert asked(client, offset=2).json()["groups"] == []


def test_questions_have_answers_of_their_own(client):
    found(client)
    assert asked(client, same_thing=True).status_code == 202
    assert asked(client).status_code == 200


def test_a_change_of_the_collection_is_seen(collection, tmp_path):
    with writable(collection) as client:
        assert found(client)["total"] == 2
        assert asked(client).status_code == 200
        PIL.Image.fromarray(pixels(2)).save(tmp_path / "copy2.jpg", quality=95)
        send(client, tmp_path / "copy2.jpg")
        assert asked(client).status_code == 202
        assert found(client)["total"] == 3


def test_one_job_for_equal_questions_which_can_be_cancelled(client, monkeypatch):
    begun, duplicates = threading.Event(), Collection.duplicates

    def slow(photos: Collection, **given: Any) -> Any:
        begun.set()
        while True:
            given["progress"]("duplicates", 0, 1)

    monkeypatch.setattr(Collection, "duplicates", slow)
    job, again = asked(client).json(), asked(client).json()
    assert job["id"] == again["id"]
    assert begun.wait(PATIENCE)
    assert client.get("/api/images").status_code == 200  # others do not wait for it
    client.delete(f"/api/jobs/{job['id']}")
    assert ended(client, job)["state"] == "cancelled"
    monkeypatch.setattr(Collection, "duplicates", duplicates)
    assert found(client)["total"] == 2


def test_a_question_that_cannot_be_answered(client, monkeypatch):
    """It is not asked again and again."""

    def refuse(photos: Collection, **given: Any) -> Any:
        raise InputError("mirrored is set; expected other features")

    monkeypatch.setattr(Collection, "duplicates", refuse)
    ended(client, asked(client, mirrored=True).json())
    assert problem(asked(client, mirrored=True), 409) == "Mirrored is set; expected other features."
    assert len(client.get("/api/jobs").json()["jobs"]) == 1
