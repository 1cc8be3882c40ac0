"""Files that are there completely or not at all: written beside their place, synced, then renamed into it."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faemb.errors import FaembError, InputError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a temporary path to write to; when the block ends well, the file takes the place of `path`."""
    target = Path(path)
    if not os.path.isdir(target.parent):  # which, unlike Path.is_dir, never raises
        raise InputError(f"cannot write {target}: the folder {target.parent} does not exist; make it first")
    if os.path.isdir(target):
        raise InputError(f"cannot write {target}: it is a folder; give the name of a file")
    temporary = target.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        yield temporary
        _sync(temporary)
        os.replace(temporary, target)
        sync_folder(target.parent)
    except OSError as error:
        raise FaembError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Wait until the disk knows which files are in a folder; other systems have no such call."""
    if os.name == "posix":
        _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
