"""Codes of long vectors: recall, bytes, time and learning of ITQ and RaBitQ, on the same short vectors.

    FAEMB_DATA=... python -m benchmarks codes                            20,000 rows

Rows are made from vectors of photographs; enlarged.py says how, and how to have more of them.
Recall is that of the ten best among all rows by full vectors.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.enlarged import Photographs, enlarged, enlarged_collection
from benchmarks.report import Result
from faemb.collection import Collection
from faemb.collection.backends import mapped
from faemb.collection.index_files import faiss
from faemb.collection.linear_maps import code_map, rotated_map
from faemb.collection.nearest import nearest
from faemb.collection.reading import View

_TOP, _TIMED = 10, 8
_RANKED = (64, 256, 1024)
_LISTS_VISITED = 64


class Way(NamedTuple):
    """A kind of codes of short vectors."""

    name: str
    trained: Callable[[np.ndarray, int], Any]
    """An empty index from a sample, for a number of rows."""


def _itq(sample: np.ndarray, rows: int) -> Any:
    code = code_map(sample)
    return mapped(code, faiss().IndexLSH(len(code.matrix), len(code.matrix), False, False))


def _rabitq(bits: int) -> Callable[[np.ndarray, int], Any]:
    def trained(sample: np.ndarray, rows: int) -> Any:
        index = faiss().IndexRaBitQFastScan(sample.shape[1], faiss().METRIC_INNER_PRODUCT, 32, bits)
        index.qb = 8
        index.train(np.concatenate([sample[:1], -sample[:1]]))
        return index

    return trained


def _plain_rabitq(sample: np.ndarray, rows: int) -> Any:
    index = faiss().IndexRaBitQ(sample.shape[1], faiss().METRIC_INNER_PRODUCT, 1)
    index.qb = 8
    index.train(np.concatenate([sample[:1], -sample[:1]]))
    return index


def _lists(sample: np.ndarray, rows: int) -> Any:
    lib, width = faiss(), sample.shape[1]
    lists = min(int(4 * rows**0.5), len(sample) // 16)
    coarse = lib.IndexFlatIP(width)
    index = lib.IndexIVFRaBitQFastScan(coarse, width, lists, lib.METRIC_INNER_PRODUCT, 32, True, 2)
    index.cp.min_points_per_centroid = 1
    index.train(sample)
    index.nprobe = _LISTS_VISITED
    coarse.this.disown()  # the index lives longer than this reference to its lists
    index.own_fields = True
    return index


WAYS = (
    Way("ITQ, 512 bits", _itq),
    Way("RaBitQ, 1,024 x 1 bit, not fast-scan", _plain_rabitq),
    Way("RaBitQ, 1,024 x 1 bit", _rabitq(1)),
    Way("RaBitQ, 1,024 x 2 bits", _rabitq(2)),
    Way("RaBitQ, 1,024 x 4 bits", _rabitq(4)),
    Way(f"RaBitQ, 1,024 x 2 bits, {_LISTS_VISITED} lists visited", _lists),
)


def run() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as scratch:
        rows = enlarged_collection(Path(scratch))
        if rows is None:
            return
        with Collection.open(rows.folder) as collection:
            yield from compared(collection.view(), rows.images.queries)
        yield from hardness(rows.images)


def hardness(images: Photographs) -> Iterator[Result]:
    """Are made rows as hard as real ones? Recall in 100 candidates, among equally many of both."""
    made = np.concatenate(list(enlarged(images.vectors, len(images.vectors))))
    for which, rows in (("photographs", images.vectors), ("made of them", made)):
        short = rotated_map(rows)
        for way in (WAYS[0], WAYS[2], WAYS[3]):
            index = way.trained(rows @ short.matrix.T, len(rows))
            index.add(rows @ short.matrix.T)
            truth = nearest(images.queries, rows, np.arange(len(rows)), _TOP).rows
            found = index.search(images.queries @ short.matrix.T, 100)[1]
            yield Result(f"recall in 100 candidates, {way.name}, {len(rows):,} {which}", recall(found, truth), "")


def recall(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean([len(set(some) & set(right)) / len(right) for some, right in zip(found, truth, strict=True)]))


def compared(view: View, queries: np.ndarray) -> Iterator[Result]:
    """All kinds of codes, on the same short vectors, and their candidates ranked by full vectors."""
    count = len(view.slots)
    vectors = np.asarray(view.vectors)
    sample = vectors[np.sort(np.random.default_rng(0).choice(count, min(count, 8192), replace=False))]
    (linear, seconds) = timed(lambda: rotated_map(sample))
    yield Result("learning the map to 1,024 components", seconds, "s")
    short = np.empty((count, len(linear.matrix)), np.float32)
    start = time.perf_counter()
    for first in range(0, count, 8192):
        short[first : first + 8192] = vectors[first : first + 8192] @ linear.matrix.T
    yield Result("applying it", (time.perf_counter() - start) / count * 1e6, "us/row")
    truth = nearest(queries, vectors, view.slots, _TOP).rows
    asked = queries @ linear.matrix.T
    for way in WAYS:
        index, learning = timed(partial(way.trained, sample @ linear.matrix.T, count))
        _, adding = timed(partial(_add, index, short))
        name = f"{way.name}, {count:,} rows"
        yield Result(f"{name}: size", faiss().serialize_index(index).nbytes / count, "bytes/image")
        yield Result(f"{name}: learning", learning, "s")
        yield Result(f"{name}: adding", adding / count * 1e6, "us/row")
        found = index.search(asked, max(_RANKED))[1]
        yield Result(f"{name}: recall@10 without full vectors", recall(found[:, :_TOP], truth), "")
        for ranked in _RANKED:
            yield Result(f"{name}: recall@10, {ranked} ranked", recall(found[:, :ranked], truth), "")
            seconds = per_query(partial(index.search, k=ranked), asked)
            yield Result(f"{name}: {ranked} candidates", 1e6 * seconds, "us/query")


def _add(index: Any, rows: np.ndarray) -> None:
    for start in range(0, len(rows), 16_384):
        index.add(rows[start : start + 16_384])


def per_query(
    search: Callable[[np.ndarray], object],
    queries: np.ndarray,
    clock: Callable[[], float] = time.process_time,
) -> float:
    """The median of some queries, one at a time; by default in processor time of all threads, which other programs do
    not change."""
    return float(np.median([_seconds(partial(search, one[None]), clock) for one in queries[:_TIMED]]))


def _seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return clock() - start


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start
