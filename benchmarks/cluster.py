"""Processor time per image of everything that takes part when a cluster works: what docs/scale.md calculates from.

Extraction and encoding in one thread, on Mikolajczyk's images enlarged to 1,024 pixels and on those of ukbench400, with
the preset `small` learned from holidays811; the scheduler, with tasks that return as much as an image's features; the
process that writes a collection. Times are of processors, so that other work on the machine matters less.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import PIL.Image

from benchmarks import affine
from benchmarks.report import Result
from faemb.collection import Collection, Model, fit_model, new_model
from faemb.features.folders import find_images
from faemb.runtime import cluster as machines
from faemb.runtime.cluster import Cluster, open_cluster
from faemb.runtime.parallel import spread
from faemb.runtime.threads import use_cores

_SIDE, _SOME, _STORED = 1024, 24, 100
_BYTES, _SENT = 105_000, 1500
"""Result of a task, as long as the packed features of an image of holidays811, and number of such tasks."""
_OPTIONS = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")


def run() -> Iterator[Result]:
    data = affine.data_folder()
    if data is None:
        return
    model, _ = fit_model(data / "holidays811", new_model())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images = find_images([data / "ukbench400"]).images
        with _processes(folder) as (address, scheduler), open_cluster(address) as cluster:
            yield from _messages(cluster, scheduler)
            seconds = _writer(cluster, model, images, folder / "one.faemb")
            yield Result("write an image to a collection", 1000 * seconds, "ms of the processor")
        use_cores(1)
        for of, some in (("affine, 1,024 pixels", _enlarged(data, folder)), ("ukbench400", images)):
            yield from _worker(model, some[:_SOME], of)


def nothing_but_bytes(item: int) -> bytes:
    """A task, which workers import."""
    return bytes(_BYTES)


def _worker(model: Model, images: Sequence[Path], of: str) -> Iterator[Result]:
    began = time.process_time()
    found = [model.extractor.extract(image) for image in images]
    yield Result(f"extract, {of}", 1000 * (time.process_time() - began) / len(images), "ms of the processor")
    yield Result(f"features, {of}", sum(map(len, found)) / len(images), "per image")
    model.encoder_.prepare(100_000)
    began = time.process_time()
    model.encode([each.descriptors for each in found])
    yield Result(f"encode, {of}", 1000 * (time.process_time() - began) / len(images), "ms of the processor")


def _messages(cluster: Cluster, scheduler: int) -> Iterator[Result]:
    usual = machines._ALONE_UP_TO
    for together in (1, 16):
        machines._ALONE_UP_TO = 2 / together  # type: ignore[assignment]
        list(spread(nothing_but_bytes, range(64), jobs=cluster))
        before = _processor(scheduler)
        list(spread(nothing_but_bytes, range(_SENT), jobs=cluster))
        spent = (_processor(scheduler) - before) / _SENT
        yield Result(f"scheduler, {together} images in a message", 1000 * spent, "ms of the processor per image")
    machines._ALONE_UP_TO = usual


def _writer(cluster: Cluster, model: Model, images: Sequence[Path], out: Path) -> float:
    with Collection.create(out, model) as collection:
        collection.add(images[:4], jobs=cluster)
        began = time.process_time()
        added = collection.add(images[: _STORED + 4], jobs=cluster).added
        return (time.process_time() - began) / added


def _enlarged(data: Path, folder: Path) -> list[Path]:
    made = []
    for number, path in enumerate(islice(find_images([data / "affine"]).images, _SOME)):
        image = PIL.Image.open(path).convert("RGB")
        size = (_SIDE, round(_SIDE * image.height / image.width))
        made.append(folder / f"{number}.jpg")
        image.resize(size, PIL.Image.Resampling.BICUBIC).save(made[-1], quality=92)
    return made


@contextmanager
def _processes(folder: Path) -> Iterator[tuple[str, int]]:
    """Address and process of a scheduler that has two workers."""
    told = folder / "scheduler.json"
    place = ["--scheduler-file", str(told), *_OPTIONS]
    started = [_started("dask_scheduler", "--port", "0", *place)]
    try:
        while not told.exists():
            time.sleep(0.1)
        started += [_started("dask_worker", "--nthreads", "1", "--memory-limit", "0", *place) for _ in range(2)]
        yield _address(told), started[0].pid
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def _started(program: str, *options: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", f"distributed.cli.{program}", *options]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)  # noqa: S603


def _address(told: Path) -> str:
    while True:
        try:
            return str(json.loads(told.read_text())["address"])
        except ValueError:  # it is being written
            time.sleep(0.1)


def _processor(process: int) -> float:
    """Seconds of the processor that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100
