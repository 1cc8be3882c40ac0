"""A Dask cluster that processes items, in place of worker processes on this machine.

    Cluster  ->  scheduler  ->  Dask workers on many machines  ->  worker processes (`cluster_worker`)

An item whose Dask worker is lost is run by another; a task is sent once to each worker. The loss of the scheduler is an
error: everything that the caller has stored stays, and the call can be repeated. Workers must see image files under the
same paths as this machine, or at URLs. A worker of another version, or one that refuses an item which another can
process, gets no more items. Dask exchanges pickled Python objects, so a cluster must be trusted like one's own account.

A worker may declare the resource GPU (`dask worker --resources GPU=1`): tasks that require it run only there, and other
tasks run on other workers while there are any.
"""

import os
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from faemb.errors import FaembError, MissingExtraError, ReadError, RefusedError, reason
from faemb.runtime.cluster_worker import (
    PACKAGES,
    ItemResult,
    NotSharedError,
    OtherVersionError,
    SentItem,
    SentTask,
    Versions,
    held,
    size_of,
    work,
    wrong_version,
)
from faemb.runtime.dask_connection import EXTRA, connected_to
from faemb.runtime.limits import Limits, limits_now
from faemb.runtime.parallel import PoolLost, WorkerDied

Item = TypeVar("Item")
Result = TypeVar("Result")

GPU = "GPU"
_PER_THREAD = 2
"""Submitted items per thread of a Dask worker: one that is processed, and one that is sent meanwhile."""
_MOST_TOGETHER, _ALONE_UP_TO = 16, 4
"""Largest number of items per message; threads of the cluster per item of a message."""
_HELD_BYTES, _ASSUMED_BYTES = 512_000_000, 300_000
"""Dask delivers every result as soon as it is ready, so this process may hold those of all submitted items: the size up
to which more than two items per thread are submitted, and the size of a result before the first one is known."""
_ATTEMPTS = 2
"""Number of times an item is submitted; Dask gives it up each time after four workers died on it."""
_JOINING = 30.0
"""Seconds to wait for the first worker of a scheduler."""
_ANSWERING, _SILENT = 10.0, 300.0
"""Seconds without an answer of the scheduler after which this is said, and after which the work is given up."""
_ALONE = 60.0
"""Seconds without any worker after which the work is given up; a worker that died is usually restarted sooner."""
_FRESH = 2.0
"""Seconds for which the cached list of workers is used."""
_REFUSALS = (NotSharedError, MissingExtraError, OtherVersionError, ReadError, RefusedError)
"""Errors of an item that are the worker's: another worker may be able to process it."""


