"""Images that are added through the server."""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import PIL.Image
import pytest

from faemb.collection import Collection
from faemb.collection.locking import only_writer
from faemb.features.job import content_hash
from faemb.web import changing
from faemb.web.changing import Changes
from faemb.web.receiving import Coming, place, prepare, safe_name
from pictures import picture, pixels
from processes import PATIENCE, wait_until
from small_collections import make_collection, make_features
from writable_server import Within, names, post, problem, send, writable, writable_from_within


@pytest.fixture
def collection(tmp_path: Path, in_this_process: None) -> Path:
    return make_collection(tmp_path, ["a.png", "b.png"]) / "photos.faemb"


@pytest.fixture
def client(collection: Path) -> Iterator[httpx.Client]:
    with writable(collection) as client:
        yield client


@pytest.fixture
def within(collection: Path) -> Iterator[Within]:
    with writable_from_within(collection) as within:
        yield within


@pytest.fixture
def uploads(tmp_path: Path) -> Path:
    return tmp_path / "photos-uploads"


def found_by(client: httpx.Client, image: dict[str, Any]) -> dict[str, Any]:
    answer = client.post("/api/search", data={"query": f"image-{image['id']}"})
    assert answer.status_code == 200, answer.text
    return answer.json()["hits"][0]


def test_what_is_answered_is_stored_and_found(client, collection, uploads, tmp_path):
    new = picture(tmp_path / "new.png", 50)
    answer = send(client, new)
    assert (names(answer["added"]), answer["known"], answer["failed"]) == (["new.png"], [], [])
    assert (uploads / "new.png").read_bytes() == new.read_bytes()
    assert os.listdir(uploads) == ["new.png"]
    assert found_by(client, answer["added"][0])["itself"]
    with Collection.open(collection) as photos:
        assert photos.entry(uploads / "new.png") is not None
        assert photos.check() == []


def test_the_folder_can_be_chosen(collection, tmp_path):
    with writable(collection, uploads=tmp_path / "deep" / "inbox") as client:
        send(client, picture(tmp_path / "new.png", 50))
    assert os.listdir(tmp_path / "deep" / "inbox") == ["new.png"]


def test_a_content_that_the_collection_has_is_not_stored_again(client, uploads, tmp_path):
    content = (tmp_path / "photos" / "a.png").read_bytes()
    answer = send(client, ("other.png", content), status=200)
    assert (names(answer["known"]), answer["added"]) == (["a.png"], [])
    assert os.listdir(uploads) == []
    new = picture(tmp_path / "new.png", 50)
    answer = send(client, new, ("again.png", new.read_bytes()))
    assert (names(answer["added"]), names(answer["known"])) == (["new.png"], ["new.png"])
    assert os.listdir(uploads) == ["new.png"]


def test_a_known_image_that_was_not_encoded_is_found_afterwards(client, collection, tmp_path):
    """A server that was killed has stored it and not more."""
    with Collection.open(collection) as photos, photos._changing(None), photos._catalogue.change():
        photos._catalogue.forget_vector(1)
    answer = send(client, tmp_path / "photos" / "a.png", status=200)
    assert names(answer["known"]) == ["a.png"]
    assert found_by(client, answer["known"][0])["itself"]
    with Collection.open(collection) as photos:
        assert photos.info().waiting == 0


def test_a_content_whose_file_is_gone_is_stored(client, uploads, tmp_path):
    content = (tmp_path / "photos" / "a.png").read_bytes()
    (tmp_path / "photos" / "a.png").unlink()
    assert names(send(client, ("other.png", content))["added"]) == ["other.png"]
    assert (uploads / "other.png").read_bytes() == content


def test_no_file_is_overwritten(client, uploads, tmp_path):
    uploads.mkdir()
    (uploads / "new.png").write_text("somebody else's")
    send(client, picture(tmp_path / "new.png", 50))
    send(client, ("new.png", picture(tmp_path / "other.png", 51).read_bytes()))
    assert sorted(os.listdir(uploads)) == ["new (2).png", "new (3).png", "new.png"]
    assert (uploads / "new.png").read_text() == "somebody else's"


def test_unusable_files_are_told_and_leave_nothing(client, collection, uploads, tmp_path):
    new = picture(tmp_path / "new.png", 50)
    features = make_features(tmp_path / "x.npz", 1)
    answer = send(client, ("text.jpg", b"no image"), new, ("empty.png", b""), features)
    assert names(answer["added"]) == ["new.png"]
    assert [each["name"] for each in answer["failed"]] == ["text.jpg", "empty.png", "x.npz"]
    reasons = [each["reason"] for each in answer["failed"]]
    assert "not an image of a known format" in reasons[0]
    assert "is empty" in reasons[1]
    assert "local features where images are expected" in reasons[2]
    assert not [reason for reason in reasons if str(tmp_path) in reason]
    assert os.listdir(uploads) == ["new.png"]
    with Collection.open(collection) as photos:
        assert photos.info().unreadable == {}


