"""Files of the collection that still have the content that was indexed. Nothing else of this machine is read or shown.

A file can be replaced at any time, also between a comparison and its use. What is sent is the open file that was
compared; what workers read is a copy of it, which nobody else changes.
"""

import asyncio
import hashlib
import uuid
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO

from faemb.errors import FaembError, RefusedError, RemoteError, reason
from faemb.features.feature_files import FEATURES, picture_of
from faemb.features.files.npz import read_npz_header
from faemb.features.job import hash_of
from faemb.runtime.limits import require_input_file
from faemb.runtime.paths_and_urls import fetched
from faemb.web.problems import Problem, problem_of

_AT_ONCE = 4
"""Copies at a time, which bounds the room that they take."""
_BLOCK = 1 << 20
_TAIL = 40
"""Characters of a file's name in the name of its copy: its suffixes are among them."""


class IndexedFiles:
    """Copies in a folder of the server; used by one event loop."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._room = folder, asyncio.Semaphore(_AT_ONCE)

    @asynccontextmanager
    async def copy(self, path: Path, content: str) -> AsyncIterator[Path]:
        """A copy of the file, which is deleted at the end of the block; a Problem unless the file has this hash."""
        async with self._room:
            copy = self._folder / (uuid.uuid4().hex + path.name[-_TAIL:])
            writing = asyncio.ensure_future(asyncio.to_thread(_write_copy, path, content, copy))
            try:
                await asyncio.shield(writing)
                yield copy
            finally:
                writing.add_done_callback(lambda _: copy.unlink(missing_ok=True))  # a thread may still write it

    @asynccontextmanager
    async def picture(self, path: Path, content: str) -> AsyncIterator[Path]:
        """A copy of the image: of the file itself, or of the image beside a file of features."""
        async with self.copy(path, content) as copy:
            if not FEATURES.includes(path):
                yield copy
                return
            beside, shown = await asyncio.to_thread(_image_beside, path, copy)
        async with self.copy(beside, shown) as copy:
            yield copy


def open_unchanged(path: Path, content: str) -> BufferedIOBase:
    """The open file; a Problem unless it has this hash."""
    with ExitStack() as closing:
        file = closing.enter_context(_opened(path))
        _require_same(path, hash_of(file), content)
        closing.pop_all()
    return file


def write_hashed(file: BinaryIO | BufferedIOBase, path: Path) -> tuple[str, int]:
    """Write the rest of a file to a new one; hash of what was written, and its size."""
    hash, size = hashlib.blake2b(digest_size=16), 0
    with path.open("xb") as out:
        while block := file.read(_BLOCK):
            hash.update(block)
            size += len(block)
            out.write(block)
    return hash.hexdigest(), size


def _write_copy(path: Path, content: str, copy: Path) -> None:
    with _opened(path) as file:
        try:
            found, _ = write_hashed(file, copy)
        except OSError as error:
            raise Problem(507, f"The server cannot make a copy of {path.name}: {reason(error)}.") from error
    _require_same(path, found, content)


def _opened(path: Path) -> BufferedIOBase:
    try:
        local = fetched(path)
        require_input_file(local, "an image file")
        file: BufferedIOBase = local.open("rb")
    except RemoteError as error:
        if not isinstance(error, RefusedError):
            raise problem_of(error) from error
        raise _absent(path) from error
    except (FaembError, OSError) as error:
        raise _absent(path) from error
    return file


def _absent(path: Path) -> Problem:
    return Problem(404, f"The file {path.name} is not there, or cannot be read.")


def _require_same(path: Path, found: str, content: str) -> None:
    if found != content:
        raise Problem(409, f"The file {path.name} has changed since it was indexed; run faemb update.")


def _image_beside(path: Path, copy: Path) -> tuple[Path, str]:
    """The image beside a file of features, and its hash as the features state it."""
    image = picture_of(path)
    if image is None:
        raise Problem(404, f"No image is beside the file of features {path.name}.")
    hash = read_npz_header(copy).image_hash if copy.suffix.lower() == ".npz" else ""
    if not hash:
        raise Problem(404, f"{path.name} does not state which image it was made from, so that none is shown.")
    return image, hash