@contextmanager
def open_cluster(name: str, notice: Callable[[str], None] | None = None) -> Iterator["Cluster"]:
    """Connect to the Dask scheduler at an address such as tcp://host:8786; local:N starts N workers on this machine.

    `notice` is called with a sentence when the cluster works worse than it could; by default this is a warning.
    """
    with connected_to(name) as client:
        cluster = Cluster(client, name, notice or warnings.warn)
        cluster.check()
        yield cluster


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

    def __init__(self, client: Any, name: str, notice: Callable[[str], None]) -> None:
        self.client, self.name, self.notice = client, name, notice
        self.gpu = Occupation()
        self.present = 0
        """Number of workers, whether they can be used or not."""
        self._known: Mapping[str, Any] = {}
        self._compared: set[str] = set()
        """Workers whose versions are known."""
        self._unfit: dict[str, str] = {}
        """Workers of other versions, with a sentence about each."""
        self._asked = -1e9
        self._lock = threading.RLock()

    def check(self) -> None:
        """Raise an error if the scheduler, or every worker, has another version, or if there are no workers."""
        try:
            self.client.wait_for_workers(1, timeout=_JOINING)
        except TimeoutError as error:
            raise FaembError(
                f"the scheduler {self.name} has no workers; start some with: dask worker {self.name}"
            ) from error
        # It unpacks what is sent to the workers, and computes nothing.
        fault = _fault(f"the scheduler {self.name}", self._ask("versions", packages=PACKAGES[:1]), computes=False)
        if fault is not None:
            raise FaembError(fault)
        if not self.workers() and self._unfit:
            raise FaembError(next(iter(self._unfit.values())))

    def have_gpus(self) -> bool:
        return any(map(_has_gpu, self.workers().values()))

    def workers(self, *, now: bool = False) -> Mapping[str, Any]:
        """Dask's description of each worker that can be used, by address."""
        with self._lock:
            if now or time.monotonic() - self._asked > _FRESH:
                found = self._ask("identity", n_workers=-1)["workers"]
                self._compare([address for address in found if address not in self._compared])
                self.present = len(found)
                self._known = {address: each for address, each in found.items() if address not in self._unfit}
                self._asked = time.monotonic()
            return self._known

    def _compare(self, joined: Sequence[str]) -> None:
        """Look at the versions of workers that have joined; one that does not answer yet is asked again later."""
        if not joined:
            return
        told = self._ask(
            "broadcast", msg={"op": "versions", "packages": PACKAGES}, workers=list(joined), on_error="ignore"
        )
        self._compared |= told.keys()
        faults = {address: _fault(f"the worker {address}", versions) for address, versions in told.items()}
        unfit = {address: fault for address, fault in faults.items() if fault is not None}
        self._unfit |= unfit
        if len(unfit) < len(told) or self._known:  # else there is an error
            for fault in unfit.values():
                self.notice(f"{fault}; it is not used")

    def _ask(self, what: str, **arguments: Any) -> Any:
        """The scheduler's answer; one that is suspended, or too busy, is waited for."""
        end, said = time.monotonic() + _SILENT, False
        while True:
            try:
                return self.client.sync(getattr(self.client.scheduler, what), callback_timeout=_ANSWERING, **arguments)
            except TimeoutError as error:
                if time.monotonic() > end:
                    raise self.lost() from error
                if not said:
                    self.notice(f"the scheduler {self.name} does not answer; waiting for it")
                said = True
            except (OSError, AttributeError) as error:  # Dask's client has no scheduler after it was lost
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


@dataclass(eq=False)
class _Submitted:
    """An item, its future result, and the workers that could not process it."""

    item: Any
    answer: "Future[Any]" = field(default_factory=Future)
    refused: dict[str, Exception] = field(default_factory=dict)


_Group = list[_Submitted]
"""Items that are sent together."""


