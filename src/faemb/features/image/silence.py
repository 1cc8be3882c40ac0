"""Suppresses decoders' warnings about metadata while a file is read, in this thread only.

`warnings.catch_warnings` replaces a list that all threads share: two threads that use it at once could restore the
wrong list. Here one filter stays at the front of that list while any thread reads, and matches only in those threads.
"""

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast


class _Reading(threading.local):
    """Whether this thread reads a file; serves as the module pattern of a warnings filter and as a logger's filter."""

    now = False

    def match(self, module: str) -> bool:
        return self.now

    def filter(self, record: logging.LogRecord) -> bool:
        return not self.now


_reading = _Reading()
_lock = threading.Lock()
_readers = 0
_ENTRY = ("ignore", None, Warning, _reading, 0)
_LOGGER = logging.getLogger("PIL.TiffImagePlugin")


@contextmanager
def silence() -> Iterator[None]:
    """Suppress all warnings of this thread. Must not be nested."""
    _enter()
    _reading.now = True
    try:
        yield
    finally:
        _reading.now = False
        _leave()


def _enter() -> None:
    global _readers
    filters = cast(list[Any], warnings.filters)
    with _lock:
        _readers += 1
        _LOGGER.addFilter(_reading)
        if filters[:1] != [_ENTRY]:
            filters.insert(0, _ENTRY)


def _leave() -> None:
    global _readers
    filters = cast(list[Any], warnings.filters)
    with _lock:
        _readers -= 1
        if _readers == 0:
            _LOGGER.removeFilter(_reading)
            filters[:] = [entry for entry in filters if entry != _ENTRY]
