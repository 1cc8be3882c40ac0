"""Groups of duplicates through the server: found by a job, then kept until somebody asks for a new comparison."""

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


def test_groups_stay_known_when_the_collection_changes(collection, tmp_path):
    """New images are compared when a request asks for it, not at every change."""
    with writable(collection) as client:
        assert found(client)["total"] == 2
        PIL.Image.fromarray(pixels(2)).save(tmp_path / "copy2.jpg", quality=95)
        send(client, tmp_path / "copy2.jpg")
        answer = asked(client)
        assert (answer.status_code, answer.json()["total"], answer.json()["outdated"]) == (200, 2, True)
        assert jobs(client) == ["done"]
        job = asked(client, again=True)
        assert job.status_code == 202
        ended(client, job.json())
        answer = found(client)
        assert (answer["total"], answer["outdated"]) == (3, False)
        assert asked(client, again=True).json()["total"] == 3  # nothing has changed: no further job
        assert jobs(client) == ["done", "done"]


def test_what_has_left_is_in_no_group(collection):
    with writable(collection) as client:
        groups = found(client)["groups"]
        ids = {image["name"]: image["id"] for group in groups for image in group["images"]}
        token = client.delete(f"/api/images/{ids['copy0.jpg']}").json()["undo"]
        answer = asked(client).json()
        assert (answer["total"], answer["outdated"]) == (1, True)
        assert [sorted(names(group["images"])) for group in answer["groups"]] == [["b.png", "copy1.jpg"]]
        client.post(f"/api/undo/{token}")
        assert asked(client).json()["groups"] == groups
        assert jobs(client) == ["done"]


def test_the_next_image_of_a_group_is_the_one_to_keep(collection, tmp_path):
    small = PIL.Image.fromarray(pixels(0)).resize((100, 75))
    small.save(tmp_path / "photos" / "small.jpg", quality=95)
    with writable(collection) as client:
        ended(client, client.post("/api/jobs", json={"kind": "update"}).json())
        (group, _) = sorted(found(client)["groups"], key=lambda each: -len(each["images"]))
        assert (len(group["images"]), group["reason"]) == (3, "same pixels, largest file")
        client.delete(f"/api/images/{group['images'][0]['id']}")
        (left, _) = sorted(asked(client).json()["groups"], key=lambda each: "small.jpg" not in names(each["images"]))
        assert names(left["images"]) == names(group["images"])[1:]
        assert left["reason"] == "most pixels"


def test_a_file_with_another_content_is_in_no_group(collection, tmp_path):
    with writable(collection) as client:
        assert found(client)["total"] == 2
        PIL.Image.fromarray(pixels(7)).save(tmp_path / "photos" / "copy0.jpg", quality=95)
        ended(client, client.post("/api/jobs", json={"kind": "update"}).json())
        (group,) = asked(client).json()["groups"]
        assert sorted(names(group["images"])) == ["b.png", "copy1.jpg"]


def test_a_new_comparison_that_is_cancelled_leaves_what_was_found(collection, monkeypatch):
    begun, duplicates = threading.Event(), Collection.duplicates

    def slow(photos: Collection, **given: Any) -> Any:
        begun.set()
        while True:
            given["progress"]("duplicates", 0, 1)

    with writable(collection) as client:
        assert found(client)["total"] == 2
        client.delete("/api/images/3")
        monkeypatch.setattr(Collection, "duplicates", slow)
        job = asked(client, again=True).json()
        assert begun.wait(PATIENCE)
        assert asked(client).json()["total"] == 2  # who has not asked for it does not wait
        client.delete(f"/api/jobs/{job['id']}")
        ended(client, job)
        assert asked(client).json()["outdated"]
        monkeypatch.setattr(Collection, "duplicates", duplicates)
        assert asked(client, again=True).json()["id"] != job["id"]


def jobs(client: httpx.Client) -> list[str]:
    """States of those that look for groups."""
    return [job["state"] for job in client.get("/api/jobs").json()["jobs"] if job["kind"] == "duplicates"]


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


@pytest.mark.parametrize("again", [False, True])
def test_a_comparison_that_has_failed_is_made_again(client, monkeypatch, again):
    """Its error is an answer once; who asks for a comparison `again` does not get it."""
    duplicates = Collection.duplicates

    def refuse(photos: Collection, **given: Any) -> Any:
        raise InputError("mirrored is set; expected other features")

    monkeypatch.setattr(Collection, "duplicates", refuse)
    ended(client, asked(client).json())
    if not again:
        assert problem(asked(client), 409) == "Mirrored is set; expected other features."
    assert jobs(client) == ["failed"]
    monkeypatch.setattr(Collection, "duplicates", duplicates)
    assert found(client, again=again)["total"] == 2
    assert jobs(client) == ["done", "failed"]
