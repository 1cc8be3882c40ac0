"""Query expansion by verified results: each sure result of a search is used as a query.

If the query q shows the same thing as a result r, and r the same as another image c, then so do q and c, even if no
feature of q matches c: c may be seen from another side, or from much nearer. The chain is as sure as its weaker link,
but never "same", since q and c may share different parts of r:

    confidence(q, c) = min(confidence(q, r), confidence(r, c), LIMIT)

This follows Chum et al. 2007, with chains of image pairs instead of a mean of vectors. If no result is sure, the same
number of verifications is spent on further candidates of the query itself.
"""

from collections.abc import Sequence

from faemb.rerank.confidence import SURE
from faemb.rerank.vector_expansion import BY_VECTORS

EXPANSIONS = ("none", "results", *BY_VECTORS)
"""none: no expansion; results: sure results are used as queries too, or more candidates verified if there is none; the
others use vectors alone, for searches without verification."""
SEEDS = 5
"""Number of sure results used as queries."""
NEIGHBOURS = 20
"""Number of images verified against each of them."""
FURTHER = SEEDS * NEIGHBOURS
"""Number of further candidates verified if no result is sure: as many verifications as sure results would cost."""
LIMIT = 0.6
"""Largest confidence of an image found through another one: the measured precision of chains of two sure links
(docs/expansion.md)."""


def seeds(confidences: Sequence[float]) -> list[int]:
    """Positions of the results used as queries; `confidences` are in falling order."""
    return [number for number, confidence in enumerate(confidences) if confidence >= SURE][:SEEDS]


def through(first: float, second: float) -> float:
    """Confidence that the two ends of a chain show the same thing, given the confidences of its links."""
    return min(first, second, LIMIT)
