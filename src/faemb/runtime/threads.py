"""One task over many items in threads, for work inside array libraries, which let go of the interpreter.

Many small array operations in a row keep one core busy however many threads a library has for each of them; side by
side they keep all cores busy. The linear algebra libraries are held to one thread meanwhile.
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
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(task: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """What `task` gives for each item, in their order; no more than one item per thread is taken ahead."""
    waiting = iter(items)
    first = list(islice(waiting, 2))
    if threads == 1 or len(first) < 2:  # an only item has the libraries' own threads
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
