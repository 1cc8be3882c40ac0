"""Files of indexes: what faiss writes, and their length and checksum at the end.

faiss does not validate what it reads: a damaged file changes results, or crashes the process. So a file is verified
before it is used for the first time in a process.
"""

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from faemb.errors import FormatError, MissingExtraError
from faemb.runtime.storage import Summed, replacing

_END = struct.Struct("<8sQI")
"""A mark, the length of the file, and the CRC32 of all bytes before this."""
_MARK = b"faembix2"


def write_indexes(path: Path, indexes: list[Any]) -> None:
    """Write indexes one after the other."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        written = Summed(file)
        for index in indexes:
            write_index(index, written.write)
        file.write(_END.pack(_MARK, file.tell() + _END.size, written.crc))


def read_indexes(path: Path) -> list[Any]:
    """All indexes of a file whose checksum has been verified; they lie in memory."""
    indexes = []
    with path.open("rb") as file:
        end = path.stat().st_size - _END.size
        while file.tell() < end:
            indexes.append(faiss().read_index(faiss().PyCallbackIOReader(file.read)))
    return indexes


def write_index(index: Any, write: Callable[[bytes], int]) -> None:
    """Write through a Python file: faiss itself does not detect a full disk when it writes the last bytes."""
    faiss().write_index(index, faiss().PyCallbackIOWriter(write))


_VERIFIED: set[tuple[int, int, int, int]] = set()
"""Device, inode, length and modification time of the index files that this process has verified."""


def require_undamaged(path: Path) -> None:
    """Raise an error if a file does not match its checksum; verified once per process, unless it changes."""
    status = path.stat()
    identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    if identity not in _VERIFIED:
        if not is_undamaged(path):
            raise FormatError(f"{path} is damaged, or is not an index")
        _VERIFIED.add(identity)


def is_undamaged(path: Path) -> bool:
    """Whether all bytes match the checksum; true for a file that has just been deleted."""
    try:
        with path.open("rb") as file:
            end, crc = _end_of(file), 0
            if end is None:
                return False
            file.seek(0)
            left = end[0] - _END.size
            while part := file.read(min(left, 1 << 24)):
                crc, left = zlib.crc32(part, crc), left - len(part)
            return crc == end[1]
    except FileNotFoundError:
        return True


def _end_of(file: IO[bytes]) -> tuple[int, int] | None:
    """The stated length and checksum, if the file has that length."""
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - _END.size))
    end = file.read()
    if len(end) != _END.size:
        return None
    mark, stated, crc = _END.unpack(end)
    return (stated, crc) if (mark, stated) == (_MARK, length) else None


def faiss() -> Any:
    try:
        import faiss as library
    except ImportError as error:
        raise MissingExtraError("an index of faiss", "faiss") from error
    return library
