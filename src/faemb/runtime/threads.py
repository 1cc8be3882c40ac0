"""One task over many items in threads, for work inside array libraries, which release the GIL.

A sequence of small array operations occupies one core, however many threads the library could use for each of them;
several sequences in parallel occupy all cores. Meanwhile the linear algebra libraries are limited to one thread.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(task: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """The results of `task` in the order of the items, which are read at most one per thread ahead."""
    waiting = iter(items)
    first = list(islice(waiting, 2))
    if threads == 1 or len(first) < 2:  # a single item may use the libraries' own threads
        yield from map(task, (*first, *waiting))
        return
    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        flying: deque[Future[Result]] = deque(pool.submit(task, item) for item in first)
        try:
            for item in waiting:
                if len(flying) > threads:
                    yield flying.popleft().result()
                flying.append(pool.submit(task, item))
            while flying:
                yield flying.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
