"""Ways to find candidates among many vectors: exact, HNSW, IVF-PQ, binary codes; behind one contract.

A backend knows the first `covered` slots of one generation of a collection. It is derived: written beside the
collection, made again whenever it is missing, and never believed. Slots that came later are compared exactly, slots
that have died are passed over, and all candidates are ranked by their full vectors.
"""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int

from faemb.collection.model import Coded
from faemb.errors import MissingExtraError
from faemb.settings import require_choice
from faemb.storage import replacing

EXACT_UP_TO = 200_000
_GRAPH_LINKS, _GRAPH_EFFORT = 32, 200
_SUBVECTORS, _LISTS_VISITED = 64, 32
_TRAINING_PER_LIST = 64


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
        with replacing(path) as temporary:
            self._write(temporary)

    @classmethod
    def load(cls, path: Path) -> "Backend":
        """Raises what faiss raises: a damaged index is deleted and made again by the caller."""
        return cls(cls._read(path))

    def _write(self, path: Path) -> None:
        faiss().write_index(self._index, str(path))

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
    """Short vectors in 64 bytes each, in lists of which a few are visited: for memory, not for precision."""

    name = "ivf-pq"

    @classmethod
    def build(cls, rows: Coded) -> "IVFPQ":
        lib, (count, width) = faiss(), rows.short.shape
        lists = max(1, min(int(4 * count**0.5), count // _TRAINING_PER_LIST))
        parts = next(parts for parts in range(min(_SUBVECTORS, width), 0, -1) if width % parts == 0)
        bits = 8 if count >= 256 else max(1, int(np.log2(max(count, 2))))
        coarse = lib.IndexFlatIP(width)
        index = lib.IndexIVFPQ(coarse, width, lists, parts, bits, lib.METRIC_INNER_PRODUCT)
        index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1
        short = np.ascontiguousarray(rows.short)
        sample = np.random.default_rng(0).permutation(count)[: max(_TRAINING_PER_LIST * lists, 65_536)]
        index.train(short[np.sort(sample)])
        index.add(short)
        return cls(index)

    def candidates(self, queries: Coded, count: int) -> Int[np.ndarray, "Q c"]:
        visits = faiss().SearchParametersIVF(nprobe=_LISTS_VISITED)
        return self._index.search(queries.short, count, params=visits)[1]


class Binary(Backend):
    """All codes are compared, bit by bit: 64 bytes an image, and tens of times faster than vectors."""

    name = "binary"

    @classmethod
    def build(cls, rows: Coded) -> "Binary":
        index = faiss().IndexBinaryFlat(8 * rows.codes.shape[1])
        index.add(np.ascontiguousarray(rows.codes))
        return cls(index)

    def candidates(self, queries: Coded, count: int) -> Int[np.ndarray, "Q c"]:
        return self._index.search(queries.codes, count)[1]

    def _write(self, path: Path) -> None:
        faiss().write_index_binary(self._index, str(path))

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


def faiss() -> Any:
    try:
        import faiss as library
    except ImportError as error:
        raise MissingExtraError("an index other than exact", "faiss") from error
    return library
