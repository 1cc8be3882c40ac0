"""Exact nearest neighbours: every slot in use is compared, a block at a time, from the memory mapped file."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from faemb.runtime.prefetch import picked

_BLOCK_BYTES = 1 << 24
"""Size of a block of vectors: its products with many queries fit in the cache."""


_FEW = 0.25
"""Share of a block below which its rows are read from the disk one by one, and not the whole block."""


_DAMAGED = 1e12
"""No vectors have inner products as large: they have unit length."""


class Neighbours(NamedTuple):
    """Per query the best rows, best first; where there are no more, the score is -inf and the row -1."""

    scores: Float[np.ndarray, "Q k"]
    rows: Int[np.ndarray, "Q k"]


def nearest(
    queries: Float[np.ndarray, "Q D"], vectors: Float[np.ndarray, "N *V D"], live: Int[np.ndarray, " n"], k: int
) -> Neighbours:
    """The k rows of `vectors`, among the rows `live` (ascending), with the largest inner product with each query.

    A row is a vector, or V of them, of which the nearest counts. Rows of equal score are in ascending order. Only rows
    above the k-th best so far are sorted.
    """
    k = min(k, len(live))
    best = Neighbours(np.full((len(queries), k), -np.inf, np.float32), np.full((len(queries), k), -1, np.int64))
    if k == 0:
        return best
    step = max(256, _BLOCK_BYTES // (4 * vectors[0].size))
    for start in range(0, len(vectors), step):
        stop = min(start + step, len(vectors))
        first, last = np.searchsorted(live, (start, stop))
        if first == last:
            continue
        rows = live[first:last]
        if len(rows) == stop - start:
            block = vectors[start:stop]
        elif len(rows) < _FEW * (stop - start):
            block = picked(vectors, rows)
        else:
            block = vectors[rows]
        _merge(best, products(queries, block), rows)
    return best


def products(queries: Float[np.ndarray, "Q D"], rows: Float[np.ndarray, "n *V D"]) -> Float[np.ndarray, "Q n"]:
    """The largest inner product of each query with the vectors of each row.

    That of a row whose numbers can only be damaged is infinite, so that every search finds it and its checksum is
    compared.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        scores = queries @ (rows if rows.ndim == 2 else rows[:, 0]).T
        for place in range(1, rows.shape[1] if rows.ndim == 3 else 0):
            np.maximum(scores, queries @ rows[:, place].T, out=scores)
    odd = ~(np.abs(scores) < _DAMAGED).all(0)  # also what is no number
    if odd.any():
        scores[:, odd] = np.inf
    return np.asarray(scores)


def best_of(found: Neighbours, queries: int) -> Neighbours:
    """Neighbours of several vectors of each query as neighbours of the queries: a row's largest score counts."""
    per_query, k = len(found.rows) // queries, found.rows.shape[1]
    if per_query == 1:
        return found
    best = Neighbours(np.full((queries, k), -np.inf, np.float32), np.full((queries, k), -1, np.int64))
    for query in range(queries):
        own = slice(query * per_query, (query + 1) * per_query)
        scores, rows = found.scores[own].ravel(), found.rows[own].ravel()
        order = np.lexsort((rows, -scores))
        first = np.sort(np.unique(rows[order], return_index=True)[1])  # where each row has its largest score
        chosen = order[first][:k]
        best.scores[query, : len(chosen)], best.rows[query, : len(chosen)] = scores[chosen], rows[chosen]
    return best


def _merge(best: Neighbours, scores: Float[np.ndarray, "Q b"], rows: Int[np.ndarray, " b"]) -> None:
    """Merge the scores of a block into the best so far, in place."""
    k = best.scores.shape[1]
    for query, found in enumerate(scores):
        worst = best.scores[query, -1]
        better = np.flatnonzero(found > worst)
        if not len(better):
            continue
        if len(better) > 4 * k:
            better = better[np.sort(_largest(found[better], k))]
        candidates = np.concatenate([best.scores[query], found[better]])
        names = np.concatenate([best.rows[query], rows[better]])
        order = np.argsort(-candidates, kind="stable")[:k]  # equal scores: earlier rows first
        best.scores[query], best.rows[query] = candidates[order], names[order]


def _largest(values: Float[np.ndarray, " n"], k: int) -> Int[np.ndarray, " m"]:
    """Positions of the k largest, and of all that equal the k-th: the caller resolves ties."""
    threshold = np.partition(values, len(values) - k)[len(values) - k]
    return np.flatnonzero(values >= threshold)
