"""Indexes that select candidates among many vectors: RaBitQ, HNSW, IVF-PQ, binary codes. All have one interface.

An index covers the first `covered` slots of one generation of a collection. It takes full vectors: the linear map to
short vectors or codes (linear_maps.py) is learned from a sample of the slots in use and is part of the index file. An
index is derived data: it is written beside the collection and rebuilt whenever it is missing or damaged. Later slots
are compared exactly, slots of removed images are skipped, and all candidates are ranked by their full vectors.
"""

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from faemb.collection.index_files import faiss, read_indexes, require_undamaged, write_indexes
from faemb.collection.linear_maps import LinearMap, code_map, rotated_map, short_map
from faemb.errors import FormatError, MissingExtraError, reason
from faemb.runtime import Progress, silent
from faemb.runtime.prefetch import picked
from faemb.runtime.threads import cores
from faemb.settings import require_choice

EXACT_UP_TO = 200_000
_BITS, _QUERY_BITS, _BLOCK = 2, 8, 32
"""Settings of RaBitQ: bits per component of a stored vector and of a query; number of codes compared at once.
faiss sums in 16-bit integers, which overflow above about 2,000 components; short vectors have 1,024 at most."""
_GRAPH_LINKS, _GRAPH_EFFORT = 32, 200
_SUBVECTORS, _LISTS_VISITED = 64, 32
_TRAINING_PER_LIST = 64
_ADDED_AT_ONCE = 16_384
_SAMPLE, _SAMPLE_BYTES, _SAMPLE_LEAST = 20_000, 1 << 27, 2048
"""Size of the sample from which a linear map is learned: at most `_SAMPLE` rows and `_SAMPLE_BYTES` bytes, but at least
`_SAMPLE_LEAST` rows."""

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
            self._add(np.ascontiguousarray(vectors[start : start + _ADDED_AT_ONCE]))
        progress("index", len(vectors), len(vectors))

    def _add(self, rows: Vectors) -> None:
        self._index.add(rows)

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
        write_indexes(path, [self._index])

    @classmethod
    def load(cls, path: Path, *, mapped: bool = True) -> "Backend":
        """Raises a FormatError for an index that is damaged or of another kind; the caller then builds a new one.

        With `mapped`, the file is memory-mapped where the kind of index allows it; then it cannot be extended.
        """
        try:
            require_undamaged(path)
            index, *more = cls._read(path, mapped)
        except (OSError, RuntimeError, MemoryError) as error:  # the last two are raised by faiss
            raise FormatError(f"{path} is damaged ({reason(error)})") from error
        inner = index.index if isinstance(index, faiss().IndexPreTransform) else None
        if type(faiss().downcast_index(inner)).__name__ != cls._inner:
            raise FormatError(f"{path} is an index of another kind")
        return cls(index, *more)

    @classmethod
    def _read(cls, path: Path, mapped: bool) -> list[Any]:
        return [faiss().read_index(str(path), faiss().IO_FLAG_MMAP_IFC if mapped else 0)]


class RaBitQ(Backend):
    """Codes of a few bits for each component of the short vectors, all compared by estimated inner products [GL24].

    A random rotation spreads the energy evenly over the components, as the error bound assumes. Vectors are not
    centred: one image, or equal ones, would give zero residuals.
    The codes are kept in parts: faiss compares one query with an index in one thread, so parts are compared in several.
    [GL24] Gao, Long: RaBitQ: quantizing high-dimensional vectors with a theoretical error bound, SIGMOD 2024.
    """

    name, _inner = "rabitq", "IndexRaBitQFastScan"
    least = 512
    part_rows: ClassVar[int] = 1 << 19
    """Number of codes in each part but the last. Each part selects as many candidates as are asked for: with four times
    as many parts a search takes 1.6 times as long."""

    def __init__(self, index: Any, *later: Any) -> None:
        super().__init__(index)
        self._map = faiss().downcast_VectorTransform(index.chain.at(0))
        self._parts = [faiss().downcast_index(index.index), *later]

    @property
    def covered(self) -> int:
        return sum(int(part.ntotal) for part in self._parts)

    @classmethod
    def _trained(cls, sample: Vectors) -> Any:
        short = rotated_map(sample)
        return mapped(short, cls._empty(len(short.matrix)))

    @staticmethod
    def _empty(length: int) -> Any:
        part = faiss().IndexRaBitQFastScan(length, faiss().METRIC_INNER_PRODUCT, _BLOCK, _BITS)
        part.qb = _QUERY_BITS
        # Training computes only the mean of these two vectors, the centre: zero.
        part.train(np.outer([1, -1], np.ones(length)).astype(np.float32))
        return part

    def _add(self, rows: Vectors) -> None:
        short = self._map.apply(rows)
        while len(short):
            if self._parts[-1].ntotal >= self.part_rows:
                self._parts.append(self._empty(short.shape[1]))
            room = self.part_rows - int(self._parts[-1].ntotal)
            self._parts[-1].add(short[:room])
            short = short[room:]

    def candidates(self, queries: Vectors, count: int) -> Int[np.ndarray, "Q c"]:
        short = self._map.apply(np.ascontiguousarray(queries))
        found = self._compared(short, count)
        first = np.cumsum([0, *(part.ntotal for part in self._parts[:-1])])
        slots = np.concatenate(
            [np.where(rows >= 0, rows + begin, -1) for (_, rows), begin in zip(found, first, strict=True)], axis=1
        )
        if len(self._parts) == 1:
            return slots
        scores = np.where(slots >= 0, np.concatenate([scores for scores, _ in found], axis=1), -np.inf)
        best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
        return np.take_along_axis(slots, best, axis=1)

    def _compared(self, short: Float[np.ndarray, "Q s"], count: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Scores and rows of the best in each part. Many queries are shared out by faiss, few by parts."""
        if len(short) >= cores():
            return [part.search(short, count) for part in self._parts]
        return list(self._threads.map(lambda part: part.search(short, count), self._parts))

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        """Threads that compare one query with one part each. They are kept, since OpenMP has to start anew in each new
        thread, which takes as long as half of a search."""
        threads = min(cores(), faiss().omp_get_max_threads())
        return ThreadPoolExecutor(threads, "compare", initializer=faiss().omp_set_num_threads, initargs=(1,))

    def save(self, path: Path) -> None:
        write_indexes(path, [self._index, *self._parts[1:]])

    @classmethod
    def _read(cls, path: Path, mapped: bool) -> list[Any]:
        return read_indexes(path)


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


def can_be_built() -> bool:
    """Whether indexes can be built and used: faiss is an extra."""
    try:
        faiss()
    except MissingExtraError:
        return False
    return True
