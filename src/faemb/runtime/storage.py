"""Files that exist completely or not at all: written under a temporary name, synced, then renamed."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faemb.errors import FaembError, InputError

AnyPath = str | os.PathLike[str]


@contextmanager
def replacing(path: AnyPath) -> Iterator[Path]:
    """A temporary path to write to; when the block ends without an error, that file replaces `path`."""
    target = require_writable(path)
    temporary = target.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        temporary.touch()
        mode = temporary.stat().st_mode  # as the umask has it; some libraries write files for their owner alone
        temporary.unlink()
        yield temporary
        temporary.chmod(mode)
        _sync(temporary)
        os.replace(temporary, target)
        sync_folder(target.parent)
    except OSError as error:
        raise FaembError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def require_writable(path: AnyPath) -> Path:
    """Raise an error if the folder of `path` does not exist, or if `path` is itself a folder."""
    target = Path(path)
    if not os.path.isdir(target.parent):  # unlike Path.is_dir it never raises
        raise InputError(f"cannot write {target}: the folder {target.parent} does not exist; make it first")
    if os.path.isdir(target):
        raise InputError(f"cannot write {target}: it is a folder; give the name of a file")
    return target


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, unless they exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder {folder} cannot be made: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Wait until a folder's list of files is on the disk; only POSIX systems have such a call."""
    if os.name == "posix":
        _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
