"""One task over many items in worker processes: results as they come, and an item that kills its worker is survived.

Only a bounded number of items is in flight, so that items may be an endless iterator. When a worker dies (a crash in a
decoder, the system's out-of-memory killer), everything in flight is suspect: the pool is rebuilt and the suspects are
tried again, one at a time; the one that kills its worker twice is given back as a `WorkerDied`, the others as if
nothing was. Workers never see Ctrl-C, which a terminal sends to all processes: this one stops them. Should it be killed
itself, they end by themselves.
"""

import os
import pickle
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
"""Per worker: enough that none waits, few enough that little is lost."""
_LOOK_AFTER = 0.5
"""Seconds between two looks of a worker for its parent."""
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

_task: Callable[[Any], Any] | None = None


class WorkerDied(FaembError):
    """The process that worked on an item was killed, twice."""


def spread(
    task: Callable[[Item], Result], items: Iterable[Item], *, jobs: int | None = None
) -> Iterator[tuple[Item, Result | Exception]]:
    """Items with what `task` gave for them or the exception that it raised, in the order of completion.

    `task` is sent to each of `jobs` workers once (None: one per core); in there libraries use one thread each.
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
    """How many workers: one per core that this process may use, unless it is said."""
    if jobs is not None:
        require_whole("jobs", jobs, 1, 1024)
        return jobs
    return cores()


def _until_broken(
    task: Callable[[Item], Result], items: Iterator[Item], workers: int, suspects: list[Item], ahead: int = _IN_FLIGHT
) -> Iterator[tuple[Item, Result | Exception]]:
    """Work until the items end, or until a worker dies: then what was in flight is left in `suspects`."""
    executor = _executor(task, workers)
    flying: dict[Future[Result], Item] = {}
    try:
        while True:
            for item in islice(items, ahead * workers - len(flying)):
                flying[_submitted(executor, item)] = item
            if not flying:
                return
            for done in wait(flying, return_when=FIRST_COMPLETED).done:
                error = done.exception()
                if isinstance(error, BrokenProcessPool):
                    suspects.extend(flying.values())
                    return
                yield flying.pop(done), _outcome(done)
    except BrokenProcessPool:  # on submitting
        suspects.extend([*flying.values(), item])
    finally:
        _stop(executor)


def _one_by_one(task: Callable[[Item], Result], suspects: list[Item]) -> Iterator[tuple[Item, Result | Exception]]:
    """Never two in flight, so that it is known which of them kills the worker."""
    waiting = iter(suspects)
    while True:
        guilty: list[Item] = []
        yield from _until_broken(task, waiting, 1, guilty, ahead=1)
        if not guilty:
            return
        yield guilty[0], WorkerDied("the process that worked on it was killed, perhaps for want of memory")


def _stop(executor: Any) -> None:
    """At once. Items that loky has not handed on yet are taken from it first: stopped with some, its thread fails."""
    with suppress(queue.Empty):
        while True:
            executor._work_ids.get_nowait()
    executor.shutdown(wait=True, kill_workers=True)


def _outcome(future: "Future[Any]") -> Any:
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, Exception):
        return error
    raise error


def _executor(task: Callable[[Any], Any], workers: int) -> Any:
    if os.name == "posix":
        resource_tracker.ensure_running()  # before interrupts are held: starting it would release them
    return ProcessPoolExecutor(workers, env=_ONE_THREAD, initializer=_install, initargs=(task, os.getpid()))


def _submitted(executor: Any, item: Any) -> "Future[Any]":
    with _interrupts_held():  # the first starts the workers
        future: Future[Any] = executor.submit(_run, item)
        return future


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes that are started in here never see Ctrl-C; this one sees it at the end of the block."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _install(task: Callable[[Any], Any], parent: int) -> None:
    """In a worker: keep the task, so that items are all that travels later, and hold libraries to one thread."""
    global _task
    _task = task
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    import cv2

    cv2.setNumThreads(1)


def _end_with(parent: int) -> None:
    """A killed parent tells nobody; its workers would wait for work for ever."""
    while os.name != "posix" or os.getppid() == parent:
        time.sleep(_LOOK_AFTER)
    os._exit(1)


def _run(item: Any) -> Any:
    assert _task is not None  # noqa: S101  (the initializer has run)
    try:
        return _task(item)
    except Exception as error:
        raise _able_to_travel(error) from None


def _able_to_travel(error: Exception) -> Exception:
    """The error itself, or its text where it could not be built again on the other side, which would break the pool."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301
        return error
    except Exception:
        kind = FaembError if isinstance(error, FaembError) else RuntimeError
        return kind(str(error) if kind is FaembError else f"{type(error).__name__}: {error}")
