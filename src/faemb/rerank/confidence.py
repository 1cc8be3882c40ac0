"""One number for the order of results, made of similarity and geometry, and the probability that it stands for.

    score = bias + a * evidence + b * z        confidence = 1 / (1 + exp(-score))

`evidence` is what geometric verification found, in natural logarithms, so that log-odds are linear in it; z is the
similarity of the vectors in standard deviations of the similarity of unrelated images of the same collection, which
makes vectors of any length comparable. Both weights are positive: more of either never lowers a result. Where local
features are not kept, the score is made of z alone, with weights of its own.

The weights were learned from rendered views of photographs: `python -m benchmarks calibration`, docs/verification.md.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize
from scipy.special import expit

SURE = 0.9
"""Results of at least this confidence are called the same thing."""
POSSIBLE = 0.5
"""Results of at least this confidence may be the same thing; nothing is claimed of the others."""
_SAMPLE = 256
"""Images from which the similarity of unrelated images is estimated."""
_LEAST_SAMPLE = 8
_UPPER = 84.13
"""Percentile that lies one standard deviation above the median."""


class Unrelated(NamedTuple):
    """The similarity of two images that show different things."""

    typical: float
    spread: float
    """Standard deviation."""

    @classmethod
    def of(cls, vectors: Float[np.ndarray, "n D"]) -> "Unrelated":
        """From images of which most pairs show different things, at regular steps; robust against the other pairs."""
        total, dimension = vectors.shape
        chance = cls(0.0, 1.5 / np.sqrt(dimension))  # what collections show; their components are not independent
        if total < _LEAST_SAMPLE:
            return chance
        rows = np.unique(np.linspace(0, total - 1, _SAMPLE).astype(np.int64))
        sample = np.asarray(vectors[rows], np.float64)
        pairs = (sample @ sample.T)[np.triu_indices(len(sample), 1)]
        typical = float(np.median(pairs))
        return cls(typical, max(float(np.percentile(pairs, _UPPER)) - typical, chance.spread / 3))

    def deviations(self, similarity: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return (similarity - self.typical) / self.spread


class Confidence(NamedTuple):
    """The weights of the score."""

    bias: float = -6.5
    evidence: float = 0.14
    similarity: float = 0.5
    bias_alone: float = -8.0
    """Without verification."""
    similarity_alone: float = 1.2

    def score(
        self, deviations: Float[np.ndarray, " n"], evidence: Float[np.ndarray, " n"] | None
    ) -> Float[np.ndarray, " n"]:
        """Log-odds that two images show the same thing; `evidence` is None if they were not verified."""
        if evidence is None:
            return self.bias_alone + self.similarity_alone * deviations
        return self.bias + self.evidence * evidence + self.similarity * deviations

    @classmethod
    def fit(
        cls,
        deviations: Float[np.ndarray, " n"],
        evidence: Float[np.ndarray, " n"],
        same: Bool[np.ndarray, " n"],
    ) -> "Confidence":
        """Learn the weights from pairs of images of which it is known whether they show the same thing."""
        bias, *weights = _logistic(np.stack([evidence, deviations], axis=1), same)
        return cls(bias, *weights, *_logistic(deviations[:, None], same))


def probability(score: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return expit(score)


def _logistic(inputs: Float[np.ndarray, "n k"], same: Bool[np.ndarray, " n"]) -> list[float]:
    """Bias and weights, none of them negative, of a logistic regression."""
    columns = np.concatenate([np.ones((len(inputs), 1)), inputs], axis=1)
    sign = np.where(same, 1.0, -1.0)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margin = sign * (columns @ weights)
        gradient = -(sign * expit(-margin)) @ columns / len(columns)
        return float(np.logaddexp(0, -margin).mean()), gradient

    bounds = [(None, None)] + [(0.0, None)] * inputs.shape[1]
    return minimize(loss, np.zeros(columns.shape[1]), jac=True, bounds=bounds).x.tolist()
