"""Measures of a benchmark, computed from image vectors; distractors are only counted, in any number of portions."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from faemb.benchmark.datasets import Dataset
from faemb.evaluation import MEASURES, Ranking, ranked

IN_PERCENT = ("mAP", "mP@1", "mP@5", "mP@10")

Scores = Float[np.ndarray, "Q N"]


def similarities(queries: Float[np.ndarray, "Q D"], images: Float[np.ndarray, "N D"]) -> Scores:
    """Inner products; minus infinity for an image without local features, which is ranked last."""
    return np.where(np.any(images != 0, axis=1), queries @ images.T, -np.inf)


def measured(dataset: Dataset, scores: Scores, before: Int[np.ndarray, "Q N"] | None = None) -> dict[str, float]:
    """Measures by name, followed by the protocol where there are several; `before` comes from `distractors_before`."""
    found = {}
    for protocol in dataset.protocols:
        for name in dataset.measures:
            value = MEASURES[name](rankings(scores, before), dataset.judgements(protocol))
            key = name if len(dataset.protocols) == 1 else f"{name} {protocol}"
            found[key] = 100 * value if name in IN_PERCENT else value
    return found


def rankings(scores: Scores, before: Int[np.ndarray, "Q N"] | None = None) -> Iterator[Ranking]:
    """One ranking for each query; empty for a query without local features."""
    for query, row in enumerate(scores):
        if np.isneginf(row).all() or not np.any(row[np.isfinite(row)] != 0):
            yield []
            continue
        order = ranked(row)
        yield order if before is None else _among_distractors(order, before[query], len(row))


def distractors_before(scores: Scores, distractors: Float[np.ndarray, "Q M"]) -> Int[np.ndarray, "Q N"]:
    """Number of distractors more similar to each query than each image; at equal similarity the image is first.

    The counts of several portions of distractors can be added.
    """
    counts = np.empty(scores.shape, np.int64)
    for query, (row, others) in enumerate(zip(scores, distractors, strict=True)):
        counts[query] = len(others) - np.searchsorted(np.sort(others), row, side="right")
    return counts


def _among_distractors(order: Int[np.ndarray, " N"], before: Int[np.ndarray, " N"], first: int) -> np.ndarray:
    """The ranking with `before` distractors ahead of each image; distractors are numbered after the images."""
    places = np.arange(len(order)) + before[order]
    ranking = np.full(places[-1] + 1, -1, np.int64)
    ranking[places] = order
    others = ranking < 0
    ranking[others] = first + np.arange(others.sum())
    return ranking
