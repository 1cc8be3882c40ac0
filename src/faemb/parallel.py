"""One task over many items in worker processes: results as they come, and an item that kills its worker is survived.

Only a bounded number of items is in flight, so that items may be an endless iterator. When a worker dies (a crash in a
decoder, the system's out-of-memory killer), everything in flight is suspect: the pool is rebuilt and the suspects are
tried again alone; the one that kills its worker twice is given back as a `WorkerDied`, the others as if nothing was.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar

from joblib.externals.loky import ProcessPoolExecutor  # unlike the standard one it needs no `if __name__` in scripts

from faemb.errors import FaembError
from faemb.settings import require_whole

Item = TypeVar("Item")
Result = TypeVar("Result")

_IN_FLIGHT = 4
"""Per worker: enough that none waits, few enough that little is lost."""
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
        for item in suspects:
            yield item, _alone(task, item)


def checked_jobs(jobs: int | None) -> int:
    """How many workers: one per core that this process may use, unless it is said."""
    if jobs is not None:
        require_whole("jobs", jobs, 1, 1024)
        return jobs
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _until_broken(
    task: Callable[[Item], Result], items: Iterator[Item], workers: int, suspects: list[Item]
) -> Iterator[tuple[Item, Result | Exception]]:
    """Work until the items end, or until a worker dies: then what was in flight is left in `suspects`."""
    executor = _executor(task, workers)
    flying: dict[Future[Result], Item] = {}
    try:
        while True:
            for item in islice(items, _IN_FLIGHT * workers - len(flying)):
                flying[executor.submit(_run, item)] = item
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
        executor.shutdown(wait=True, kill_workers=True)


def _alone(task: Callable[[Item], Result], item: Item) -> Result | Exception:
    with _executor(task, 1) as executor:
        future = executor.submit(_run, item)
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            return WorkerDied("the process that worked on it was killed, perhaps for want of memory")
        return _outcome(future)


def _outcome(future: "Future[Any]") -> Any:
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, Exception):
        return error
    raise error


def _executor(task: Callable[[Any], Any], workers: int) -> Any:
    return ProcessPoolExecutor(workers, env=_ONE_THREAD, initializer=_install, initargs=(task,))


def _install(task: Callable[[Any], Any]) -> None:
    """In a worker: keep the task, so that items are all that travels later, and hold libraries to one thread."""
    global _task
    _task = task
    import cv2

    cv2.setNumThreads(1)


def _run(item: Any) -> Any:
    assert _task is not None  # noqa: S101  (the initializer has run)
    return _task(item)
