"""What a worker process does: it runs one task on the items that it is sent, each within its limits."""

import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from faemb.errors import FaembError
from faemb.runtime.limits import Limits, is_lack_of_memory, limit_memory_of_this_process, out_of_memory
from faemb.runtime.threads import use_cores

NOTE = struct.Struct("<d")
"""Sent to the parent: the time at which an item was begun."""

_CHECK_EVERY = 0.5
"""Seconds between checks that the parent is running."""

_task: Callable[[Any], Any] | None = None
_notes: Connection | None = None
_seconds: float | None = None


class TaskFailed(Exception):
    """Type and text of a task's error; the error itself may be one that cannot be pickled, which breaks the pool."""


def install(task: Callable[[Any], Any], parent: int, notes: Connection, limits: Limits) -> None:
    """In a worker: store the task, so that later only items are sent, and set the limits of this process."""
    global _task, _notes, _seconds
    _task, _notes, _seconds = task, notes, limits.seconds
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    use_cores(1)
    import cv2

    cv2.setNumThreads(1)
    if limits.memory is not None:
        limit_memory_of_this_process()


def run(item: Any) -> Any:
    """The result of the task; an error of another package as a `TaskFailed`."""
    assert _task is not None  # noqa: S101  (the initializer has run)
    assert _notes is not None  # noqa: S101
    _notes.send_bytes(NOTE.pack(time.monotonic()))
    try:
        with _deadline(_seconds):
            return _task(item)
    except FaembError:
        raise
    except Exception as error:
        if is_lack_of_memory(error):
            raise out_of_memory("it") from None
        raise TaskFailed(f"{type(error).__name__}: {error}") from None


@contextmanager
def _deadline(seconds: float | None) -> Iterator[None]:
    """In a worker: end this process if the block takes longer."""
    if seconds is None:
        yield
    elif hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the system ends the process, whatever it does
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    else:
        timer = threading.Timer(seconds, os._exit, [1])  # waits for a library that holds the GIL
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _end_with(parent: int) -> None:
    """End this worker when its parent has ended; otherwise it would wait for work forever."""
    while os.name != "posix" or os.getppid() == parent:
        time.sleep(_CHECK_EVERY)
    os._exit(1)
