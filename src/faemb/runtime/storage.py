"""Files that exist completely or not at all: written under a temporary name, synced, then renamed.

`require_output` decides which existing files an output of a command or of a function may replace.
"""

import os
import secrets
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from faemb.errors import FaembError, InputError

AnyPath = str | os.PathLike[str]

CATALOGUE = "catalogue.sqlite"
"""The file that makes a folder a collection."""


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
        with suppress(OSError):  # on a read-only disk: the error of writing says more
            temporary.unlink(missing_ok=True)


class Summed:
    """A file that is being written, and the CRC32 of its content so far."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.crc = file, 0

    def write(self, part: bytes) -> int:
        self.crc = zlib.crc32(part, self.crc)
        return self._file.write(part)


def require_writable(path: AnyPath) -> Path:
    """Raise an error if the folder of `path` does not exist, or if `path` is itself a folder."""
    target = Path(path)
    if not os.path.isdir(target.parent):  # unlike Path.is_dir it never raises
        raise InputError(f"cannot write {target}: the folder {target.parent} does not exist; make it first")
    if os.path.isdir(target):
        raise InputError(f"cannot write {target}: it is a folder; give the name of a file")
    return target


IsOurs = Callable[[Path], bool] | None
"""Whether a file is of a certain kind and was written by faemb; None if such files do not say who wrote them."""


def require_output(path: AnyPath, is_ours: IsOurs, *, overwrite: bool) -> Path:
    """As `require_replaceable`, for a file that no collection may contain: all outputs but those of a collection."""
    require_outside_collections(Path(path))
    return require_replaceable(path, is_ours, overwrite=overwrite)


def require_replaceable(path: AnyPath, is_ours: IsOurs, *, overwrite: bool) -> Path:
    """The path of a file to write; an error if another file is there that faemb did not write.

    `overwrite` allows any plain file, and any link, to be replaced.
    """
    target = require_writable(path)
    if not os.path.lexists(target) or (overwrite and (os.path.isfile(target) or os.path.islink(target))):
        return target
    if not os.path.isfile(target):
        raise InputError(f"cannot write {target}: it exists and is not a plain file; give another name")
    if is_ours is not None and not os.path.islink(target) and is_ours(target):
        return target
    who = "may not have been" if is_ours is None else "was not"
    raise InputError(f"{target} exists and {who} written by faemb; give another name, or --overwrite")


def require_outside_collections(path: Path) -> None:
    """Raise an error if a path lies in the folder of a collection, which only the collection itself writes to."""
    real = Path(os.path.realpath(path))
    for folder in (real, *real.parents):
        if is_collection(folder):
            raise InputError(f"cannot write {path}: {folder} is a collection; give a name outside of it")


def is_collection(folder: AnyPath) -> bool:
    return os.path.isfile(os.path.join(folder, CATALOGUE))


def make_folder(folder: Path) -> None:
    """Make a folder for outputs and those above it, unless they exist; an error if it lies in a collection."""
    require_outside_collections(folder)
    file = next((each for each in (folder, *folder.parents) if each.is_file()), None)
    if file is not None:
        raise InputError(f"{file} is a file, where a folder is expected; give another name")
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
