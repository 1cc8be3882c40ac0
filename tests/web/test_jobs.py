"""Long work through the server: its progress, its result, and how it ends early."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from faemb.collection import Collection
from faemb.collection.locking import only_writer
from faemb.errors import InputError
from faemb.runtime import UNKNOWN, Progress
from faemb.web import jobs
from faemb.web.collection_thread import CollectionThread
from faemb.web.jobs import Job, Jobs, Outcome
from faemb.web.problems import Problem
from faemb.web.settings import ServerSettings
from pictures import picture, pictures
from processes import PATIENCE, wait_until
from small_collections import make_collection
from writable_server import ended, names, problem, send, writable


@pytest.fixture
def collection(tmp_path: Path, in_this_process: None) -> Path:
    return make_collection(tmp_path, ["a.png", "trip/b.png"]) / "photos.faemb"


@pytest.fixture
def client(collection: Path) -> Iterator[httpx.Client]:
    with writable(collection) as client:
        yield client


def start(client: httpx.Client, kind: str, **more: str) -> dict[str, Any]:
    answer = client.post("/api/jobs", json={"kind": kind, **more})
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/api/jobs/{answer.json()['id']}"
    return answer.json()


def test_an_update(client, tmp_path):
    picture(tmp_path / "photos" / "new.png", 50)
    (tmp_path / "photos" / "broken.png").write_bytes(b"\x89PNG no more")
    (tmp_path / "photos" / "trip" / "b.png").unlink()
    job = ended(client, start(client, "update"))
    assert (job["state"], job["kind"], job["seconds_left"]) == ("done", "update", None)
    assert job["result"] == "1 image added, 1 removed, 1 unchanged, 1 could not be read."
    assert [Path(each["name"]).name for each in job["failed"]] == ["broken.png"]
    assert names(client.get("/api/images").json()["images"]) == ["a.png", "new.png"]


def test_uploads_that_are_deleted_from_the_disk_stay_in_the_collection(client, tmp_path):
    """Files that were given one by one belong to no folder that an update would search."""
    send(client, picture(tmp_path / "new.png", 50))
    (tmp_path / "photos-uploads" / "new.png").unlink()
    assert ended(client, start(client, "update"))["result"] == "No images added, 2 unchanged."
    assert client.get("/api/images").json()["total"] == 3


def test_an_update_that_finds_a_folder_empty_says_so(client, tmp_path):
    for name in ("a.png", "trip/b.png"):
        (tmp_path / "photos" / name).unlink()
    job = ended(client, start(client, "update"))
    assert "they were not removed" in job["result"]
    assert client.get("/api/images").json()["total"] == 2


def test_the_model_is_learned_again(client):
    job = ended(client, start(client, "relearn"))
    assert (job["state"], job["result"]) == ("done", "The model was learned again from 2 images.")


@pytest.mark.parametrize("folder", ["photos", "photos/trip", "photos-uploads", "photos/trip/../trip"])
def test_a_folder_that_belongs_to_the_collection(client, tmp_path, folder):
    name = Path(f"{tmp_path}/{folder}").resolve() / "new.png"
    picture(name, 50)
    job = ended(client, start(client, "add", folder=f"{tmp_path}/{folder}"))
    assert job["result"].startswith("1 image added")
    assert client.get("/api/images", params={"name": "new"}).json()["total"] == 1


def test_what_a_folder_leaves_out_stays_out(collection, tmp_path):
    from faemb.collection import images_in

    with Collection.open(collection) as photos:
        photos.add(images_in(tmp_path / "photos", exclude=["draft*"]))
    picture(tmp_path / "photos" / "draft.png", 51)
    with writable(collection) as client:
        assert ended(client, start(client, "add", folder=str(tmp_path / "photos")))["state"] == "done"
    with Collection.open(collection) as photos:
        assert photos.folders() == {tmp_path / "photos": ["draft*"]}
        assert len(photos) == 2


def test_folders_of_others_are_refused(client, tmp_path):
    pictures(tmp_path / "private", [1])
    pictures(tmp_path / "photos-of-others", [1])
    (tmp_path / "photos" / "link").symlink_to(tmp_path / "private")
    for folder in ("private", "photos-of-others", "photos/../private", "photos/link", "."):
        answer = client.post("/api/jobs", json={"kind": "add", "folder": f"{tmp_path}/{folder}"})
        assert "does not belong to this collection" in problem(answer, 403)
    assert client.post("/api/jobs", json={"kind": "add", "folder": "\0"}).status_code == 403
    assert client.get("/api/jobs").json() == {"jobs": []}


def test_folders_that_the_server_allows(collection, tmp_path):
    """Named by an option, they are offered; links that lead out of them are refused, and so is all else."""
    for seed, name in enumerate(("new/one.png", "new/deep/two.png", "private/three.png"), 60):
        picture(tmp_path / name, seed)
    (tmp_path / "new" / "link").symlink_to(tmp_path / "private")
    with writable(collection, folders=(tmp_path / "new",)) as client:
        assert client.get("/api/info").json()["folders_to_add"] == [f"{tmp_path}/new"]
        for folder in ("private", "new/link", "new/../private", "newer"):
            answer = client.post("/api/jobs", json={"kind": "add", "folder": f"{tmp_path}/{folder}"})
            assert "let visitors add it with faemb serve --folder" in problem(answer, 403)
        assert ended(client, start(client, "add", folder=f"{tmp_path}/new/deep"))["state"] == "done"
        assert names(client.get("/api/images", params={"folder": f"{tmp_path}/new"}).json()["images"]) == ["two.png"]
        assert ended(client, start(client, "add", folder=f"{tmp_path}/new"))["state"] == "done"
        assert f"{tmp_path}/new" in client.get("/api/info").json()["folders"]


def test_folders_that_cannot_be_allowed_are_explained(collection, tmp_path):
    with pytest.raises(InputError, match="visitors may not add images; add --writable, or leave folder out"):
        ServerSettings(collection, folders=(tmp_path,))
    with pytest.raises(InputError, match="nowhere'; expected a folder with images to add"):
        ServerSettings(collection, folders=(tmp_path / "nowhere",), writable=True)


def test_requests_that_make_no_sense(client):
    assert client.request("PATCH", "/api/jobs").headers["allow"] == "GET, POST"
    assert "takes none" in problem(client.post("/api/jobs", json={"kind": "update", "folder": "x"}), 422)
    for given in ({}, {"folder": ""}, {"folder": None}):
        missing = problem(client.post("/api/jobs", json={"kind": "add", **given}), 422)
        assert missing == "folder is missing; a job of the kind add needs a folder of the server."
    assert client.post("/api/jobs", json={"kind": "format the disk"}).status_code == 422
    assert "no such job" in problem(client.get("/api/jobs/nonsense"), 404)
    assert "no such job" in problem(client.delete("/api/jobs/nonsense"), 404)


def test_a_job_that_fails_says_why(client, collection):
    with Collection.open(collection) as photos, only_writer(photos.layout):
        job = ended(client, start(client, "update"))
    assert job["state"] == "failed"
    assert "is being changed by another program" in job["result"]
    assert str(collection) not in job["result"]


def slow_work(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Updates report progress until they are cancelled or allowed to end."""
    begun, release = threading.Event(), threading.Event()
    update = Collection.update

    def slow(photos: Collection, *, progress: Progress, **more: Any) -> Any:
        deadline = time.monotonic() + PATIENCE
        while not release.is_set() and time.monotonic() < deadline:
            progress("features", 1, 4)
            begun.set()
            time.sleep(0.01)
        return update(photos, progress=progress, **more)

    monkeypatch.setattr(Collection, "update", slow)
    return begun, release