def test_nothing_is_said_to_be_created_where_nothing_was(client, tmp_path):
    """A program that only looks at the status must not take a file to be stored."""
    known, bad = tmp_path / "photos" / "a.png", ("text.jpg", b"no image")
    answer = post(client, bad)
    reason = problem(answer, 422)
    assert reason.startswith("text.jpg is not an image of a known format")
    assert answer.json()["failed"] == [{"name": "text.jpg", "reason": reason}]
    assert (answer.json()["added"], answer.json()["known"]) == ([], [])
    several = post(client, bad, ("empty.png", b""), known)
    assert problem(several, 422) == f"None of the files was added, and 2 cannot be used. {reason}"
    assert names(several.json()["known"]) == ["a.png"]
    assert post(client, known, known).status_code == 200
    assert post(client, known, picture(tmp_path / "new.png", 50), bad).status_code == 201


def test_an_unusable_file_that_lay_there_stays(client, uploads):
    uploads.mkdir()
    (uploads / "text.jpg").write_bytes(b"no image")
    assert len(send(client, ("text.jpg", b"no image"), status=422)["failed"]) == 1
    assert (uploads / "text.jpg").read_bytes() == b"no image"


def test_a_file_that_is_too_large_does_not_hinder_the_others(collection, uploads, tmp_path):
    with writable(collection, most_bytes=20_000) as client:
        answer = send(client, ("large.png", bytes(23_000)), picture(tmp_path / "new.png", 50))
    assert answer["failed"] == [
        {"name": "large.png", "reason": "It has 23 KB; this server takes images of at most 20 KB."}
    ]
    assert os.listdir(uploads) == ["new.png"]


def test_the_date_of_a_photograph(client, tmp_path):
    exif = PIL.Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = "2014:07:20 13:05:09"
    PIL.Image.fromarray(pixels(71)).save(tmp_path / "dated.jpg", exif=exif)
    (image,) = send(client, tmp_path / "dated.jpg")["added"]
    assert (image["date"], image["taken"]) == ("2014-07-20T13:05:09", True)


def test_requests_that_wait_are_added_together(within, collection, tmp_path, monkeypatch):
    """And each gets its own answer."""
    client, changes = within
    calls, add = [], Collection.add

    def counting(*given: Any, **more: Any) -> Any:
        calls.append(given)
        return add(*given, **more)

    monkeypatch.setattr(Collection, "add", counting)
    files = [picture(tmp_path / f"{seed}.png", seed) for seed in range(60, 66)]
    with ThreadPoolExecutor(8) as threads:
        with held(changes) as release:
            sending = partial(send, client, status=(200, 201, 422))  # one file is sent twice
            sent = [threads.submit(sending, file, (f"bad {file.name}", file.name.encode())) for file in files]
            twice = threads.submit(sending, files[0])
            assert wait_until(lambda: len(changes._waiting) == 7)
            release.set()
        answers = [each.result() for each in sent]
    assert len(calls) == 1
    assert sorted(len(twice.result()[kind]) for kind in ("added", "known", "failed")) == [0, 0, 1]
    for file, answer in zip(files, answers, strict=True):
        assert names(answer["added"] + answer["known"]) == [file.name]
        assert [each["name"] for each in answer["failed"]] == [f"bad {file.name}"]
    with Collection.open(collection) as photos:
        assert len(photos) == 8


@contextmanager
def held(changes: Changes) -> Iterator[threading.Event]:
    """The thread that changes the collection is busy until it is released."""
    release = threading.Event()
    changes._thread.submit(lambda photos: release.wait(PATIENCE))
    try:
        yield release
    finally:
        release.set()


def test_a_request_does_not_wait_for_hours(within, uploads, tmp_path, monkeypatch):
    client, changes = within
    monkeypatch.setattr(changing, "_PATIENCE", 0.05)
    with held(changes):
        files = {"files": ("new.png", picture(tmp_path / "new.png", 50).read_bytes())}
        answer = client.post("/api/images", files=files)
        assert "try again when that has ended" in problem(answer, 503)
        assert answer.headers["retry-after"] == "30"
    assert names(send(client, picture(tmp_path / "other.png", 51))["added"]) == ["other.png"]
    assert os.listdir(uploads) == ["other.png"]


