"""Silence while a file is read: a decoder's remarks on metadata are no concern of the caller.

`warnings.catch_warnings` swaps a list that all threads share, and two threads that read at once could leave it
swapped. Here one filter is put in front of that list while anybody reads, and it matches only in threads that do.
"""

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast


class _Reading(threading.local):
    """Takes the place of the pattern of a module's name in a warnings filter, and that of a logger's filter."""

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
    """No warning of this thread is shown or raised; not to be nested."""
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
