"""Worker processes on this machine: each works on one item at a time, so that it is known which item a process died on.

A new process takes the place of one that died:

    If the item was not finished at its deadline, it gets an error. The system itself kills the process, since no Python
    code runs during a call of a library.
    Otherwise (a crash in a decoder, the system's out-of-memory killer) the item may not be the cause: it runs once
    more, while the other processes wait. If its process dies again, it gets a `WorkerDied` error.

Workers do not receive Ctrl-C, which a terminal sends to all processes, nor SIGTERM and SIGHUP: the parent process stops
them. If the parent is killed, they end too.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import Pipe, resource_tracker
from typing import Any, Generic, TypeVar

from joblib.externals.loky import ProcessPoolExecutor  # unlike the standard one it needs no `if __name__` in scripts

from faemb.errors import FaembError
from faemb.runtime.limits import Limits, limits_now, too_late
from faemb.runtime.threads import cores
from faemb.runtime.worker import NOTE, install, run
from faemb.settings import require_whole

Item = TypeVar("Item")
Result = TypeVar("Result")

_IN_FLIGHT = 4
"""Submitted items per worker, so that no worker waits."""
_PICKED_UP = 0.001
"""Seconds between two checks whether loky has given an item to its process."""
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_KILLED = "the process that worked on it was killed, perhaps for lack of memory"
_SILENT_CLEANER = "ignore:resource_tracker"
_STOPPING = {getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)}


class WorkerDied(FaembError):
    """The process that worked on an item was killed, on every try."""

    def __init__(self, sentence: str = _KILLED) -> None:
        super().__init__(sentence)


def checked_jobs(jobs: int | None) -> int:
    """The number of worker processes; by default one per core that this process may use."""
    if jobs is not None:
        require_whole("jobs", jobs, 1, 1024)
        return jobs
    return cores()


class Workers(Generic[Item, Result]):
    """Worker processes that wait for items, for as long as this object is open.

    Each process works on one item at a time for a thread of its own. They are started when there are items for them.
    """

    def __init__(
        self,
        task: Callable[[Item], Result],
        jobs: int | None = None,
        *,
        tries: int = 1,
        limits: Limits | None = None,
    ) -> None:
        """`tries`: how often an item is run if its process dies; `limits`: those of the environment if not given."""
        self._task, self._tries = task, tries
        self._limits = limits_now() if limits is None else limits  # invalid ones are an error here, not one per item
        self._own = threading.local()
        self._lock, self._closed = threading.Lock(), False
        self._open: set[_Process] = set()
        self._room = _Room()
        self._count = checked_jobs(jobs)
        self._threads = ThreadPoolExecutor(self._count)

    @property
    def ahead(self) -> int:
        return _IN_FLIGHT * self._count

    @property
    def together(self) -> int:
        return 1

    def flush(self) -> None:
        """Nothing is buffered."""

    def start(self, rehearsal: Item) -> None:
        """Start the processes now, each with this item, instead of with their first items; does not wait for them."""
        for _ in range(self._count):
            self._threads.submit(self._run, rehearsal)

    def submit(self, item: Item) -> "Future[Result]":
        """The result of the task, or its error, as `spread` returns it."""
        return self._threads.submit(self._run, item)

    def look(self) -> None:
        """Nothing to check: these processes have deadlines, so that each item gets a result or an error."""

    def close(self) -> None:
        """Stop all processes, including those that work on an item."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._closed = True
            processes = list(self._open)
        for process in processes:
            process.close()
        self._threads.shutdown()

    def _run(self, item: Item) -> Result:
        with suppress(BrokenProcessPool), self._room.shared():
            return self._attempt(item)
        if self._tries > 1:  # perhaps the memory of the machine was used up by all processes together
            with suppress(BrokenProcessPool), self._room.alone():
                return self._attempt(item)
        raise WorkerDied

    def _attempt(self, item: Item) -> Result:
        process = self._process()
        try:
            return process.run(item)
        except BrokenProcessPool:
            died, begun = time.monotonic(), process.begun()
            self._own.process = None
            with self._lock:
                self._open.discard(process)
            process.close()
            seconds = self._limits.seconds
            if seconds is not None and begun is not None and died - begun >= seconds:
                raise too_late("it", seconds) from None
            raise

    def _process(self) -> "_Process":
        """The process of this thread."""
        process: _Process | None = getattr(self._own, "process", None)
        if process is None:
            with self._lock:
                if self._closed:
                    raise CancelledError
                process = self._own.process = _Process(self._task, self._limits)
                self._open.add(process)
        return process


class _Room:
    """A readers-writer lock: many `shared` holders or one `alone`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside, self._wanting = 0, 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._wanting)
            self._inside += 1
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._wanting += 1
            self._changed.wait_for(lambda: not self._inside)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._wanting -= 1
            self._leave()

    def _leave(self) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()


class _Process:
    """A worker process that runs one task on one item at a time."""

    def __init__(self, task: Callable[[Any], Any], limits: Limits) -> None:
        self._notes, self._writer = Pipe(duplex=False)
        self._lock = threading.Lock()
        self._given: Future[Any] | None = None
        self._last_note: float | None = None
        start = (task, os.getpid(), self._writer, limits)
        with signals_blocked():  # it starts a process that cleans up
            self._executor: Any = ProcessPoolExecutor(
                1, env=_ONE_THREAD | limits.environment, initializer=install, initargs=start
            )

    def run(self, item: Any) -> Any:
        try:
            return self.call(run, item)
        finally:
            self._last_note = self._read_notes()  # read now, so that they do not fill their pipe

    def call(self, call: Callable[..., Any], *arguments: Any) -> Any:
        with self._lock, signals_blocked():  # the first call starts the process
            self._given = given = self._executor.submit(call, *arguments)
        return given.result()

    def begun(self) -> float | None:
        """Time at which the last item was begun; None if it was not."""
        return self._last_note

    def _read_notes(self) -> float | None:
        begun = None
        with suppress(OSError):  # closed meanwhile by another thread
            while self._notes.poll():
                (begun,) = NOTE.unpack(self._notes.recv_bytes())
        return begun

    def close(self) -> None:
        """Kill the process, after it has received a waiting item: with one left, loky's own thread would fail."""
        with self._lock:
            while self._given is not None and not (self._given.running() or self._given.done()):
                time.sleep(_PICKED_UP)
            self._executor.shutdown(wait=True, kill_workers=True)
        self._notes.close()
        self._writer.close()


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Processes started in the block never receive Ctrl-C; this process receives it at the end of the block."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        resource_tracker.ensure_running()  # with SIGHUP blocked; the other two it ignores, but it unblocks them here
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
        with _warnings_of_cleaners_silenced():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _warnings_of_cleaners_silenced() -> Iterator[None]:
    """For processes that clean up and are started in the block: they warn, after the command has ended, of what it has
    deleted itself."""
    sys.warnoptions.append(_SILENT_CLEANER)
    try:
        yield
    finally:
        sys.warnoptions.remove(_SILENT_CLEANER)
