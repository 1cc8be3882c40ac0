"""Results of results: what the sure results of a search find when each of them searches in turn.

If the query q shows the same thing as a result r, and r the same as another image c, then so do q and c, although no
feature of q may match c: seen from another side, or much nearer. The chain is as sure as its weaker link, and never
called sure, since two images may each share another part with the third:

    confidence(q, c) = min(confidence(q, r), confidence(r, c), LIMIT)

This is query expansion by verified results (Chum et al. 2007), by chains of image pairs instead of a mean of vectors.
Where no result is sure, as many comparisons are spent on further candidates of the query itself.
"""

from collections.abc import Sequence

from faemb.rerank.confidence import SURE

EXPANSIONS = ("none", "results")
"""none: the query alone searches; results: its sure results search, too, or more is verified where none is sure."""
SEEDS = 5
"""Sure results that search in turn."""
NEIGHBOURS = 20
"""Images that are compared with each of them."""
FURTHER = SEEDS * NEIGHBOURS
"""Further candidates that are verified where no result is sure: as many comparisons as sure results would cost."""
LIMIT = 0.6
"""Largest confidence of an image that was found through another one: the share of right ones among those with two sure
links (docs/expansion.md)."""


def seeds(confidences: Sequence[float]) -> list[int]:
    """Numbers of the results that search in turn, of results in falling order of confidence."""
    return [number for number, confidence in enumerate(confidences) if confidence >= SURE][:SEEDS]


def through(first: float, second: float) -> float:
    """Confidence that the ends of a chain show the same thing, given that of its links."""
    return min(first, second, LIMIT)
