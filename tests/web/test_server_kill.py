"""Servers that are killed or stopped during uploads: what they have acknowledged is there, and the collection is whole.

Most kills are at chosen steps of a server without workers (see `process_beside`), so that they fall between a write and
its commit too; some hit the real command.
"""

import os
import random
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from faemb.collection import Collection
from pictures import picture, pictures
from process_beside import process_beside
from processes import PATIENCE, wait_until
from served import Served, served
from small_collections import make_collection

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the process beside the tests forks")

KILLS_AT_STEPS, KILLS_OF_COMMANDS, MOST_ROUNDS = 22, 3, 40


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    return make_collection(tmp_path, ["a.png", "b.png"]) / "photos.faemb"


def send_all(address: str, files: list[Path]) -> dict[str, Path]:
    """Send one file after the other until the server is gone; contents of those that it has acknowledged, with places.

    One request has a second file, which is no image.
    """
    acknowledged: dict[str, Path] = {}
    with suppress(httpx.TransportError), httpx.Client(base_url=address, timeout=PATIENCE, trust_env=False) as client:
        for number, file in enumerate(files):
            sent: list[Any] = [("files", (f"{number % 2}.png", file.read_bytes()))]
            if number == 1:
                sent.append(("files", ("bad.png", b"no image")))
            answer = client.post("/api/images", files=sent)
            if answer.status_code == 503:
                break  # the server is being stopped
            assert answer.status_code in (200, 201, 422), answer.text  # a killed server may have stored it already
            assert len(answer.json()["failed"]) == (number == 1)
            for image in (*answer.json()["added"], *answer.json()["known"]):
                acknowledged[file.name] = Path(image["folder"]) / image["name"]
    return acknowledged


def assert_there(collection: Path, sources: Path, acknowledged: dict[str, Path]) -> None:
    with Collection.open(collection) as photos:
        assert photos.check() == []
        for name, place in acknowledged.items():
            assert place.read_bytes() == (sources / name).read_bytes()
            entry = photos.entry(place)
            assert entry is not None
            assert entry.slot is not None or not entry.features
        for entry in photos.entries():
            assert photos.layout.path_of(entry.path).is_file()


def test_a_server_that_is_killed_at_any_step(collection, tmp_path):
    """One collection, whose server is started again each time: nothing acknowledged is ever lost."""
    beside, chosen, until = process_beside(), random.Random("serve"), tmp_path / "until"  # noqa: S311
    sources = pictures(tmp_path / "sources", range(100, 100 + 2 * MOST_ROUNDS + 4), size=(64, 48))
    files = sorted(sources.iterdir())

    def serve(target: Path, sent: list[Path], **orders: float) -> tuple[Any, dict[str, Path]]:
        until.unlink(missing_ok=True)
        beside.start("serve_uploads", target, sources, until, **orders)
        try:
            assert wait_until(beside.told)
            acknowledged = send_all(f"http://127.0.0.1:{beside.told()[0]}", sent)
        finally:
            until.touch()
            ended = beside.end()
        return ended, acknowledged

    trial = Path(shutil.copytree(tmp_path / "photos.faemb", tmp_path / "trial" / "photos.faemb"))
    shutil.copytree(tmp_path / "photos", tmp_path / "trial" / "photos")
    whole, acknowledged = serve(trial, files[:4])
    assert (whole.fault, len(acknowledged)) == ("", 4)
    acknowledged, killed = {}, 0
    for number in range(MOST_ROUNDS):  # in some of them a server has done all its work before it comes to that step
        stop = chosen.randint(1, whole.steps)
        ended, told = serve(collection, files[2 * number : 2 * number + 4], stop=stop)
        killed += ended.killed
        acknowledged |= told
        assert_there(collection, sources, acknowledged)
        if killed == KILLS_AT_STEPS:
            break
    assert killed == KILLS_AT_STEPS
    sent = files[: 2 * number + 4]
    ended, told = serve(collection, sent)
    assert ended.fault == ""
    assert set(told) == {file.name for file in sent}
    assert_there(collection, sources, told)
    uploads = tmp_path / "photos-uploads"
    with Collection.open(collection) as photos:
        stored = {photos.layout.path_of(entry.path) for entry in photos.entries()}
    left = {file for file in uploads.glob("[01]*.png") if file not in stored and file.stat().st_size}
    assert left == set()  # files that a killed server has left were used when they were sent again


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_the_command_is_killed(collection, tmp_path):
    sources = pictures(tmp_path / "sources", range(100, 100 + 4 * KILLS_OF_COMMANDS), size=(64, 48))
    files, moments = sorted(sources.iterdir()), random.Random(3)  # noqa: S311
    acknowledged: dict[str, Path] = {}
    for number in range(KILLS_OF_COMMANDS):
        some = files[4 * number : 4 * number + 4]
        with served(collection, "--writable") as server, ThreadPoolExecutor(1) as threads:
            sent = threads.submit(send_all, server.address, some)
            assert wait_until(lambda: (tmp_path / "photos-uploads").is_dir() or sent.done())  # noqa: B023
            threading.Event().wait(moments.uniform(0, 2))
            server.process.send_signal(signal.SIGKILL)
            assert server.process.wait(PATIENCE) == -signal.SIGKILL
            acknowledged |= sent.result()
        assert_there(collection, sources, acknowledged)


def test_a_command_that_is_told_to_stop_ends_or_undoes_its_uploads(collection, tmp_path):
    sources = pictures(tmp_path / "sources", range(100, 104), size=(64, 48))
    with served(collection, "--writable") as server, ThreadPoolExecutor(1) as threads:
        sent = threads.submit(send_all, server.address, sorted(sources.iterdir()))
        assert wait_until(lambda: (tmp_path / "photos-uploads").is_dir())
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 143
        acknowledged = sent.result()
    assert_there(collection, sources, acknowledged)
    with Collection.open(collection) as photos:
        stored = {photos.layout.path_of(entry.path) for entry in photos.entries()}
    assert set((tmp_path / "photos-uploads").iterdir()) <= stored


def test_a_command_that_is_told_to_stop_cancels_its_job(collection, tmp_path):
    pictures(tmp_path / "photos" / "many", range(200, 260), size=(320, 240))
    with served(collection, "--writable") as server:
        job = httpx.post(f"{server.address}api/jobs", json={"kind": "update"}).json()
        assert wait_until(lambda: is_running(server, job))
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 143
    with Collection.open(collection) as photos:
        assert photos.check() == []
        before = len(photos)
        photos.add(picture(tmp_path / "after.png", 300))  # the lock is free
        assert len(photos) == before + 1


def is_running(server: Served, job: dict[str, Any]) -> bool:
    now = httpx.get(f"{server.address}api/jobs/{job['id']}").json()
    return bool(now["state"] != "waiting" and now["stage"])