def test_progress_and_cancel(client, monkeypatch, tmp_path):
    begun, release = slow_work(monkeypatch)
    job = start(client, "update")
    assert begun.wait(PATIENCE)
    now = client.get(f"/api/jobs/{job['id']}").json()
    assert (now["state"], now["stage"], now["done"], now["total"]) == ("running", "features", 1, 4)
    assert now["seconds_left"] >= 0
    next_one = start(client, "update")
    assert client.get(f"/api/jobs/{next_one['id']}").json()["state"] == "waiting"
    assert [each["id"] for each in client.get("/api/jobs").json()["jobs"]] == [next_one["id"], job["id"]]
    assert client.delete(f"/api/jobs/{next_one['id']}").json()["state"] == "cancelled"
    client.delete(f"/api/jobs/{job['id']}")
    assert ended(client, job)["result"] == "Cancelled; what was done before stays."
    assert ended(client, next_one)["result"] == "Cancelled before it began."
    release.set()
    assert ended(client, start(client, "update"))["state"] == "done"


def test_a_cancelled_update_keeps_what_was_stored(client, collection, tmp_path, monkeypatch):
    """And the collection is whole: a later update ends the work."""
    from faemb.collection import gathering

    monkeypatch.setattr(gathering, "_COMMIT_IMAGES", 1)
    pictures(tmp_path / "photos", range(60, 66))
    progress = Job.progress

    def cancelling(job: Job, stage: str, done: int, total: int) -> None:
        if (stage, done) == ("features", 3):
            job.cancel()
        progress(job, stage, done, total)

    monkeypatch.setattr(Job, "progress", cancelling)
    assert ended(client, start(client, "update"))["state"] == "cancelled"
    with Collection.open(collection) as photos:
        assert photos.check() == []
        assert len(photos) == 5
    monkeypatch.setattr(Job, "progress", progress)
    assert ended(client, start(client, "update"))["state"] == "done"
    with Collection.open(collection) as photos:
        assert (len(photos), photos.info().waiting) == (8, 0)


