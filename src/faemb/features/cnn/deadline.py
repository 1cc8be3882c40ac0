"""Ends runs of onnxruntime that take longer than one item may (FAEMB_ITEM_SECONDS).

One thread looks at all runs twice a second. A timer for each run would start a thread each time, which takes
milliseconds where all cores are busy: as long as a small network.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from faemb.runtime.limits import item_seconds

_EVERY = 0.5
_running: dict[int, tuple[float, Any]] = {}
"""Time at which each run has to end, and its options."""
_starting = threading.Lock()
_watch = threading.Thread()
"""The thread that looks; not alive in a process that was forked, nor before the first run."""


@contextmanager
def deadline(options: Any) -> Iterator[Any]:
    """onnxruntime's RunOptions, whose `terminate` becomes true if the block takes too long."""
    seconds = item_seconds()
    if seconds is None:
        yield options
        return
    _running[id(options)] = time.monotonic() + seconds, options
    _require_watch()
    try:
        yield options
    finally:
        del _running[id(options)]


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
        for end, options in list(_running.values()):
            if now > end:
                options.terminate = True
