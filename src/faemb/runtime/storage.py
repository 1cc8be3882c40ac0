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
    target = Path(path)
    if not os.path.isdir(target.parent):  # unlike Path.is_dir it never raises
        raise InputError(f"cannot write {target}: the folder {target.parent} does not exist; make it first")
    if os.path.isdir(target):
        raise InputError(f"cannot write {target}: it is a folder; give the name of a file")
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
