"""Runs one task over many items in worker processes or on a cluster: results in order of completion, also if an item
crashes its worker.

`spread` drives any pool of workers: it keeps a bounded number of items submitted, so items may be an infinite iterator,
and returns each with its result or error. The pool consists of worker processes on this machine (`worker_processes`),
or of a cluster, whose machines run such processes too (`cluster`).
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from faemb.errors import FaembError
from faemb.runtime.limits import Limits
from faemb.runtime.worker import TaskFailed
from faemb.runtime.worker_processes import WorkerDied, Workers, checked_jobs

__all__ = [
    "Flow",
    "Jobs",
    "Machines",
    "Numbered",
    "Pool",
    "PoolLost",
    "TaskFailed",
    "WorkerDied",
    "in_order",
    "require_jobs",
    "spread",
]

Item = TypeVar("Item")
Result = TypeVar("Result")
Given = TypeVar("Given", contravariant=True)

_LOOK = 1.0
"""Seconds between two checks of a pool that has no results; a signal ends the wait at once on POSIX systems."""


class PoolLost(FaembError):
    """The workers are gone, or cannot be used: no item will have a result."""


@runtime_checkable
class Pool(Protocol[Given, Result]):
    """Workers that run one task on submitted items."""

    @property
    def ahead(self) -> int:
        """The number of items to keep submitted; it may change while they run."""

    @property
    def together(self) -> int:
        """The number of items that should be submitted at once."""

    def submit(self, item: Given) -> "Future[Result]": ...

    def flush(self) -> None:
        """Send items that `submit` has buffered."""

    def look(self) -> None:
        """Called while there are no results; raises an error if none will come."""

    def close(self) -> None:
        """Stop all work, including that on submitted items."""


@runtime_checkable
class Machines(Protocol):
    """Other machines that work on items."""

    def have_gpus(self) -> bool:
        """Whether any machine has a GPU."""

    def pool(
        self, task: Callable[[Item], Result], *, limits: Limits | None = None, gpu: bool = False
    ) -> Pool[Item, Result]:
        """`limits`: of one item; those of the environment if not given. `gpu`: use only machines that have one."""


Jobs = int | None | Machines
"""Where items are processed: by this number of worker processes here (None: one per core), or on other machines."""


def spread(
    task: Callable[[Item], Result], items: Iterable[Item], *, jobs: Jobs = None
) -> Iterator[tuple[Item, Result | Exception]]:
    """Each item with the result of `task` or the exception that it raised, in order of completion.

    An exception of this package is returned unchanged, any other as a `TaskFailed`.
    `task` is sent once to each worker, in which libraries use one thread.
    """
    pool: Pool[Item, Result] = (
        Workers(task, jobs, tries=2) if jobs is None or isinstance(jobs, int) else jobs.pool(task)
    )
    with closing(pool):
        yield from Flow(pool, items)


class Flow(Generic[Item, Result]):
    """Passes items through a pool, with a bounded number submitted at a time; gives each back with its result."""

    def __init__(self, pool: Pool[Item, Result], items: Iterable[Item]) -> None:
        self._pool, self._items = pool, iter(items)
        self._flying: dict[Future[Result], Item] = {}
        self._done: SimpleQueue[Future[Result]] = SimpleQueue()

    def __iter__(self) -> Iterator[tuple[Item, Result | Exception]]:
        """All items, in order of completion."""
        while self._fill():
            found = self._take(_LOOK)
            if found is not None:
                yield found
            else:
                self._pool.look()

    def ready(self) -> Iterator[tuple[Item, Result | Exception]]:
        """Results that are ready, without waiting. The iterator of the items may end, and have more items later."""
        while self._fill():
            found = self._take(0)
            if found is None:
                self._pool.look()
                return
            yield found

    def _fill(self) -> bool:
        """Submit as many items as there is room for; whether any are submitted and not finished."""
        room = self._pool.ahead - len(self._flying)
        if room >= self._pool.together or not self._flying:
            for item in islice(self._items, max(0, room)):
                self._flying[future := self._pool.submit(item)] = item
                future.add_done_callback(self._done.put)
            self._pool.flush()
        return bool(self._flying)

    def _take(self, seconds: float) -> tuple[Item, Result | Exception] | None:
        try:
            future = self._done.get(timeout=seconds) if seconds else self._done.get_nowait()
        except Empty:
            return None
        return self._flying.pop(future), _outcome(future)


@dataclass(frozen=True)
class Numbered(Generic[Item, Result]):
    """A task for items that have a number."""

    task: Callable[[Item], Result]

    def __call__(self, item: tuple[int, Item]) -> Result:
        return self.task(item[1])


def in_order(
    pool: Pool[tuple[int, Item], Result],
    items: Iterable[Item],
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Result]:
    """The results of a numbered task, in the order of the items; the first error ends it."""
    given = list(items)
    held: dict[int, Result] = {}
    following = 0
    for (number, _), outcome in Flow(pool, enumerate(given)):
        if isinstance(outcome, Exception):
            raise FaembError(f"the work cannot be done elsewhere: {outcome}") from outcome
        held[number] = outcome
        while following in held:
            yield held.pop(following)
            following += 1
            if progress is not None:
                progress(following, len(given))


def _outcome(done: "Future[Any]") -> Any:
    """The result or error of an item; an error of the pool, such as too few open files for a process, is raised."""
    error = done.exception()
    if error is None:
        return done.result()
    if isinstance(error, PoolLost) or not isinstance(error, FaembError | TaskFailed):
        raise error
    return error


def require_jobs(jobs: Jobs) -> None:
    """Raise an error for a wrong number of worker processes, before any work."""
    if jobs is None or isinstance(jobs, int):
        checked_jobs(jobs)
