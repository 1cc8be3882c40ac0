"""Temporary folders that are removed when their process ends in order, or else by the next process that makes one.

Each holds a lock, which the system releases however a process ends: a folder whose lock can be taken has no owner.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

_PREFIX, _LOCK = "faemb-", "faemb-temporary.lock"
_NAME = re.compile(rf"{_PREFIX}\w{{8}}", re.ASCII)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder in the system's temporary folder, removed at the end; those of processes that were killed go too."""
    _sweep(Path(tempfile.gettempdir()))
    folder, lock = _made()
    try:
        yield folder
    finally:
        lock.release()
        shutil.rmtree(folder, ignore_errors=True)


def _made() -> tuple[Path, FileLock]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = FileLock(folder / _LOCK, timeout=0, thread_local=False)
        try:
            lock.acquire()
        except (Timeout, FileNotFoundError):
            continue  # another process has swept it before it was locked
        except (OSError, NotImplementedError):  # the system has no locks there: it is never swept
            (folder / _LOCK).unlink(missing_ok=True)
            return folder, lock
        if os.path.exists(folder / _LOCK):
            return folder, lock
        lock.release()


def _sweep(place: Path) -> None:
    """Remove the folders that this module has made and whose processes have ended; nothing else."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name) and _is_ours(entry):
                _remove_unless_used(Path(entry.path))


def _is_ours(entry: "os.DirEntry[str]") -> bool:
    with suppress(OSError):
        lock = os.lstat(os.path.join(entry.path, _LOCK))
        is_mine = not hasattr(os, "getuid") or lock.st_uid == entry.stat(follow_symlinks=False).st_uid == os.getuid()
        return is_mine and entry.is_dir(follow_symlinks=False)
    return False


def _remove_unless_used(folder: Path) -> None:
    with suppress(OSError, Timeout, NotImplementedError), FileLock(folder / _LOCK, timeout=0):
        shutil.rmtree(folder, ignore_errors=True)