def test_a_server_that_stops_cancels_its_jobs(collection, monkeypatch):
    begun, _ = slow_work(monkeypatch)
    with writable(collection) as client:
        start(client, "update")
        start(client, "update")
        assert begun.wait(PATIENCE)
    with Collection.open(collection) as photos, only_writer(photos.layout):
        assert photos.check() == []


def test_jobs_that_are_kept_are_bounded(collection, monkeypatch):
    monkeypatch.setattr(jobs, "_KEPT", 2)
    monkeypatch.setattr(jobs, "_MOST_WAITING", 3)
    all_jobs, thread, release = Jobs(), CollectionThread("working", collection), threading.Event()

    def work(photos: Collection, progress: Progress) -> Outcome:
        release.wait(PATIENCE)
        return Outcome("Done.")

    started = [all_jobs.start("update", thread, work) for _ in range(3)]
    with pytest.raises(Problem) as refused:
        all_jobs.start("update", thread, work)
    assert refused.value.status == 429
    release.set()
    assert wait_until(lambda: all(job.has_ended for job in started))
    last = all_jobs.start("update", thread, work)
    thread.close()
    assert all_jobs.all() == [last, *reversed(started[1:])]
    assert all_jobs.get(last.id) is last


def test_a_fault_of_our_own_is_logged_and_told(collection, caplog):
    job = Job("update")
    with Collection.open(collection) as photos:
        job.run(photos, lambda photos, progress: Outcome(str(1 / 0)))
    assert job.state == "failed"
    assert job.outcome == Outcome("The server has met a fault of its own; its log has the details.")
    assert "ZeroDivisionError" in caplog.text


def test_a_stage_of_unknown_length(collection):
    job = Job("relearn")

    def work(photos: Collection, progress: Progress) -> Outcome:
        progress("whitening", 0, UNKNOWN)
        assert (job.total, job.seconds_left) == (UNKNOWN, None)
        progress("encode", 5, 10)
        assert job.seconds_left is not None
        return Outcome("Done.")

    with Collection.open(collection) as photos:
        job.run(photos, work)
    assert job.state == "done"


def test_a_body_that_is_no_json_is_explained(client):
    answer = client.post("/api/jobs", content="{update", headers={"Content-Type": "application/json"})
    assert problem(answer, 422) == "The body of the request is not JSON."
