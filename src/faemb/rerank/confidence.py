"""Score of a result, by which results are ranked, from similarity and geometry; confidence, the probability it implies.

    score = bias + a * (evidence + h(z))        confidence = 1 / (1 + exp(-score))

`evidence` is that of geometric verification, in nats, so that log-odds are linear in it; z is the similarity of the
vectors in standard deviations of the similarity of unrelated images of the same collection, which makes vectors of any
dimension comparable. The score never falls when either of them rises. h rises fast up to a few deviations, slowly
above, and is bounded: similarity decides the order where the evidence is no more than chance gives, and cannot by
itself make a result "same". Where local features are not stored, the score depends on z alone, with weights of its own.

Bias and weight were learned from rendered views of photographs by `python -m benchmarks calibration`
(docs/verification.md).
"""

from math import log
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

SURE = 0.9
"""Results of at least this confidence have the verdict "same"."""
POSSIBLE = 0.5
"""Results of at least this confidence have the verdict "maybe", others "unsure"."""
RATIO = 6.0
"""Weight of one standard deviation of similarity, in nats of evidence. Not learned, since rendered views do not
determine it: small parts have low similarity, whole pictures have plenty of evidence. On photographs, mAP is flat from
6 to 8."""
SIMILAR = 6.0
"""Number of deviations above which each further one weighs only `BEYOND`: different objects of one category are this
similar."""
BEYOND = 1.0
MOST = 58.0
"""Largest contribution of similarity, in nats of evidence: with the evidence that one of 100 wrong pairs has, it makes
no result sure."""
PRESENT = 2 / 3
"""Prior: assumed share of queries with a matching image in the collection; 1 in the calibration data."""
_ENOUGH = 60.0
"""Evidence is clipped here when weights are fitted, so that outliers have little influence."""
_SAMPLE = 256
"""Number of images from which the similarity of unrelated images is estimated."""
_SPREAD = 1.5
"""Standard deviation of the similarity in collections, times the square root of the dimension: components of vectors
are not independent."""
_ODD = 2.0
"""The estimated spread is clipped to this factor of the usual one: copies among few images distort it."""
_LEAST_SAMPLE = 8
_UPPER = 84.13
"""Percentile that lies one standard deviation above the median."""


class Unrelated(NamedTuple):
    """The similarity of two images that show different things."""

    typical: float
    spread: float
    """Standard deviation."""

    @classmethod
    def of(cls, sample: Float[np.ndarray, "n D"], stored: Float[np.ndarray, "n V D"] | None = None) -> "Unrelated":
        """From vectors of images of which most pairs show different things; robust against the other pairs.

        `stored` are all vectors of these images, if vectors of their parts are stored too: the largest similarity is
        used, as in a search. Vectors that are not finite are damaged, and left out.
        """
        finite = np.isfinite(sample).all(1)
        if stored is not None:
            finite &= np.isfinite(stored).all((1, 2))
            stored = stored[finite]
        sample = sample[finite]
        count, dimension = sample.shape
        chance = cls(0.0, _SPREAD / np.sqrt(max(dimension, 1)))
        if count < _LEAST_SAMPLE:
            return chance
        vectors = sample.astype(np.float64)
        others = vectors if stored is None else stored.reshape(-1, dimension).astype(np.float64)
        pairs = (vectors @ others.T).reshape(count, count, -1).max(2)[np.triu_indices(count, 1)]
        typical = float(np.median(pairs))
        spread = float(np.percentile(pairs, _UPPER)) - typical
        return cls(typical, float(np.clip(spread, chance.spread / _ODD, chance.spread * _ODD)))

    def deviations(self, similarity: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return (similarity - self.typical) / self.spread


def sample_of(total: int) -> Int[np.ndarray, " n"]:
    """Which of `total` images to take for `Unrelated.of`: at regular steps, always the same."""
    return np.unique(np.linspace(0, max(total - 1, 0), min(total, _SAMPLE)).astype(np.int64))


class Confidence(NamedTuple):
    """The weights of the score."""

    bias: float = -8.86
    evidence: float = 0.150
    bias_alone: float = -7.59
    """Bias of the score of a pair that was not verified."""
    similarity_alone: float = 1.16

    def score(
        self, deviations: Float[np.ndarray, " n"], evidence: Float[np.ndarray, " n"] | None
    ) -> Float[np.ndarray, " n"]:
        """Log-odds that two images show the same thing; `evidence` is None if they were not verified."""
        if evidence is None:
            return self.bias_alone + self.similarity_alone * deviations
        return self.bias + self.evidence * (evidence + similarity_as_evidence(deviations))

    @classmethod
    def fit(
        cls, deviations: Float[np.ndarray, " n"], evidence: Float[np.ndarray, " n"], same: Bool[np.ndarray, " n"]
    ) -> "Confidence":
        """Learn the weights from results of queries, labelled with whether they show the same thing as the query.

        Each query must have a result that does. For queries without one all results are wrong, so the odds are
        multiplied by `PRESENT`.
        """
        both = np.minimum(evidence, _ENOUGH) + similarity_as_evidence(deviations)
        bias, weight = _logistic(both, same)
        bias_alone, weight_alone = _logistic(deviations, same)
        return cls(bias + log(PRESENT), weight, bias_alone + log(PRESENT), weight_alone)


CALIBRATIONS = {1: Confidence()}
"""Weights by number. A model names its own, so that a later version of faemb gives a collection the same confidences;
other weights, another h or another evidence get a new number."""
NEWEST = max(CALIBRATIONS)


def similarity_as_evidence(deviations: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Contribution of a similarity to the score, in nats of evidence: h of the formula."""
    beyond = BEYOND * np.maximum(deviations - SIMILAR, 0.0)
    return np.minimum(RATIO * np.minimum(deviations, SIMILAR) + beyond, MOST)


def probability(score: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """1 / (1 + exp(-score)), without overflow."""
    return np.exp(-np.logaddexp(0, -score))


def _logistic(value: Float[np.ndarray, " n"], same: Bool[np.ndarray, " n"]) -> tuple[float, float]:
    """Bias and non-negative weight of a logistic regression on one value."""
    from scipy.optimize import minimize  # here, since importing it takes a third of a second

    columns = np.stack([np.ones(len(value)), value], axis=1)
    sign = np.where(same, 1.0, -1.0)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margin = sign * (columns @ weights)
        gradient = -(sign * probability(-margin)) @ columns / len(columns)
        return float(np.logaddexp(0, -margin).mean()), gradient

    bias, weight = minimize(loss, np.zeros(2), jac=True, bounds=[(None, None), (0.0, None)]).x.tolist()
    return bias, weight
