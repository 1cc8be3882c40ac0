"""Indexes that select candidates among many vectors: RaBitQ, HNSW, IVF-PQ, binary codes. All have one interface.

An index covers the first `covered` slots of one generation of a collection. It takes full vectors: the linear map to
short vectors or codes (linear_maps.py) is learned from a sample of the slots in use and is part of the index file. An
index is derived data: it is written beside the collection and rebuilt whenever it is missing or damaged. Later slots
are compared exactly, slots of removed images are skipped, and all candidates are ranked by their full vectors.

A file ends with its own length and checksum, since faiss does not validate what it reads: a damaged file changes
results, or crashes the process. Both are verified before a file is used for the first time in a process.
"""

import os
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from faemb.collection.linear_maps import LinearMap, code_map, rotated_map, short_map
from faemb.errors import FormatError, MissingExtraError, reason
from faemb.runtime import Progress, silent
from faemb.runtime.ahead import picked
from faemb.runtime.storage import replacing
from faemb.settings import require_choice

EXACT_UP_TO = 200_000
_BITS, _QUERY_BITS, _BLOCK = 2, 8, 32
"""Of RaBitQ: bits per component of a stored vector and of a query, and number of codes that faiss compares at a time.
faiss sums in 16-bit integers, which overflow above about 2,000 components; short vectors have 1,024 at most."""
_GRAPH_LINKS, _GRAPH_EFFORT = 32, 200
_SUBVECTORS, _LISTS_VISITED = 64, 32
_TRAINING_PER_LIST = 64
_ADDED_AT_ONCE = 16_384
_SAMPLE, _SAMPLE_BYTES, _SAMPLE_LEAST = 20_000, 1 << 27, 2048
"""Size of the sample from which a linear map is learned: at most `_SAMPLE` rows and `_SAMPLE_BYTES` bytes, but at least
`_SAMPLE_LEAST` rows."""
_END = struct.Struct("<8sQI")
"""A mark, the length of the file, and the CRC32 of all bytes before this."""
_MARK = b"faembix2"

Vectors = Float[np.ndarray, "n D"]


class Backend(ABC):
    """An index of `covered` slots."""

    name: ClassVar[str]
    least: ClassVar[int] = 64
    """Minimum number of candidates re-ranked by full vectors; larger where the candidate order is less precise."""
    _inner: ClassVar[str]
    """The class of faiss that holds the short vectors or codes."""

    def __init__(self, index: Any) -> None:
        self._index = index

    @property
    def covered(self) -> int:
        return int(self._index.ntotal)

    @property
    def dimension(self) -> int:
        """Dimension of the full vectors."""
        return int(self._index.d)

    @classmethod
    def build(cls, vectors: Vectors, live: Int[np.ndarray, " m"], progress: Progress = silent) -> "Backend":
        """An index of all rows, in their order; its linear map is learned from the rows in use, `live`."""
        progress("index", 0, len(vectors))
        index = cls(cls._trained(_sample(vectors, live)))
        index.extend(vectors, progress)
        return index

    def extend(self, vectors: Vectors, progress: Progress = silent) -> None:
        """Append rows to those covered, with the same linear map; not possible if the file is memory-mapped."""
        for start in range(0, len(vectors), _ADDED_AT_ONCE):
            progress("index", start, len(vectors))
            self._index.add(np.ascontiguousarray(vectors[start : start + _ADDED_AT_ONCE]))
        progress("index", len(vectors), len(vectors))

    @classmethod
    @abstractmethod
    def _trained(cls, sample: Vectors) -> Any:
        """An empty faiss index of full vectors, with its linear map."""

    @abstractmethod
    def candidates(self, queries: Vectors, count: int) -> Int[np.ndarray, "Q c"]:
        """Slots to compare with each query; -1 where there are no more."""

    def _search(self, queries: Vectors, count: int, parameters: Any = None) -> Int[np.ndarray, "Q c"]:
        if parameters is not None:
            parameters = faiss().SearchParametersPreTransform(index_params=parameters)
        return self._index.search(np.ascontiguousarray(queries), count, params=parameters)[1]

    def save(self, path: Path) -> None:
        with replacing(path) as temporary, temporary.open("wb") as file:
            written = _Summed(file)
            write_index(self._index, written.write)
            file.write(_END.pack(_MARK, file.tell() + _END.size, written.crc))

    @classmethod
    def load(cls, path: Path, *, mapped: bool = True) -> "Backend":
        """Raises a FormatError for an index that is damaged or of another kind; the caller then builds a new one.

        With `mapped`, the file is memory-mapped where the kind of index allows it; then it cannot be extended.
        """
        try:
            _require_undamaged(path)
            index = faiss().read_index(str(path), faiss().IO_FLAG_MMAP_IFC if mapped else 0)
        except (OSError, RuntimeError, MemoryError) as error:  # the last two are raised by faiss
            raise FormatError(f"{path} is damaged ({reason(error)})") from error
        inner = index.index if isinstance(index, faiss().IndexPreTransform) else None
        if type(faiss().downcast_index(inner)).__name__ != cls._inner:
            raise FormatError(f"{path} is an index of another kind")
        return cls(index)


