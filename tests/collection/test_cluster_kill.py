"""Workers and schedulers of a Dask cluster that are killed at random moments: nothing is lost, the result is the same.

Each test counts the processes that were alive when they were killed, while images were being worked on.
"""

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from clusters import Processes, processes
from faemb.collection import Collection
from faemb.runtime.cluster import open_cluster
from pictures import pictures
from processes import COMMAND, PATIENCE, heeded, living, wait_until
from small_collections import assert_same, tiny_model, vectors_of

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.cluster
IMAGES, WORKER_KILLS, SCHEDULER_KILLS = 200, 10, 3


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pictures(tmp_path_factory.mktemp("photos"), range(IMAGES))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.model"
    tiny_model().save(path)
    return path


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Processes]:
    with processes(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def undisturbed(photos: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    with processes(folder) as made:
        made.start()
        finish(index(photos, model, folder / "a.faemb", made.address))
    return folder / "a.faemb"


def index(photos: Path, model: Path, out: Path, address: str) -> "subprocess.Popen[str]":
    command = [COMMAND, "index", photos, "--model", model, "--out", out, "--cluster", address]
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603


def finish(job: "subprocess.Popen[str]") -> str:
    out, errors = job.communicate(timeout=PATIENCE)
    assert job.returncode == 0, errors
    return out


def stored(out: Path) -> int:
    """The number of images that are stored for good."""
    if not (out / "catalogue.sqlite").exists():
        return 0
    with Collection.open(out) as collection:
        return len(collection)


def has_stored(out: Path, images: int, job: "subprocess.Popen[str]") -> bool:
    """Whether it has stored more than this number of images, or has ended."""
    return stored(out) > images or job.poll() is not None


def assert_equal(out: Path, undisturbed: Path) -> None:
    with Collection.open(out) as one, Collection.open(undisturbed) as other:
        assert len(one) == IMAGES
        assert one.check() == []
        assert_same(vectors_of(one), vectors_of(other))


def test_workers_are_killed(cluster, photos, model, undisturbed, tmp_path):
    rng, hits, rounds = random.Random(0), 0, 0  # noqa: S311
    cluster.start(workers=3)
    while hits < WORKER_KILLS:
        rounds += 1
        out = tmp_path / f"{rounds}.faemb"
        job = index(photos, model, out, cluster.address)
        assert wait_until(partial(has_stored, out, 0, job))
        while job.poll() is None:
            time.sleep(rng.uniform(1, 4))  # a nanny takes seconds to start another
            alive = job.poll() is None
            hits += cluster.kill_a_worker(rng.randrange(3)) and alive
        assert f"{IMAGES} images added" in finish(job)
        assert_equal(out, undisturbed)
    print(f"{hits} workers killed in {rounds} runs")


def test_schedulers_are_killed(cluster, photos, model, undisturbed, tmp_path):
    rng, hits, kept = random.Random(1), 0, 0  # noqa: S311
    out = tmp_path / "a.faemb"
    while hits < SCHEDULER_KILLS:
        address = cluster.start()
        job = index(photos, model, out, address)
        assert wait_until(partial(has_stored, out, kept, job))
        time.sleep(rng.uniform(0, 0.5))
        if job.poll() is None:
            hits += cluster.kill_scheduler()
            _, errors = job.communicate(timeout=PATIENCE)
            if job.returncode:
                assert errors.splitlines()[-1] == (
                    f"faemb: the scheduler {address} is gone; what was stored is kept: run the same command again when "
                    "it is back"
                )
        else:
            finish(job)
            out = tmp_path / f"{hits}.faemb"
            kept = 0
        cluster.stop()
        assert stored(out) >= kept
        kept = stored(out)
    cluster.start()
    finish(index(photos, model, out, cluster.address))
    assert_equal(out, undisturbed)
    print(f"{hits} schedulers killed")


def test_a_worker_without_faemb_is_refused_before_anything_is_written(cluster, photos, model, tmp_path):
    cluster.start(workers=0)
    cluster.add_worker_without_faemb()
    job = index(photos, model, tmp_path / "a.faemb", cluster.address)
    _, errors = job.communicate(timeout=PATIENCE)
    assert job.returncode == 1
    assert errors.startswith("faemb: the worker tcp://127.0.0.1:")
    assert ' has no faemb; install it there: pip install "faemb[cluster]==' in errors
    assert not (tmp_path / "a.faemb").exists()


def test_a_worker_without_faemb_among_others_is_not_used(cluster, photos, model, undisturbed, tmp_path):
    cluster.start(workers=1)
    cluster.add_worker_without_faemb()
    with distributed.Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=PATIENCE)
    job = index(photos, model, tmp_path / "a.faemb", cluster.address)
    _, errors = job.communicate(timeout=PATIENCE)
    assert job.returncode == 0, errors
    assert re.search(r"faemb: the worker tcp://127.0.0.1:\d+ has no faemb; .*; it is not used", errors)
    assert_equal(tmp_path / "a.faemb", undisturbed)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed"])
def test_a_command_that_is_stopped_leaves_no_process_of_its_cluster(photos, tmp_path, how):
    out = tmp_path / "a.faemb"
    command = [COMMAND, "index", photos, "--out", out, "--cluster", "local:2"]
    with heeded(signal.SIGINT):
        job = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True, start_new_session=True)  # noqa: S603
    assert wait_until(partial(has_stored, out, 0, job))
    if how is signal.SIGINT:
        os.killpg(job.pid, how)  # as a terminal does, to all processes
    else:
        job.kill()
    _, errors = job.communicate(timeout=PATIENCE)
    assert wait_until(lambda: not living(job.pid))
    if how is signal.SIGINT:
        assert job.returncode == 130
        assert errors.splitlines()[-1] == "faemb: stopped; run the same command again to go on"
        assert "Traceback" not in errors


def test_the_idle_share_of_workers_with_a_gpu_is_told(cluster, photos, model, tmp_path):
    cluster.start(workers=1)
    cluster.add_worker("--resources", "GPU=1")
    with open_cluster(cluster.address) as machines:
        assert wait_until(machines.have_gpus, pause=1)
    job = index(photos, model, tmp_path / "a.faemb", cluster.address)
    _, errors = job.communicate(timeout=PATIENCE)
    told = r"faemb: workers with a GPU were idle for \d+ % of the time in which there was work for them"
    assert re.fullmatch(told, errors.splitlines()[-1])