class DaskPool(Generic[Item, Result]):
    """The workers of a cluster, with one task."""

    def __init__(self, cluster: Cluster, task: Callable[[Item], Result], limits: Limits, gpu: bool) -> None:
        self._cluster, self._gpu = cluster, gpu
        self._executor = cluster.client.get_executor(pure=False)
        self._closed = False
        self._lock = threading.Lock()
        """Guards what Dask's threads change: the next five."""
        self._flying = 0
        self._results, self._bytes = 0, 0
        self._unable: set[str] = set()
        """Workers that refused items which others could process."""
        self._in_use: Set[str] = set()
        """Workers that could run the task when last looked at."""
        self._held: _Group = []
        """Items for which there is no worker at the moment."""
        self._waiting: _Group = []
        self._alone_since: float | None = None
        sent = SentTask(uuid.uuid4().hex, task, limits, Versions.here())
        self._task = cluster.client.submit(held, sent, pure=False, **self._place(self._fitting()))
        if gpu and cluster.gpu.began is None:
            cluster.gpu.began = time.monotonic()

    @property
    def ahead(self) -> int:
        two_each = _PER_THREAD * self._threads()
        return min(two_each * self.together, max(two_each, self._room()))

    @property
    def together(self) -> int:
        """Number of items sent in one message: a scheduler handles a few hundred messages per second."""
        if self._gpu:
            return 1
        messages = _PER_THREAD * max(1, len(self._fitting()))  # at least two for each worker
        return max(1, min(_MOST_TOGETHER, int(self._threads() / _ALONE_UP_TO), self._room() // messages))

    def _room(self) -> int:
        """Number of results that this process may hold."""
        with self._lock:
            size = self._bytes / self._results if self._results else _ASSUMED_BYTES
        return int(_HELD_BYTES / max(size, 1))

    def _threads(self) -> int:
        return max(1, sum(self._capacity(each) for each in self._fitting().values()))

    def _capacity(self, worker: Mapping[str, Any]) -> int:
        """Number of items that the worker processes at a time."""
        return int(worker["resources"][GPU]) if self._gpu else int(worker["nthreads"])

    def _fitting(self) -> Mapping[str, Any]:
        """The workers that may run this task."""
        workers = {address: each for address, each in self._cluster.workers().items() if address not in self._unable}
        with_gpu = {address: each for address, each in workers.items() if _has_gpu(each)}
        others = {address: each for address, each in workers.items() if address not in with_gpu}
        fitting = with_gpu if self._gpu else others or workers
        if fitting:
            self._alone_since = None
        self._in_use = fitting.keys()
        return fitting

    def submit(self, item: Item) -> "Future[Result]":
        self._waiting.append(_Submitted(item))
        return self._waiting[-1].answer

    def flush(self) -> None:
        """Send the buffered items; few items are sent one by one, so that every worker gets some."""
        self._send_held()
        waiting, self._waiting = self._waiting, []
        size = self.together if self._flying >= self._threads() else len(waiting) // self._threads()
        size = max(1, min(size, self.together))
        for start in range(0, len(waiting), size):
            self._send(waiting[start : start + size], _ATTEMPTS)

    def _send(self, group: _Group, attempts: int) -> None:
        """Submit items to Dask, for the workers that have not refused them."""
        if self._cluster.client.status != "running":
            raise self._cluster.lost()
        fitting = self._fitting()
        able = {
            address: each for address, each in fitting.items() if not any(address in each.refused for each in group)
        }
        if not fitting and self._cluster.present:  # the workers that there are cannot run it
            with self._lock:
                self._held += group
            return
        with self._lock:
            self._flying += 1
        sent = [_sent(each.item) for each in group]
        given = self._executor.submit(work, self._task, sent, **self._place(able or fitting))
        given.add_done_callback(partial(self._settle, group, attempts))

    def _place(self, workers: Mapping[str, Any]) -> dict[str, Any]:
        """Where Dask may run a call. Others are allowed, since the preferred ones may be gone when it runs."""
        place: dict[str, Any] = {"resources": {GPU: 1}} if self._gpu else {}
        if 0 < len(workers) < self._cluster.present:
            place |= {"workers": list(workers), "allow_other_workers": True}
        return place

    def _settle(self, group: _Group, attempts: int, given: "Future[list[ItemResult]]") -> None:
        """Called in Dask's own thread when the items of a message are done."""
        with self._lock:
            self._flying -= 1
        if given.cancelled():
            _fail(group, self._cluster.lost())
            return
        error = given.exception()
        if error is None:
            self._settle_each(list(zip(group, given.result(), strict=True)))
        elif attempts > 1 and not self._closed:
            threading.Thread(target=self._send_again, args=(group, attempts - 1), daemon=True).start()
        elif type(error).__name__ == "KilledWorker":
            _fail(group, WorkerDied("every worker that was given it died, perhaps for lack of memory"))
        else:
            _fail(group, _unusable(error))

    def _settle_each(self, results: Sequence[tuple[_Submitted, ItemResult]]) -> None:
        refused = [each for each in results if isinstance(each[1].error, _REFUSALS)]
        for submitted, found in results:
            if not isinstance(found.error, _REFUSALS):
                self._take(submitted, found)
        if refused:
            threading.Thread(target=self._try_others, args=(refused,), daemon=True).start()

    def _send_again(self, group: _Group, attempts: int) -> None:
        """Send the items one by one, to find the one that kills workers, and to none that has just joined unfit."""
        try:
            self._cluster.workers(now=True)
            for each in group:
                self._send([each], attempts)
        except Exception as error:
            _fail(group, error if isinstance(error, PoolLost) else self._cluster.lost())

    def _try_others(self, refused: Sequence[tuple[_Submitted, ItemResult]]) -> None:
        """Send each item to a worker that has not refused it; if all have, it fails."""
        for submitted, found in refused:
            assert found.error is not None  # noqa: S101  (a refusal)
            submitted.refused[found.worker] = found.error
            try:
                others = self._others(submitted.refused, found)
                if others or found.worker in self._unable:
                    self._send([submitted], _ATTEMPTS)
                else:
                    _fail([submitted], found.error)
            except Exception as error:
                _fail([submitted], error if isinstance(error, PoolLost) else self._cluster.lost())

    def _others(self, refused: Mapping[str, Exception], last: ItemResult) -> Set[str]:
        """The workers that may be able to process an item."""
        if isinstance(last.error, OtherVersionError):
            self._cluster.workers(now=True)  # it has joined since they were last compared
        return self._fitting().keys() - refused.keys()

    def _take(self, submitted: _Submitted, found: ItemResult) -> None:
        self._pass_over(submitted.refused)
        if self._gpu:
            self._cluster.gpu.note(found)
        with self._lock:
            self._results += 1
            self._bytes += size_of(found.result)
        if found.error is None:
            submitted.answer.set_result(found.result)
        else:
            submitted.answer.set_exception(found.error)

    def _pass_over(self, refused: Mapping[str, Exception]) -> None:
        """Use workers no more that refused an item which another has processed; the last one is kept."""
        with self._lock:
            found = {
                worker: error
                for worker, error in refused.items()
                if worker not in self._unable and not isinstance(error, OtherVersionError)  # which has been said
            }
            if not self._in_use - self._unable - found.keys():
                return  # each can do what others cannot: what the last one refuses fails
            self._unable |= found.keys()
        for worker, error in found.items():
            self._cluster.notice(f"the worker {worker} gets no more of this work: {error}")

    def look(self) -> None:
        now = time.monotonic()
        if self._fitting():
            self._send_held()
        elif self._alone_since is None:  # perhaps long after the last look
            self._alone_since = now
        elif now - self._alone_since > _ALONE:
            kind = "workers with a GPU" if self._gpu else "workers"
            raise PoolLost(
                f"all {kind} of {self._cluster.name} are gone; what was stored is kept: start some, and run the same "
                "command again"
            )

    def _send_held(self) -> None:
        with self._lock:
            held, self._held = self._held, []
        for each in held:
            self._send([each], _ATTEMPTS)

    def close(self) -> None:
        self._closed = True
        with suppress(Exception):  # the scheduler may be gone
            self._executor.shutdown(wait=False)
            self._task.release()


def _fail(group: _Group, error: Exception) -> None:
    for each in group:
        if not each.answer.done():
            each.answer.set_exception(error)


def _sent(item: Any) -> SentItem:
    sent = _absolute(item)
    return SentItem(sent, tuple(path for path in _paths(sent) if os.path.lexists(path)))


def _has_gpu(worker: Mapping[str, Any]) -> bool:
    return float(worker.get("resources", {}).get(GPU, 0)) >= 1


def _fault(name: str, versions: Mapping[str, Any], *, computes: bool = True) -> str | None:
    """A sentence if the versions of a scheduler or worker, as Dask reports them, do not fit; None if they do."""
    here = Versions.here()
    there = versions["packages"].get("faemb")
    if there is None:
        return f'{name} has no faemb; install it there: pip install "faemb[{EXTRA}]=={here.faemb}"'
    python = ".".join(str(versions["host"]["python"]).split(".")[:2])
    if not computes:
        here = Versions(here.faemb, here.python)
        found = Versions(there, python)
    else:
        found = Versions(there, python, *(str(versions["packages"].get(each)) for each in PACKAGES[1:]))
    return None if found == here else wrong_version(name, found, here)


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
