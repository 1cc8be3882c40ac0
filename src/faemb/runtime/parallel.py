"""One task over many items in worker processes: results in order of completion, even if an item crashes its worker.

The number of submitted items is bounded, so items may be an infinite iterator. Workers send a note when they begin an
item. When a worker dies, the pool is rebuilt, and the notes tell why:

    An item was not finished at its deadline: it gets an error, the others are run again. The system itself ends the
    worker, since no code of Python runs while a library works.
    Otherwise (a crash in a decoder, the system's out-of-memory killer) each item that a worker had begun may be the
    cause: these suspects are run again one at a time. One that kills its worker again gets a `WorkerDied` error, the
    others their results.

Workers do not receive Ctrl-C, which a terminal sends to all processes, nor SIGTERM and SIGHUP: the parent process stops
them. If the parent is killed, they end too.
"""

import math
import os
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, islice
from multiprocessing import Pipe, resource_tracker
from typing import Any, Generic, TypeVar

from joblib.externals.loky import ProcessPoolExecutor  # unlike the standard one it needs no `if __name__` in scripts

from faemb.errors import FaembError
from faemb.runtime.limits import item_memory, item_seconds, too_late
from faemb.runtime.threads import cores
from faemb.runtime.worker import NOTE, TaskFailed, install, run
from faemb.settings import require_whole

__all__ = ["TaskFailed", "WorkerDied", "Workers", "checked_jobs", "spread"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_IN_FLIGHT = 4
"""Submitted items per worker: enough that no worker waits, few enough that little is repeated after a crash."""
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_KILLED = "the process that worked on it was killed, perhaps for lack of memory"
_STOPPING = {getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)}


class WorkerDied(FaembError):
    """The process that worked on an item was killed, twice."""


def spread(
    task: Callable[[Item], Result], items: Iterable[Item], *, jobs: int | None = None
) -> Iterator[tuple[Item, Result | Exception]]:
    """Each item with the result of `task` or the exception that it raised, in order of completion.

    An exception of this package is given as it is, any other as a `TaskFailed`.
    `task` is sent once to each of `jobs` workers (None: one per core), in which libraries use one thread.
    """
    workers, seconds = checked_jobs(jobs), item_seconds()
    item_memory()  # a wrong limit is an error here, and not one for each item
    waiting = _Waiting(iter(items))
    while True:
        broken: _Broken[Item] = _Broken(seconds)
        yield from _until_broken(task, waiting, workers, broken)
        if not broken:
            return
        yield from broken.outcomes()
        yield from _one_by_one(task, broken.suspects, seconds)
        waiting.again.extend(broken.innocent)


def checked_jobs(jobs: int | None) -> int:
    """The number of workers; by default one per core that this process may use."""
    if jobs is not None:
        require_whole("jobs", jobs, 1, 1024)
        return jobs
    return cores()


@dataclass
class _Waiting(Generic[Item]):
    """Items that are to be done; those to be done again come first."""

    items: Iterator[Item]
    again: deque[Item] = field(default_factory=deque)

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        return self.again.popleft() if self.again else next(self.items)


@dataclass
class _Broken(Generic[Item]):
    """The items that were submitted when a worker died; none if no worker has died."""

    seconds: float | None
    late: list[Item] = field(default_factory=list)
    """Begun, and not finished at their deadline."""
    suspects: list[Item] = field(default_factory=list)
    """May have crashed the worker."""
    innocent: list[Item] = field(default_factory=list)
    died: float = math.inf
    """When the worker died; the caller of `spread` may take its time before it asks for the next result."""

    def note_time(self, done: "Future[Any]") -> None:
        """Called by the pool's own thread as soon as an item has a result or can have none."""
        if _has_no_result(done):
            self.died = min(self.died, time.monotonic())

    def sort(self, submitted: dict[int, Item], begun: dict[int, float]) -> None:
        """`submitted` by number; `begun` has the time at which a worker has begun an item, by number."""
        limit = -1.0 if self.seconds is None else min(self.died, time.monotonic()) - self.seconds
        for number, item in submitted.items():
            if number not in begun:
                self.innocent.append(item)
            elif begun[number] <= limit:
                self.late.append(item)
            else:
                self.suspects.append(item)
        if self.late:
            self.innocent, self.suspects = self.suspects + self.innocent, []
        elif not self.suspects:  # a worker has died before it could send a note
            self.innocent, self.suspects = [], self.innocent

    def outcomes(self) -> Iterator[tuple[Item, Exception]]:
        for item in self.late:
            yield item, too_late("it", self.seconds or 0)

    def __bool__(self) -> bool:
        return bool(self.late or self.suspects)


