"""Ways to find candidates among many vectors: exact, HNSW, IVF-PQ, binary codes; behind one contract.

A backend knows the first `covered` slots of one generation of a collection. It is derived: written beside the
collection, made again whenever it is missing, and never believed. Slots that came later are compared exactly, slots
that have died are passed over, and all candidates are ranked by their full vectors. A file ends with its own length
and checksum: faiss reads far beyond the end of one that was cut short.
"""

import os
import struct
import zlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from faemb.collection.model import Coded
from faemb.errors import FormatError, InputError, MissingExtraError
from faemb.runtime.storage import replacing
from faemb.settings import require_choice

EXACT_UP_TO = 200_000
_GRAPH_LINKS, _GRAPH_EFFORT = 32, 200
_SUBVECTORS, _LISTS_VISITED = 64, 32
_TRAINING_PER_LIST = 64
_ADDED_AT_ONCE = 65_536
_END = struct.Struct("<8sQI")
"""A mark, the length of the file, and the CRC32 of all before this."""
_MARK = b"faembidx"


class Backend(ABC):
    """An index of `covered` slots. Scores never leave it: candidates are ranked by their full vectors."""

    name: ClassVar[str]

    def __init__(self, index: Any) -> None:
        self._index = index

    @property
    def covered(self) -> int:
        return int(self._index.ntotal)

    @classmethod
    @abstractmethod
    def build(cls, rows: Coded) -> "Backend":
        """An index of these rows, in their order."""

    @abstractmethod
    def candidates(self, queries: Coded, count: int) -> Int[np.ndarray, "Q c"]:
        """Slots worth a look for each query; -1 where there are no more."""

    def save(self, path: Path) -> None:
        with replacing(path) as temporary, temporary.open("wb") as file:
            # Through Python: faiss itself does not notice if the last bytes find no room.
            written = _Summed(file)
            self._write(faiss().PyCallbackIOWriter(written.write))
            file.write(_END.pack(_MARK, file.tell() + _END.size, written.crc))

    @classmethod
    def load(cls, path: Path) -> "Backend":
        """Raises a FormatError for a damaged index: the caller deletes it and makes another."""
        if not _is_whole(path):
            raise FormatError(f"{path} is cut short, or is no index")
        try:
            return cls(cls._read(path))
        except (RuntimeError, MemoryError) as error:  # of faiss
            raise FormatError(f"{path} is damaged ({str(error).splitlines()[0]})") from error

    def _write(self, writer: Any) -> None:
        faiss().write_index(self._index, writer)

    @classmethod
    def _read(cls, path: Path) -> Any:
        return faiss().read_index(str(path), faiss().IO_FLAG_MMAP_IFC)


class HNSW(Backend):
    """A graph of short vectors: fast at any size, twice their memory."""

    name = "hnsw"

    @classmethod
    def build(cls, rows: Coded) -> "HNSW":
        index = faiss().IndexHNSWFlat(rows.short.shape[1], _GRAPH_LINKS, faiss().METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = _GRAPH_EFFORT
        index.add(np.ascontiguousarray(rows.short))
        return cls(index)

    def candidates(self, queries: Coded, count: int) -> Int[np.ndarray, "Q c"]:
        effort = faiss().SearchParametersHNSW(efSearch=max(_GRAPH_EFFORT, count))
        return self._index.search(queries.short, count, params=effort)[1]


class IVFPQ(Backend):
    """Short vectors in at most 64 bytes each, in lists of which a few are visited: for memory, not for precision."""

    name = "ivf-pq"

    @classmethod
    def build(cls, rows: Coded) -> "IVFPQ":
        lib, (count, width) = faiss(), rows.short.shape
        lists = max(1, min(int(4 * count**0.5), count // _TRAINING_PER_LIST))
        step = -(-width // _SUBVECTORS)
        parts = -(-width // step)
        width = parts * step
        bits = 8 if count >= 256 else max(1, int(np.log2(max(count, 2))))
        coarse = lib.IndexFlatIP(width)
        index = lib.IndexIVFPQ(coarse, width, lists, parts, bits, lib.METRIC_INNER_PRODUCT)
        index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1
        sample = np.sort(np.random.default_rng(0).permutation(count)[: max(_TRAINING_PER_LIST * lists, 65_536)])
        lessons = _padded(rows.short[sample], width)
        index.train(lessons if count > 1 else np.repeat(lessons, 2, axis=0))  # a bit has two values
        for start in range(0, count, _ADDED_AT_ONCE):
            index.add(_padded(rows.short[start : start + _ADDED_AT_ONCE], width))
        return cls(index)

    def candidates(self, queries: Coded, count: int) -> Int[np.ndarray, "Q c"]:
        visits = faiss().SearchParametersIVF(nprobe=_LISTS_VISITED)
        return self._index.search(_padded(queries.short, self._index.d), count, params=visits)[1]


class Binary(Backend):
    """All codes are compared, bit by bit: 64 bytes an image, and tens of times faster than vectors."""

    name = "binary"

    @classmethod
    def build(cls, rows: Coded) -> "Binary":
        if not rows.codes.shape[1]:
            raise InputError(
                "this collection has no binary codes, since its model learned from too few images for them; "
                "use another index: exact, hnsw or ivf-pq"
            )
        index = faiss().IndexBinaryFlat(8 * rows.codes.shape[1])
        index.add(np.ascontiguousarray(rows.codes))
        return cls(index)

    def candidates(self, queries: Coded, count: int) -> Int[np.ndarray, "Q c"]:
        return self._index.search(queries.codes, count)[1]

    def _write(self, writer: Any) -> None:
        faiss().write_index_binary(self._index, writer)

    @classmethod
    def _read(cls, path: Path) -> Any:
        return faiss().read_index_binary(str(path), faiss().IO_FLAG_MMAP_IFC)


APPROXIMATE: dict[str, type[Backend]] = {kind.name: kind for kind in (HNSW, IVFPQ, Binary)}
BACKENDS = ("auto", "exact", *APPROXIMATE)


def backend_for(name: str, images: int) -> type[Backend] | None:
    """The kind to use for so many images; None is the exact comparison of all."""
    require_choice("index", name, BACKENDS)
    if name == "auto":
        name = "exact" if images <= EXACT_UP_TO else HNSW.name
    return APPROXIMATE.get(name)


def _padded(short: Float[np.ndarray, "n s"], width: int) -> Float[np.ndarray, "n w"]:
    """Zeros at the end change no inner product, and make vectors of any length divisible into parts."""
    wide = np.zeros((len(short), width), np.float32)
    wide[:, : short.shape[1]] = short
    return wide


class _Summed:
    """A file that is being written, and the CRC32 of all that was."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.crc = file, 0

    def write(self, part: bytes) -> int:
        self.crc = zlib.crc32(part, self.crc)
        return self._file.write(part)


def _is_whole(path: Path) -> bool:
    """By its end alone."""
    try:
        with path.open("rb") as file:
            return _end_of(file) is not None
    except OSError:
        return False


def is_undamaged(path: Path) -> bool:
    """Byte by byte; one that has just been deleted has no damage."""
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
    """The length and the checksum that it says it has, if it has that length."""
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - _END.size))
    end = file.read()
    if len(end) != _END.size:
        return None
    mark, said, crc = _END.unpack(end)
    return (said, crc) if (mark, said) == (_MARK, length) else None


def faiss() -> Any:
    try:
        import faiss as library
    except ImportError as error:
        raise MissingExtraError("an index other than exact", "faiss") from error
    return library
