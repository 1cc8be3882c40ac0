"""Cancels sessions of onnxruntime that take too long to start or to run: longer than FAEMB_ITEM_SECONDS.

One thread checks all of them twice a second. A timer for each run would start a thread each time, which takes
milliseconds when all cores are busy: as long as running a small network.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from faemb.runtime.limits import item_seconds

_EVERY = 0.5


@dataclass
class Watched:
    """The start of a session, or one run of it."""

    latest: float
    """Time at which it is cancelled, by the monotonic clock."""
    end: Callable[[], None]
    is_late: bool = False
    """Whether it was cancelled."""


_running: dict[int, Watched] = {}
_starting = threading.Lock()
_watch = threading.Thread()
"""The thread that checks; not alive before the first run, nor in a forked process."""


@contextmanager
def deadline(end: Callable[[], None]) -> Iterator[Watched]:
    """Call `end`, in another thread, if the block takes too long."""
    seconds = item_seconds()
    watched = Watched(time.monotonic() + (seconds or 0), end)
    if seconds is None:
        yield watched
        return
    _running[id(watched)] = watched
    _require_watch()
    try:
        yield watched
    finally:
        del _running[id(watched)]


def _require_watch() -> None:
    global _watch
    with _starting:
        if not _watch.is_alive():
            _watch = threading.Thread(target=_look, daemon=True)
            _watch.start()


def _look() -> None:
    while True:
        time.sleep(_EVERY)
        now = time.monotonic()
        for watched in list(_running.values()):
            if now > watched.latest:
                watched.is_late = True
                watched.end()
