"""A Dask cluster that processes items, in place of worker processes on this machine.

    Cluster  ->  scheduler  ->  Dask workers on many machines  ->  worker processes (`cluster_worker`)

An item whose Dask worker is lost is run by another; a task is sent once to each worker. The loss of the scheduler is an
error: everything that the caller has stored stays, and the call can be repeated. Workers must see image files under the
same paths as this machine. Dask exchanges pickled Python objects, so a cluster must be trusted like one's own account.

A worker may declare the resource GPU (`dask worker --resources GPU=1`): tasks that require it run only there, and other
tasks run on other workers while there are any.
"""

import logging
import os
import re
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from faemb.errors import FaembError, InputError, MissingExtraError, reason
from faemb.runtime.cluster_worker import ItemResult, SentItem, SentTask, Versions, held, work, wrong_version
from faemb.runtime.limits import Limits, limits_now
from faemb.runtime.parallel import PoolLost, WorkerDied, signals_blocked
from faemb.settings import require_whole

Item = TypeVar("Item")
Result = TypeVar("Result")

EXTRA = "cluster"
GPU = "GPU"
_PER_THREAD = 2
"""Submitted items per thread of a Dask worker: one that is processed, and one that is sent meanwhile."""
_MOST_TOGETHER, _ALONE_UP_TO = 16, 4
"""Largest number of items per message; threads of the cluster per item of a message."""
_LOST_TWICE = 2
"""Number of times an item is submitted; Dask gives it up each time after four workers died on it."""
_CONNECTING, _JOINING = 10.0, 30.0
"""Seconds to wait for a scheduler, and for its first worker."""
_ALONE = 60.0
"""Seconds without any worker after which the work is given up; a worker that died is usually restarted sooner."""
_FRESH = 2.0
"""Seconds for which the cached list of workers is used."""
_SETTINGS = {
    "distributed.comm.timeouts.connect": _CONNECTING,
    "distributed.admin.large-graph-warning-threshold": "1TB",  # a model is sent once
}
_LOGGERS = ("distributed", "distributed.client", "distributed.core", "distributed.nanny", "distributed.scheduler")


@contextmanager
def open_cluster(name: str) -> Iterator["Cluster"]:
    """Connect to the Dask scheduler at an address such as tcp://host:8786; local:N starts N workers on this machine."""
    address, count = _parsed(name)
    distributed = _distributed()
    with ExitStack() as stack:
        stack.enter_context(_quiet(distributed))
        if count is not None:
            address = stack.enter_context(_local(distributed, count))
        client = stack.enter_context(_connected(distributed, address))
        cluster = Cluster(client, name)
        cluster.check()
        yield cluster


def _parsed(name: str) -> tuple[str, int | None]:
    """An address, or the number of local workers."""
    if match := re.fullmatch(r"local:(\d{1,4})", name, re.ASCII):
        require_whole("the number of local workers", int(match[1]), 1, 1024)
        return "", int(match[1])
    if not re.fullmatch(r"(tcp|tls)://[^\s/]+:\d{1,5}", name, re.ASCII):
        raise InputError(
            f"cluster is {name!r}; expected the address of a Dask scheduler, such as tcp://scheduler:8786, or local:N "
            "for N workers on this machine"
        )
    return name, None


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError("a cluster", EXTRA) from error
    return distributed


@contextmanager
def _quiet(distributed: Any) -> Iterator[None]:
    """Silence Dask's log about lost workers and connections, which this module reports itself."""
    import dask

    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.level for logger in loggers]
    with dask.config.set(_SETTINGS):
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            for logger, level in zip(loggers, before, strict=True):
                logger.setLevel(level)


@contextmanager
def _local(distributed: Any, count: int) -> Iterator[str]:
    """Address of a scheduler in this process, with workers in processes of their own, which end with this one."""
    with signals_blocked():  # Ctrl-C is for this process alone, which stops the workers
        cluster = distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        )
    try:
        yield cluster.scheduler_address
    finally:
        cluster.close()


