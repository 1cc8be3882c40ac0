"""The lock of the one process that may change a collection.

A lock file can be deleted by someone who takes it for a leftover; then another process locks a new file of the same
name. So every change of the catalogue verifies, inside its transaction, that the locked file is still the one at its
path. A process that has lost its lock can change nothing any more, and since files are written inside such transactions
only, it cannot disturb its successor either.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial

from filelock import FileLock, Timeout

from faemb.collection.catalogue import Catalogue
from faemb.collection.layout import Layout
from faemb.errors import FaembError, LockedError

_LOOK = 0.5
"""Seconds for which a held lock is retried: testing whether it is free holds it briefly."""


def is_being_changed(layout: Layout) -> bool:
    """Whether a process is changing the collection; false where the lock cannot be tried, as in a read-only folder."""
    if not layout.lock.exists():
        return False
    lock = FileLock(layout.lock, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False


@contextmanager
def only_writer(layout: Layout, catalogue: Catalogue | None = None) -> Iterator[None]:
    """Hold the lock, which the system releases when the process ends; changes of `catalogue` verify it."""
    with _locked(layout) as handle:
        require_held = partial(_require_held, handle, layout)
        require_held()
        with nullcontext() if catalogue is None else catalogue.guarded(require_held):
            yield


@contextmanager
def _locked(layout: Layout) -> Iterator[int]:
    """A handle of the locked file, opened before it is locked: while it is open, no other file has its identity."""
    lock, handle = FileLock(layout.lock, timeout=_LOOK), None
    try:
        handle = os.open(layout.lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        lock.acquire()
    except (OSError, Timeout) as error:  # Timeout is an OSError too
        if handle is not None:
            os.close(handle)
        if isinstance(error, Timeout):
            raise LockedError(
                f"{layout.folder} is being changed by another process; wait until it has ended, then run this again"
            ) from None
        raise FaembError(f"{layout.folder} cannot be changed: {error.strerror or error}") from error
    try:
        yield handle
    finally:
        lock.release()
        os.close(handle)


def _require_held(handle: int, layout: Layout) -> None:
    """Raise an error if the locked file was deleted or replaced."""
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(handle), os.stat(layout.lock)):
            return
    raise FaembError(
        f"{layout.lock} was deleted, and another process may be changing the collection; what was stored before is "
        "safe: wait until the other process has ended, then run the same command again"
    )
