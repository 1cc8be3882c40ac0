"""One task over many items in worker processes: results in order of completion, even if an item crashes its worker.

The number of submitted items is bounded, so items may be an infinite iterator. When a worker dies (a crash in a
decoder, the system's out-of-memory killer), every submitted item may be the cause: the pool is rebuilt and these
suspects are run again one at a time. One that kills its worker again gets a `WorkerDied` error, the others their
results. Workers do not receive Ctrl-C, which a terminal sends to all processes: the parent process stops them. If the
parent is killed, they end too.
"""

import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing import resource_tracker
from typing import Any, TypeVar

from joblib.externals.loky import ProcessPoolExecutor  # unlike the standard one it needs no `if __name__` in scripts

from faemb.errors import FaembError
from faemb.runtime.threads import cores
from faemb.settings import require_whole

Item = TypeVar("Item")
Result = TypeVar("Result")

_IN_FLIGHT = 4
"""Submitted items per worker: enough that no worker waits, few enough that little is repeated after a crash."""
_CHECK_EVERY = 0.5
"""Seconds between a worker's checks that its parent is running."""
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

_task: Callable[[Any], Any] | None = None


class WorkerDied(FaembError):
    """The process that worked on an item was killed, twice."""


class TaskFailed(Exception):
    """Type and text of a task's error; the error itself may be one that cannot be pickled, which breaks the pool."""


def spread(
    task: Callable[[Item], Result], items: Iterable[Item], *, jobs: int | None = None
) -> Iterator[tuple[Item, Result | Exception]]:
    """Each item with the result of `task` or the exception that it raised, in order of completion.

    An exception of this package is given as it is, any other as a `TaskFailed`.
    `task` is sent once to each of `jobs` workers (None: one per core), in which libraries use one thread.
    """
    workers = checked_jobs(jobs)
    waiting = iter(items)
    while True:
        suspects: list[Item] = []
        yield from _until_broken(task, waiting, workers, suspects)
        if not suspects:
            return
        yield from _one_by_one(task, suspects)


def checked_jobs(jobs: int | None) -> int:
    """The number of workers; by default one per core that this process may use."""
    if jobs is not None:
        require_whole("jobs", jobs, 1, 1024)
        return jobs
    return cores()


def _until_broken(
    task: Callable[[Item], Result], items: Iterator[Item], workers: int, suspects: list[Item], ahead: int = _IN_FLIGHT
) -> Iterator[tuple[Item, Result | Exception]]:
    """Run until the items end or a worker dies; then the submitted items are added to `suspects`."""
    if os.name == "posix":
        resource_tracker.ensure_running()  # before interrupts are blocked: starting it would unblock them
    executor: Any = ProcessPoolExecutor(workers, env=_ONE_THREAD, initializer=_install, initargs=(task, os.getpid()))
    flying: dict[Future[Result], Item] = {}
    try:
        while True:
            for item in islice(items, ahead * workers - len(flying)):
                with _interrupts_blocked():  # the first call of submit starts the workers
                    flying[executor.submit(_run, item)] = item
            if not flying:
                return
            for done in wait(flying, return_when=FIRST_COMPLETED).done:
                error = done.exception()
                if isinstance(error, BrokenProcessPool):
                    suspects.extend(flying.values())
                    return
                if error is not None and not isinstance(error, Exception):
                    raise error
                yield flying.pop(done), done.result() if error is None else error
    except BrokenProcessPool:  # raised by submit
        suspects.extend([*flying.values(), item])
    finally:
        _stop(executor)


def _one_by_one(task: Callable[[Item], Result], suspects: list[Item]) -> Iterator[tuple[Item, Result | Exception]]:
    """Run one item at a time, to find out which one kills its worker."""
    waiting = iter(suspects)
    while True:
        suspect: list[Item] = []
        yield from _until_broken(task, waiting, 1, suspect, ahead=1)
        if not suspect:
            return
        yield suspect[0], WorkerDied("the process that worked on it was killed, perhaps for lack of memory")


def _stop(executor: Any) -> None:
    """Kill the workers. Waiting items are removed first: with some left, loky's own thread would raise an error."""
    with suppress(queue.Empty):
        while True:
            executor._work_ids.get_nowait()
    executor.shutdown(wait=True, kill_workers=True)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes started in the block never receive Ctrl-C; this process receives it at the end of the block."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _install(task: Callable[[Any], Any], parent: int) -> None:
    """In a worker: store the task, so that later only items are sent, and limit libraries to one thread."""
    global _task
    _task = task
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    import cv2

    cv2.setNumThreads(1)


def _end_with(parent: int) -> None:
    """End this worker when its parent has ended; otherwise it would wait for work forever."""
    while os.name != "posix" or os.getppid() == parent:
        time.sleep(_CHECK_EVERY)
    os._exit(1)


def _run(item: Any) -> Any:
    assert _task is not None  # noqa: S101  (the initializer has run)
    try:
        return _task(item)
    except FaembError:
        raise
    except Exception as error:
        raise TaskFailed(f"{type(error).__name__}: {error}") from None
