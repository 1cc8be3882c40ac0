"""Candidates of a search, compared with the query feature by feature, with a score and a confidence each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from faemb.features import LocalFeatures
from faemb.rerank.confidence import Confidence, Unrelated, probability
from faemb.rerank.matching import Matchable
from faemb.rerank.verification import Verification, verify
from faemb.runtime.threads import cores, in_threads

VERIFIED = 100
"""Candidates that are verified, if nothing else is asked for."""

Load = Callable[[], LocalFeatures | None]
"""Gives the features of a candidate when they are needed; None if they are not kept."""


@dataclass(frozen=True, eq=False)
class Judgement:
    score: float
    """Log-odds that query and candidate show the same thing: the order of the results."""
    confidence: float
    """The probability that they do."""
    verification: Verification | None
    """None if the candidate's features are not available: the confidence is that of the vectors alone."""


class Judge:
    """Judges candidates of one collection.

    unrelated: similarity of unrelated images in the collection
    turn:      largest turn between images whose features can match, in radians; None if geometry says nothing
    """

    def __init__(self, unrelated: Unrelated, turn: float | None, confidence: Confidence | None = None) -> None:
        self.unrelated, self.turn, self.confidence = unrelated, turn, confidence or Confidence()

    def judge(
        self, query: LocalFeatures, similarities: Float[np.ndarray, " n"], candidates: Sequence[Load]
    ) -> list[Judgement]:
        """A judgement of each candidate, given its similarity and the way to its features."""
        verified = self._verified(query, candidates)
        return [
            self.judged(similarity, verification)
            for similarity, verification in zip(similarities.tolist(), verified, strict=True)
        ]

    def _verified(self, query: LocalFeatures, candidates: Sequence[Load]) -> list[Verification | None]:
        if self.turn is None or not len(query):
            return [None] * len(candidates)
        turn, prepared = self.turn, Matchable.of(query)
        if not len(prepared):  # descriptors without geometry
            return [None] * len(candidates)

        def compare(load: Load) -> Verification | None:
            features = load()
            candidate = Matchable.of(features) if features is not None else None
            if candidate is None or (not len(candidate) and features):
                return None
            return verify(prepared, candidate, turn=turn)

        return list(in_threads(compare, candidates, cores()))

    def judged(self, similarity: float, verification: Verification | None) -> Judgement:
        """The judgement of an image that was compared already, or cannot be."""
        deviations = self.unrelated.deviations(np.array([similarity]))
        evidence = None if verification is None else np.array([verification.evidence])
        score = self.confidence.score(deviations, evidence)
        return Judgement(float(score[0]), float(probability(score)[0]), verification)