def _until_broken(
    task: Callable[[Item], Result],
    items: Iterator[Item],
    workers: int,
    broken: _Broken[Item],
    ahead: int = _IN_FLIGHT,
) -> Iterator[tuple[Item, Result | Exception]]:
    """Run until the items end or a worker dies; then the submitted items are put into `broken`."""
    numbers = count()
    flying: dict[Future[Result], int] = {}
    submitted: dict[int, Item] = {}
    begun: dict[int, float] = {}
    with closing(_Processes(task, workers, broken.seconds)) as processes:
        while True:
            with suppress(BrokenProcessPool):  # the item is in `submitted` already
                for item in islice(items, ahead * workers - len(flying)):
                    number = next(numbers)
                    submitted[number] = item
                    flying[future := processes.submit(number, item)] = number
                    future.add_done_callback(broken.note_time)
            if not submitted:
                return
            wait(flying, return_when=FIRST_COMPLETED)
            begun |= processes.begun()
            finished = [future for future in flying if future.done() and not _has_no_result(future)]
            if not finished:
                broken.sort(submitted, begun)
                return
            for future in finished:
                error = future.exception()
                if error is not None and not isinstance(error, Exception):
                    raise error
                number = flying.pop(future)
                begun.pop(number, None)
                yield submitted.pop(number), future.result() if error is None else error


def _has_no_result(done: "Future[Any]") -> bool:
    """Whether a worker died before it could give the result."""
    return isinstance(done.exception(), BrokenProcessPool)


def _one_by_one(
    task: Callable[[Item], Result], suspects: list[Item], seconds: float | None
) -> Iterator[tuple[Item, Result | Exception]]:
    """Run one item at a time, to find out which one kills its worker."""
    waiting = iter(suspects)
    while True:
        broken: _Broken[Item] = _Broken(seconds)
        yield from _until_broken(task, waiting, 1, broken, ahead=1)
        if not broken:
            return
        yield from broken.outcomes()
        for item in broken.suspects:
            yield item, WorkerDied(_KILLED)


class Workers(Generic[Item, Result]):
    """Worker processes that wait for items, for as long as this object is open: for items that come one by one.

    Each process works on one item at a time for a thread of its own, so that a process that dies tells which item was
    the cause; a new process takes its place.
    """

    def __init__(self, task: Callable[[Item], Result], jobs: int | None = None) -> None:
        self._task, self._seconds = task, item_seconds()
        self._own = threading.local()
        self._open: set[_Processes] = set()
        self._count = checked_jobs(jobs)
        self._threads = ThreadPoolExecutor(self._count)

    def start(self) -> None:
        """Start the processes now, and not with their first items; this does not wait for them."""
        for _ in range(self._count):
            self._threads.submit(lambda: self._processes().submit_call(os.getpid).result())

    def submit(self, item: Item) -> "Future[Result]":
        """The result of the task, or its error, as `spread` gives it."""
        return self._threads.submit(self._run, item)

    def close(self) -> None:
        """Stop all processes, also those that work on an item."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for processes in list(self._open):
            processes.close()
        self._threads.shutdown()

    def _run(self, item: Item) -> Result:
        processes = self._processes()
        try:
            result = processes.submit(0, item).result()
            processes.begun()  # nobody waits for these notes, and they must not fill their pipe
            return result
        except BrokenProcessPool:
            begun = processes.begun().get(0, math.inf)
            self._own.processes = None
            self._open.discard(processes)
            processes.close()
            if self._seconds is not None and time.monotonic() - begun >= self._seconds:
                raise too_late("it", self._seconds) from None
            raise WorkerDied(_KILLED) from None

    def _processes(self) -> "_Processes":
        """The process of this thread."""
        processes: _Processes | None = getattr(self._own, "processes", None)
        if processes is None:
            processes = self._own.processes = _Processes(self._task, 1, self._seconds)
            self._open.add(processes)
        return processes


class _Processes:
    """A pool of worker processes that run one task."""

    def __init__(self, task: Callable[[Any], Any], count: int, seconds: float | None) -> None:
        if os.name == "posix":
            resource_tracker.ensure_running()  # before signals are blocked: starting it would unblock them
        self._notes, self._writer = Pipe(duplex=False)
        start = (task, os.getpid(), self._writer, seconds)
        self._executor: Any = ProcessPoolExecutor(count, env=_ONE_THREAD, initializer=install, initargs=start)

    def submit(self, number: int, item: Any) -> "Future[Any]":
        return self.submit_call(run, number, item)

    def submit_call(self, call: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        with _signals_blocked():  # the first call of submit starts the workers
            return self._executor.submit(call, *arguments)

    def begun(self) -> dict[int, float]:
        """When which items were begun, by the notes that have arrived since the last call."""
        read = {}
        while self._notes.poll():
            number, begun = NOTE.unpack(self._notes.recv_bytes())
            read[number] = begun
        return read

    def close(self) -> None:
        """Kill the workers. Waiting items are removed first: with some left, loky's own thread would raise an error."""
        with suppress(queue.Empty):
            while True:
                self._executor._work_ids.get_nowait()
        self._executor.shutdown(wait=True, kill_workers=True)
        self._notes.close()
        self._writer.close()


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Processes started in the block never receive Ctrl-C; this process receives it at the end of the block."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