@contextmanager
def _connected(distributed: Any, address: str) -> Iterator[Any]:
    try:
        with warnings.catch_warnings(action="ignore"):  # about other versions, which `check` compares itself
            client = distributed.Client(address, timeout=_CONNECTING, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise FaembError(
            f"there is no Dask scheduler at {address}; start one with: dask scheduler, or check the address"
        ) from error
    try:
        yield client
    finally:
        with suppress(OSError, TimeoutError):
            client.close(timeout=_CONNECTING)


@dataclass
class Occupation:
    """How long workers with a GPU were busy while there was work for them."""

    seconds: float = 0.0
    """Sum over all of these workers."""
    began: float | None = None
    ended: float = 0.0
    workers: set[str] = field(default_factory=set)

    def note(self, result: ItemResult) -> None:
        self.seconds += result.seconds
        self.workers.add(result.worker)
        self.ended = time.monotonic()

    @property
    def idle_share(self) -> float | None:
        """Share of the time in which the workers were idle; None if there was no such worker."""
        if self.began is None or not self.workers:
            return None
        return max(0.0, 1 - self.seconds / (len(self.workers) * max(self.ended - self.began, 1e-9)))


class Cluster:
    """Workers of a Dask cluster; `spread(task, items, jobs=cluster)` uses them."""

    def __init__(self, client: Any, name: str) -> None:
        self.client, self.name = client, name
        self.gpu = Occupation()
        self._known: Mapping[str, Any] = {}
        self._asked = -1e9
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise an error if there are no workers, or if some have another version."""
        try:
            self.client.wait_for_workers(1, timeout=_JOINING)
        except TimeoutError as error:
            raise FaembError(
                f"the scheduler {self.name} has no workers; start some with: dask worker {self.name}"
            ) from error
        found = self.client.get_versions(packages=["faemb"])
        _require_versions(f"the scheduler {self.name}", found["scheduler"])  # it unpacks what is sent to the workers
        for worker, versions in found["workers"].items():
            _require_versions(f"the worker {worker}", versions)

    def have_gpus(self) -> bool:
        return any(map(_has_gpu, self.workers().values()))

    def workers(self) -> Mapping[str, Any]:
        """Dask's description of each worker, by address."""
        with self._lock:
            if time.monotonic() - self._asked > _FRESH:
                self._known = self._ask()
                self._asked = time.monotonic()
            return self._known

    def _ask(self) -> Mapping[str, Any]:
        try:
            return self.client.sync(self.client.scheduler.identity, n_workers=-1)["workers"]
        except (OSError, TimeoutError, AttributeError) as error:  # Dask's client has no scheduler after it was lost
            raise self.lost() from error

    def lost(self) -> PoolLost:
        return PoolLost(
            f"the scheduler {self.name} is gone; what was stored is kept: run the same command again when it is back"
        )

    def pool(
        self, task: Callable[[Item], Result], *, limits: Limits | None = None, gpu: bool = False
    ) -> "DaskPool[Item, Result]":
        """`gpu`: use only workers that have one."""
        return DaskPool(self, task, limits_now() if limits is None else limits, gpu)


_Group = list[tuple[Any, "Future[Any]"]]
"""Items that are sent together, with the future of each."""


class DaskPool(Generic[Item, Result]):
    """The workers of a cluster, with one task."""

    def __init__(self, cluster: Cluster, task: Callable[[Item], Result], limits: Limits, gpu: bool) -> None:
        self._cluster, self._gpu = cluster, gpu
        self._executor = cluster.client.get_executor(pure=False)
        self._closed = False
        self._flying = 0
        self._waiting: _Group = []
        self._last_seen = time.monotonic()
        sent = SentTask(uuid.uuid4().hex, task, limits, Versions.here())
        self._task = cluster.client.submit(held, sent, pure=False)
        if gpu and cluster.gpu.began is None:
            cluster.gpu.began = time.monotonic()

    @property
    def ahead(self) -> int:
        return _PER_THREAD * self._threads() * self.together

    @property
    def together(self) -> int:
        """Number of items sent in one message: a scheduler handles a few hundred messages per second."""
        return 1 if self._gpu else min(_MOST_TOGETHER, max(1, int(self._threads() / _ALONE_UP_TO)))

    def _threads(self) -> int:
        return max(1, sum(self._capacity(each) for each in self._fitting().values()))

    def _capacity(self, worker: Mapping[str, Any]) -> int:
        """Number of items that the worker processes at a time."""
        return int(worker["resources"][GPU]) if self._gpu else int(worker["nthreads"])

    def _fitting(self) -> Mapping[str, Any]:
        """The workers that may run this task."""
        workers = self._cluster.workers()
        if self._gpu:
            return {address: each for address, each in workers.items() if _has_gpu(each)}
        others = {address: each for address, each in workers.items() if not _has_gpu(each)}
        return others or workers

    def submit(self, item: Item) -> "Future[Result]":
        answer: Future[Result] = Future()
        self._waiting.append((item, answer))
        return answer

    def flush(self) -> None:
        """Send the buffered items; few items are sent one by one, so that every worker gets some."""
        waiting, self._waiting = self._waiting, []
        size = self.together if self._flying >= self._threads() else len(waiting) // self._threads()
        size = max(1, min(size, self.together))
        for start in range(0, len(waiting), size):
            self._send(waiting[start : start + size], tries=_LOST_TWICE)

    def _send(self, group: _Group, tries: int) -> None:
        """Submit items to Dask. Other workers are allowed, since the preferred ones may be gone when the items run."""
        if self._cluster.client.status != "running":
            raise self._cluster.lost()
        place: dict[str, Any] = {"resources": {GPU: 1}} if self._gpu else {}
        fitting = self._fitting()
        if not self._gpu and len(fitting) < len(self._cluster.workers()):
            place = {"workers": list(fitting), "allow_other_workers": True}
        self._flying += 1
        given = self._executor.submit(work, self._task, [_sent(item) for item, _ in group], **place)
        given.add_done_callback(partial(self._settle, group, tries))

    def _settle(self, group: _Group, tries: int, given: "Future[list[ItemResult]]") -> None:
        """Called in Dask's own thread when the items of a message are done."""
        self._flying -= 1
        if given.cancelled():
            _fail(group, self._cluster.lost())
            return
        error = given.exception()
        if error is None:
            for (_, answer), found in zip(group, given.result(), strict=True):
                self._take(answer, found)
        elif type(error).__name__ != "KilledWorker":
            _fail(group, _unusable(error))
        elif tries > 1 and not self._closed:
            threading.Thread(target=self._send_again, args=(group, tries - 1), daemon=True).start()
        else:
            _fail(group, WorkerDied("every worker that was given it died, perhaps for lack of memory"))

    def _send_again(self, group: _Group, tries: int) -> None:
        """Send the items one by one, to find the one that kills workers."""
        for each in group:
            try:
                self._send([each], tries)
            except Exception as error:
                _fail([each], error if isinstance(error, PoolLost) else self._cluster.lost())

    def _take(self, answer: "Future[Result]", found: ItemResult) -> None:
        if self._gpu:
            self._cluster.gpu.note(found)
        if found.error is None:
            answer.set_result(found.result)
        else:
            answer.set_exception(found.error)

    def look(self) -> None:
        now = time.monotonic()
        if self._fitting():
            self._last_seen = now
        elif now - self._last_seen > _ALONE:
            kind = "workers with a GPU" if self._gpu else "workers"
            raise PoolLost(
                f"all {kind} of {self._cluster.name} are gone; what was stored is kept: start some, and run the same "
                "command again"
            )

    def close(self) -> None:
        self._closed = True
        with suppress(Exception):  # the scheduler may be gone
            self._executor.shutdown(wait=False)
            self._task.release()


def _fail(group: _Group, error: Exception) -> None:
    for _, answer in group:
        answer.set_exception(error)


def _sent(item: Any) -> SentItem:
    sent = _absolute(item)
    return SentItem(sent, tuple(path for path in _paths(sent) if os.path.lexists(path)))


def _has_gpu(worker: Mapping[str, Any]) -> bool:
    return float(worker.get("resources", {}).get(GPU, 0)) >= 1


def _require_versions(name: str, versions: Mapping[str, Any]) -> None:
    here = Versions.here()
    there = versions["packages"].get("faemb")
    if there is None:
        raise FaembError(f'{name} has no faemb; install it there: pip install "faemb[{EXTRA}]=={here.faemb}"')
    python = ".".join(str(versions["host"]["python"]).split(".")[:2])
    if Versions(there, python) != here:
        raise FaembError(wrong_version(name, Versions(there, python), here))


def _unusable(error: BaseException) -> PoolLost:
    """Usually the task's module is missing on a worker that joined after `check`."""
    return PoolLost(
        f"a worker cannot run the task ({reason(error)}); install {Versions.here()} with the extra {EXTRA!r} on every "
        "worker"
    )


def _paths(item: object) -> Iterator[Path]:
    if isinstance(item, Path):
        yield item
    elif isinstance(item, tuple):
        for each in item:
            yield from _paths(each)


def _absolute(item: Any) -> Any:
    """The same item with absolute paths: a worker has another current folder."""
    if isinstance(item, Path):
        return item.absolute()
    if isinstance(item, tuple):
        parts = map(_absolute, item)
        return type(item)(*parts) if hasattr(item, "_fields") else tuple(parts)
    return item