def test_another_process_changes_the_collection(client, collection, uploads, tmp_path):
    files = {"files": ("new.png", picture(tmp_path / "new.png", 50).read_bytes())}
    with Collection.open(collection) as photos, only_writer(photos.layout):
        answer = client.post("/api/images", files=files)
        assert problem(answer, 503).startswith("The collection is being changed by another program on the server")
        assert int(answer.headers["Retry-After"]) > 0
        assert str(tmp_path) not in answer.text
        assert os.listdir(uploads) == []
    assert client.post("/api/images", files=files).status_code == 201


def test_a_server_that_may_only_read(collection, uploads):
    with writable(collection, writable=False) as client:
        for method, address in (("POST", "images"), ("DELETE", "images/1"), ("POST", "undo/x"), ("POST", "jobs")):
            files = {"files": ("a.png", b"a")} if address == "images" else None
            order = {"kind": "update"} if address == "jobs" else None
            answer = client.request(method, f"/api/{address}", files=files, json=order)
            assert "--writable" in problem(answer, 403)
    assert not uploads.exists()


def test_a_folder_for_uploads_that_cannot_be_made(collection, tmp_path):
    (tmp_path / "file").write_text("no folder")
    files = {"files": ("new.png", b"x")}
    for folder in (tmp_path / "file" / "below", collection / "inside"):
        with writable(collection, uploads=folder) as client:
            assert "cannot be used" in problem(client.post("/api/images", files=files), 507)


def test_a_server_that_stops_undoes_what_is_not_stored(within, collection, uploads, tmp_path, monkeypatch):
    """The request gets an answer all the same."""
    client, changes = within
    begun, add = threading.Event(), Collection.add

    def slow(photos: Collection, *given: object, progress: object, **more: object) -> object:
        begun.set()
        while True:  # until the server is stopped
            progress("features", 0, 1)  # type: ignore[operator]
            time.sleep(0.01)

    monkeypatch.setattr(Collection, "add", slow)
    with ThreadPoolExecutor(1) as threads:
        new = picture(tmp_path / "new.png", 50)
        sent = threads.submit(client.post, "/api/images", files={"files": (new.name, new.read_bytes())})
        assert begun.wait(60)
        changes.close()
        assert "being stopped" in problem(sent.result(), 503)
    assert os.listdir(uploads) == []
    monkeypatch.setattr(Collection, "add", add)
    with Collection.open(collection) as photos:
        assert photos.check() == []
        assert len(photos) == 2


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("a.jpg", "a.jpg"),
        ("../../etc/passwd", "passwd"),
        ("C:\\photos\\a.jpg", "a.jpg"),
        (".hidden.jpg", "hidden.jpg"),
        ("a\x00b\n\u202ec\ud800.jpg", "a_b__c_.jpg"),
        ("<img src=x onerror=alert(1)>.jpg", "<img src=x onerror=alert(1)>.jpg"),
        ("", "photograph"),
        (None, "photograph"),
        ("...", "photograph"),
        ("catalogue.sqlite", "_catalogue.sqlite"),
        ("x" * 500 + ".jpg", "x" * 176 + ".jpg"),
        ("Ü" * 500 + ".jpg", "Ü" * 88 + ".jpg"),
        ("a." + "x" * 500, "a." + "x" * 19),
    ],
)
def test_names_of_files(given, name):
    assert safe_name(given) == name


def test_what_a_killed_server_has_not_received_is_deleted_after_a_day(tmp_path):
    prepare(tmp_path)
    old, new, other = (tmp_path / f".faemb-coming-{each * 32}" for each in ("0", "1", "x"))
    for file in (old, new, other):
        file.write_bytes(b"")
    for file in (old, other):
        os.utime(file, (1, 1))
    prepare(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([new.name, other.name])


def test_a_file_that_a_killed_server_has_left_is_used(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"same")
    coming = tmp_path / "coming"
    coming.write_bytes(b"same")
    found = place(Coming("a.jpg", coming, content_hash(coming)), tmp_path)
    assert found == (tmp_path / "a.jpg", False)
    (tmp_path / "b.jpg").symlink_to(tmp_path / "a.jpg")
    found = place(Coming("b.jpg", coming, content_hash(coming)), tmp_path)
    assert found == (tmp_path / "b (2).jpg", True)


def test_waiting_changes_are_counted(client):
    assert 'faemb_waiting{thread="changing"} 0.0' in client.get("/metrics").text
