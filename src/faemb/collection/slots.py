"""Rows of one length in a file, one slot each: appended, and memory mapped for reading.

A slot is valid only if the catalogue refers to it. Content after the last such slot was written by a process that was
killed before its transaction was committed, and is overwritten.
"""

import os
import stat
import zlib
from pathlib import Path
from typing import IO

import numpy as np
from jaxtyping import Shaped

from faemb.collection.layout import repair_command
from faemb.errors import FaembError, FormatError
from faemb.runtime.storage import sync_folder


class SlotFile:
    def __init__(self, path: Path, dtype: str, columns: int) -> None:
        self.path, self.dtype, self.columns = path, np.dtype(dtype), columns

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * self.columns

    def write(self, first_slot: int, rows: Shaped[np.ndarray, "n w"]) -> list[int]:
        """Write rows to consecutive slots and sync them; returns their checksums."""
        content = np.ascontiguousarray(rows, self.dtype)
        write_at(self.path, first_slot * self.row_bytes, content.tobytes())
        return checksums(content)

    def rows(self, count: int) -> Shaped[np.ndarray, "n w"]:
        """The first `count` slots, memory mapped."""
        if count == 0:
            return np.empty((0, self.columns), self.dtype)  # there may be no file
        wanted = count * self.row_bytes
        try:
            with _plain_file(self.path, os.O_RDONLY) as file:  # opened once: compaction may delete it at any time
                held = os.fstat(file.fileno()).st_size
                if held >= wanted:
                    return np.memmap(file, self.dtype, "r", shape=(count, self.columns))
        except FileNotFoundError:
            held = 0
        except OSError as error:
            raise FaembError(f"{self.path} cannot be read: {error.strerror}") from error
        raise FormatError(
            f"{self.path} is cut short: it has {held} bytes of {wanted}; "
            f"restore it from a copy, or run: {repair_command(self.path)}"
        )


def checksums(rows: Shaped[np.ndarray, "n w"]) -> list[int]:
    return [zlib.crc32(row.tobytes()) for row in rows]


def write_at(path: Path, offset: int, content: bytes, *, durable: bool = True) -> None:
    """Write bytes at an offset of a file, which is created if necessary; with `durable`, synced before this returns.

    The offset is not behind the end of the file: a catalogue that names such a place is damaged, or the file is.
    """
    new = not path.exists()
    if offset > (held := 0 if new else path.stat().st_size):
        raise FormatError(
            f"{path} has {held} bytes of the {offset} that the catalogue names; run: {repair_command(path)}"
        )
    with _plain_file(path, os.O_RDWR | os.O_CREAT) as file:
        file.seek(offset)
        rest = memoryview(content)
        while rest:
            rest = rest[file.write(rest) :]
        if durable:
            getattr(os, "fdatasync", os.fsync)(file.fileno())
    if new and durable:
        sync_folder(path.parent)


def read_at(path: Path, offset: int, length: int) -> bytes:
    """Bytes of a file; a ValueError if it ends before them, without taking memory for them."""
    with _plain_file(path, os.O_RDONLY) as file:
        held = os.fstat(file.fileno()).st_size
        if not 0 <= offset <= offset + length <= held:
            raise ValueError(f"{path.name} has {held} bytes, and bytes {offset} to {offset + length} are named")
        file.seek(offset)
        return file.read(length)


def _plain_file(path: Path, access: int) -> IO[bytes]:
    """An open file; a FormatError if it is a pipe or a device, for which an ordinary call would wait."""
    handle = os.open(path, access | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FormatError(f"{path} is not a plain file; remove it and run: {repair_command(path)}")
    return open(handle, "r+b", buffering=0) if access & os.O_RDWR else open(handle, "rb")