class RaBitQ(Backend):
    """Codes of a few bits for each component of the short vectors, all compared by estimated inner products [GL24].

    A random rotation spreads the energy evenly over the components, as the error bound assumes. Vectors are not
    centred: one image, or equal ones, would give zero residuals.
    [GL24] Gao, Long: RaBitQ: quantizing high-dimensional vectors with a theoretical error bound, SIGMOD 2024.
    """

    name, _inner = "rabitq", "IndexRaBitQFastScan"
    least = 512

    @classmethod
    def _trained(cls, sample: Vectors) -> Any:
        lib, short = faiss(), rotated_map(sample)
        length = len(short.matrix)
        inner = lib.IndexRaBitQFastScan(length, lib.METRIC_INNER_PRODUCT, _BLOCK, _BITS)
        inner.qb = _QUERY_BITS
        index = mapped(short, inner)
        index.train(np.concatenate([sample[:1], -sample[:1]]))  # training computes only their mean, the centre: zero
        return index

    def candidates(self, queries: Vectors, count: int) -> Int[np.ndarray, "Q c"]:
        if len(queries) > 1:
            return self._search(queries, count)
        with _one_thread():  # faiss compares a single query in one; the others would be busy waiting
            return self._search(queries, count)


class HNSW(Backend):
    """A graph of short vectors: fast at any size, twice the memory of the short vectors."""

    name, _inner = "hnsw", "IndexHNSWFlat"

    @classmethod
    def _trained(cls, sample: Vectors) -> Any:
        short = short_map(sample)
        graph = faiss().IndexHNSWFlat(len(short.matrix), _GRAPH_LINKS, faiss().METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = _GRAPH_EFFORT
        return mapped(short, graph, unit=True)

    def candidates(self, queries: Vectors, count: int) -> Int[np.ndarray, "Q c"]:
        return self._search(queries, count, faiss().SearchParametersHNSW(efSearch=max(_GRAPH_EFFORT, count)))


class IVFPQ(Backend):
    """Short vectors in at most 64 bytes each, in inverted lists of which few are visited: small, less precise."""

    name, _inner = "ivf-pq", "IndexIVFPQ"

    @classmethod
    def _trained(cls, sample: Vectors) -> Any:
        lib, count = faiss(), len(sample)
        short = _padded(short_map(sample))
        length = len(short.matrix)
        lists = max(1, min(int(4 * count**0.5), count // _TRAINING_PER_LIST))
        bits = 8 if count >= 256 else max(1, int(np.log2(max(count, 2))))
        parts = length // -(-length // _SUBVECTORS)
        inner = lib.IndexIVFPQ(lib.IndexFlatIP(length), length, lists, parts, bits, lib.METRIC_INNER_PRODUCT)
        inner.cp.min_points_per_centroid = inner.pq.cp.min_points_per_centroid = 1
        index = mapped(short, inner, unit=True)
        index.train(sample if count > 1 else np.repeat(sample, 2, axis=0))  # one bit needs two values
        return index

    def candidates(self, queries: Vectors, count: int) -> Int[np.ndarray, "Q c"]:
        return self._search(queries, count, faiss().SearchParametersIVF(nprobe=_LISTS_VISITED))


class Binary(Backend):
    """Binary codes, all compared by Hamming distance: 64 bytes an image, and tens of times faster than vectors."""

    name, _inner = "binary", "IndexLSH"

    @classmethod
    def _trained(cls, sample: Vectors) -> Any:
        code = code_map(sample)
        bits = len(code.matrix)
        return mapped(code, faiss().IndexLSH(bits, bits, False, False))  # the signs of the mapped values

    def candidates(self, queries: Vectors, count: int) -> Int[np.ndarray, "Q c"]:
        return self._search(queries, count)


APPROXIMATE: dict[str, type[Backend]] = {kind.name: kind for kind in (RaBitQ, HNSW, IVFPQ, Binary)}
BACKENDS = ("auto", "exact", *APPROXIMATE)


def backend_for(name: str, images: int) -> type[Backend] | None:
    """The kind of index for this number of images; None: exact comparison with all."""
    require_choice("index", name, BACKENDS)
    return APPROXIMATE.get(index_in_use(name, images))


def index_in_use(name: str, images: int, *, remote: bool = False) -> str:
    """What `auto` means for this number of images; other names as they are, but for kinds that servers do not have."""
    if remote:
        return "exact" if name in ("auto", RaBitQ.name) else name
    if name != "auto":
        return name
    return RaBitQ.name if images > EXACT_UP_TO and can_be_built() else "exact"


def misses_index(name: str, images: int) -> bool:
    """Whether `auto` compares all images only because no index can be built here."""
    return name == "auto" and images > EXACT_UP_TO and not can_be_built()


def _sample(vectors: Vectors, live: Int[np.ndarray, " m"]) -> Float[np.ndarray, "s D"]:
    most = min(_SAMPLE, max(_SAMPLE_LEAST, _SAMPLE_BYTES // (4 * vectors.shape[1])))
    rows = live if len(live) <= most else np.sort(np.random.default_rng(0).choice(live, most, replace=False))
    return np.ascontiguousarray(picked(vectors, rows))


def mapped(linear: LinearMap, inner: Any, *, unit: bool = False) -> Any:
    """An index of x that stores A x + b, scaled to unit length if `unit`."""
    lib, (short, dimension) = faiss(), linear.matrix.shape
    transform = lib.LinearTransform(dimension, short, True)
    lib.copy_array_to_vector(np.ascontiguousarray(linear.matrix, np.float32).ravel(), transform.A)
    lib.copy_array_to_vector(np.ascontiguousarray(linear.bias, np.float32), transform.b)
    transform.is_trained = True
    index = lib.IndexPreTransform(inner)
    if unit:
        index.prepend_transform(lib.NormalizationTransform(short, 2.0))
    index.prepend_transform(transform)
    return index


def _padded(linear: LinearMap) -> LinearMap:
    """The map with rows of zeros at the end, which make the dimension divisible and change no inner product."""
    short = len(linear.matrix)
    step = -(-short // _SUBVECTORS)
    more = -short % step
    return LinearMap(np.pad(linear.matrix, ((0, more), (0, 0))), np.pad(linear.bias, (0, more)))


@contextmanager
def _one_thread() -> Iterator[None]:
    """faiss uses one thread in the block."""
    before = faiss().omp_get_max_threads()
    faiss().omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss().omp_set_num_threads(before)


def write_index(index: Any, write: Callable[[bytes], int]) -> None:
    """Write through a Python file: faiss itself does not detect a full disk when it writes the last bytes."""
    faiss().write_index(index, faiss().PyCallbackIOWriter(write))


class _Summed:
    """A file that is being written, and the CRC32 of its content so far."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.crc = file, 0

    def write(self, part: bytes) -> int:
        self.crc = zlib.crc32(part, self.crc)
        return self._file.write(part)


_VERIFIED: set[tuple[int, int, int, int]] = set()
"""Device, inode, length and modification time of the index files that this process has verified."""


def _require_undamaged(path: Path) -> None:
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


def can_be_built() -> bool:
    """Whether indexes can be built and used: faiss is an extra."""
    try:
        faiss()
    except MissingExtraError:
        return False
    return True


def faiss() -> Any:
    try:
        import faiss as library
    except ImportError as error:
        raise MissingExtraError("an index of faiss", "faiss") from error
    return library
