"""Runs one task over many items in threads, for work inside array libraries, which release the GIL.

A sequence of small array operations occupies one core, however many threads the library could use for each of them;
several sequences in parallel occupy all cores. Meanwhile the linear algebra libraries are limited to one thread.

Python acts on Ctrl-C in its main thread, between two steps of Python code: a call of a library that takes minutes would
have to end first. So the main thread runs such calls in daemon threads and waits. When it is interrupted it abandons
them: they end with the process, or, if the process continues, when their call returns.
"""

import contextvars
import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import chain, islice
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from threadpoolctl import ThreadpoolController, threadpool_limits

from faemb.runtime import UNKNOWN, Progress

Item = TypeVar("Item")
Result = TypeVar("Result")

_STEP = 1.0
"""Seconds between two checks of a call that runs in a thread; a signal ends the wait at once on POSIX systems."""


_most_cores: int | None = None


def use_cores(most: int) -> None:
    """Limit the number of cores that this process uses, which is one of several worker processes."""
    global _most_cores
    _most_cores = most


def cores() -> int:
    """The number of cores that this process may use."""
    present = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return present if _most_cores is None else min(_most_cores, present)


@contextmanager
def one_thread_for_blas() -> Iterator[None]:
    """For products that one thread computes in a millisecond: the others of OpenBLAS go on waiting for work for longer
    than that, on cores that the next step needs."""
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@cache
def _libraries() -> ThreadpoolController:
    """Those that are loaded; to look for them takes as long as such a product."""
    return ThreadpoolController()


def interruptible(call: Callable[[], Result], meanwhile: Callable[[], None] | None = None) -> Result:
    """The result of a long call of a library, in a thread, so that Ctrl-C ends the wait for it.

    `meanwhile` is called about once a second. In a thread other than the main one, which Ctrl-C does not reach, the
    call is made directly.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    answer: Future[Result] = Future()
    threading.Thread(target=_settle, args=(answer, contextvars.copy_context().run, call), daemon=True).start()
    try:
        return _awaited(answer, meanwhile)
    finally:
        if not answer.done():
            _skip_exit_handlers()


def reported(call: Callable[[], Result], stage: str, progress: Progress, *, interrupt: bool = True) -> Result:
    """The result of a long call as a stage of unknown length; `interrupt`: run it in a thread, so that Ctrl-C works."""
    waiting = partial(progress, stage, 0, UNKNOWN)
    waiting()
    result = interruptible(call, waiting) if interrupt else call()
    progress(stage, 1, 1)
    return result


def _settle(answer: "Future[Result]", task: Callable[[Item], Result], item: Item) -> None:
    try:
        answer.set_result(task(item))
    except BaseException as error:
        answer.set_exception(error)


def _awaited(answer: "Future[Result]", meanwhile: Callable[[], None] | None = None) -> Result:
    """The result, awaited in short steps: on some systems a wait without a timeout cannot be interrupted."""
    while True:
        with suppress(TimeoutError):
            return answer.result(timeout=_STEP)
        if answer.done():
            return answer.result()  # the call itself raised the TimeoutError, or it has just ended
        if meanwhile is not None:
            meanwhile()


@cache
def _skip_exit_handlers() -> None:
    """Let the process end, with its exit status, without running the exit handlers of compiled libraries.

    OpenBLAS's waits for its threads and frees the memory that an abandoned call still works in, which crashes.
    """
    with suppress(AttributeError, OSError, TypeError):  # on systems without this function of the GNU C library
        libc = ctypes.CDLL(None)
        libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)


def in_threads(task: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """The results of `task` in the order of the items, of which at most one per thread is read ahead."""
    waiting = iter(items)
    first = list(islice(waiting, 2))
    if threads == 1 or len(first) < 2:  # a single item may use the libraries' own threads
        for item in chain(first, waiting):
            yield interruptible(partial(task, item))
        return
    with threadpool_limits(1), _Pool(task, threads) as pool:
        flying = deque(pool.submit(item) for item in first)
        for item in waiting:
            if len(flying) > threads:
                yield _awaited(flying.popleft())
            flying.append(pool.submit(item))
        while flying:
            yield _awaited(flying.popleft())


class _Pool(Generic[Item, Result]):
    """Daemon threads that run one task. Not concurrent.futures: a process waits for its threads before it ends."""

    def __init__(self, task: Callable[[Item], Result], threads: int) -> None:
        self._task, self._threads = task, threads
        self._running: list[threading.Thread] = []
        self._items: SimpleQueue[tuple[Future[Result], Item] | None] = SimpleQueue()

    def __enter__(self) -> "_Pool[Item, Result]":
        for _ in range(self._threads):
            run = contextvars.copy_context().run
            self._running.append(threading.Thread(target=run, args=(self._work,), daemon=True))
            self._running[-1].start()
        return self

    def submit(self, item: Item) -> "Future[Result]":
        answer: Future[Result] = Future()
        self._items.put((answer, item))
        return answer

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        """Drop queued items and wait for running ones, except after an interrupt.

        An interrupt of the code that receives the results arrives here as a GeneratorExit.
        """
        with suppress(Empty):
            while True:
                self._items.get_nowait()
        for _ in self._running:
            self._items.put(None)
        if kind is not None and not issubclass(kind, Exception):
            _skip_exit_handlers()
            return
        for thread in self._running:
            thread.join()

    def _work(self) -> None:
        while (submitted := self._items.get()) is not None:
            answer, item = submitted
            _settle(answer, self._task, item)
