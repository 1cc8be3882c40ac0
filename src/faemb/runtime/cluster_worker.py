"""Code that `cluster` runs in a Dask worker: it passes items to worker processes of its own.

An item that crashes its process, or takes too long or too much memory, is detected here, as on a single machine
(`worker_processes`), and the Dask worker survives. A Dask worker has as many of these processes as it has threads.
"""

import multiprocessing
import os
import platform
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, NamedTuple

from faemb.errors import FaembError, RemoteError
from faemb.runtime.limits import Limits
from faemb.runtime.parallel import PoolLost, TaskFailed
from faemb.runtime.worker_processes import Workers

_TRIES = 2
_IDLE = 60.0
"""Seconds without items after which the processes of a task are stopped."""
_MOST = 2
"""Number of tasks whose processes are kept: one that extracts and one that encodes."""
_ALLOCATION = {"MALLOC_TRIM_THRESHOLD_": "134217728", "MALLOC_MMAP_THRESHOLD_": "33554432"}
"""Environment of the processes: the values that Dask sets for its workers make NumPy slower by a third."""


PACKAGES = ["faemb", "numpy", "opencv-python-headless"]
"""Packages on whose versions results depend."""


class Versions(NamedTuple):
    """Must be equal on client and workers: otherwise results could differ, or could not be unpickled."""

    faemb: str
    python: str
    numpy: str = ""
    """Empty where nothing is computed."""
    opencv: str = ""

    @classmethod
    def here(cls) -> "Versions":
        libraries = (_installed(each) for each in PACKAGES[1:])
        return cls(import_module("faemb").__version__, ".".join(platform.python_version_tuple()[:2]), *libraries)

    def __str__(self) -> str:
        libraries = f", NumPy {self.numpy}, OpenCV {self.opencv}" if self.numpy else ""
        return f"faemb {self.faemb} on Python {self.python}{libraries}"


def _installed(package: str) -> str:
    """A package's version, in the form in which Dask reports it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "None"


@dataclass(frozen=True)
class SentTask:
    """A task for many items; it is sent once to each worker."""

    key: str
    task: Callable[[Any], Any]
    limits: Limits
    versions: Versions


class ItemResult(NamedTuple):
    """The result of an item, or its error."""

    result: Any
    error: Exception | None
    worker: str
    seconds: float
    """Seconds the worker spent on it."""


class NotSharedError(RemoteError):
    """A worker does not see a file that the client sees."""


class OtherVersionError(PoolLost):
    """A worker has other versions than the client."""


def held(task: SentTask) -> SentTask:
    """The task as a result in Dask's memory, which it copies to other workers and can compute again."""
    return task


class SentItem(NamedTuple):
    item: Any
    needed: tuple[Path, ...]
    """Files of the item that exist on the client."""


def work(task: SentTask, group: Sequence[SentItem], worker: str = "") -> list[ItemResult]:
    """Run the task on each item, in processes of this worker."""
    began, worker = time.monotonic(), worker or _name()
    refusals = [_refusal(task, sent) for sent in group]
    if all(refusals):
        return [ItemResult(None, refusal, worker, 0.0) for refusal in refusals]
    with _processes(task) as processes:
        given = [no or processes.submit(sent.item) for sent, no in zip(group, refusals, strict=True)]
        return [_result(each, worker, (time.monotonic() - began) / len(group)) for each in given]


def _refusal(task: SentTask, sent: SentItem) -> FaembError | None:
    """Why this worker cannot work on an item."""
    try:
        _require(task.versions)
        _require_files(sent.needed)
    except FaembError as error:
        return error
    return None


def _result(given: "Future[Any] | FaembError", worker: str, seconds: float) -> ItemResult:
    if isinstance(given, FaembError):
        return ItemResult(None, given, worker, seconds)
    try:
        return ItemResult(given.result(), None, worker, seconds)
    except (FaembError, TaskFailed) as error:
        return ItemResult(None, error, worker, seconds)


def size_of(result: object) -> int:
    """Bytes of the arrays, texts and bytes in a result, which may be a tuple or a dataclass of such."""
    if isinstance(result, tuple | list):
        return sum(map(size_of, result))
    if is_dataclass(result):
        return sum(size_of(getattr(result, each.name)) for each in fields(result))
    if isinstance(result, bytes | str):
        return len(result)
    return int(getattr(result, "nbytes", 0))


def _name() -> str:
    from distributed import get_worker

    return str(get_worker().address)


def _require(versions: Versions) -> None:
    if Versions.here() != versions:
        raise OtherVersionError(wrong_version(f"the worker {socket.gethostname()}", Versions.here(), versions))


def wrong_version(name: str, there: Versions, here: Versions) -> str:
    return f"{name} has {there}, and this machine {here}; install the same version on both"


def _require_files(needed: tuple[Path, ...]) -> None:
    for path in needed:
        if not os.path.lexists(path):
            raise NotSharedError(
                f"{path} is not there on the worker {socket.gethostname()}; all workers must see images, and folders "
                "to write to, under the same paths as this machine"
            )


# The processes of this Dask worker.


@dataclass
class _Kept:
    workers: "Workers[Any, Any]"
    items: int = 0
    since: float = 0.0
    """When the last item was done."""


_kept: dict[str, _Kept] = {}
_lock = threading.Lock()


@contextmanager
def _processes(task: SentTask) -> Iterator["Workers[Any, Any]"]:
    """The processes that run this task."""
    with _lock:
        if task.key not in _kept:
            _stop_beyond(_MOST - 1)
            if not _kept:
                threading.Thread(target=_stop_idle, daemon=True).start()
                Finalize(None, _stop_all, exitpriority=1)  # else this process would wait for them when it ends
            _kept[task.key] = _Kept(_started(task))
        kept = _kept[task.key]
        kept.items += 1
    try:
        yield kept.workers
    finally:
        with _lock:
            kept.items -= 1
            kept.since = time.monotonic()


def _started(task: SentTask) -> "Workers[Any, Any]":
    from distributed import get_worker

    multiprocessing.current_process().daemon = False  # daemonic processes, as Dask's are, may not start others
    os.environ.update(_ALLOCATION)
    return Workers(task.task, get_worker().state.nthreads, tries=_TRIES, limits=task.limits)


def _stop_beyond(most: int) -> None:
    """Stop the processes of idle tasks, longest idle first, until at most `most` tasks are left."""
    idle = sorted((key for key, kept in _kept.items() if not kept.items), key=lambda key: _kept[key].since)
    for key in idle[: max(0, len(_kept) - most)]:
        _kept.pop(key).workers.close()


def _stop_all() -> None:
    with _lock:
        while _kept:
            _kept.popitem()[1].workers.close()


def _stop_idle() -> None:
    """Runs in a thread until no processes are left."""
    while True:
        time.sleep(_IDLE / 10)
        with _lock:
            old = time.monotonic() - _IDLE
            for key in [key for key, kept in _kept.items() if not kept.items and kept.since < old]:
                _kept.pop(key).workers.close()
            if not _kept:
                return
