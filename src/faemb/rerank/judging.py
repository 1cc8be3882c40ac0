"""Verifies the candidates of a search against the query, and gives each a score and a confidence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log, pi

import numpy as np
from jaxtyping import Float

from faemb.features import LocalFeatures
from faemb.rerank.confidence import Confidence, Unrelated, probability
from faemb.rerank.matching import Matchable
from faemb.rerank.verification import Verification, verify
from faemb.runtime.threads import cores, in_threads

VERIFIED = 100
"""Default number of candidates that are verified."""
MOST_UNCOMPARED = 0.89
"""Largest confidence of a candidate whose features are lost, among others that are verified: below `SURE`, since
similarity without geometry makes no other result sure there."""

Load = Callable[[], LocalFeatures | None]
"""Reads the features of a candidate when they are needed; returns None if they are not stored."""


@dataclass(frozen=True, eq=False)
class Judgement:
    score: float
    """Log-odds that query and candidate show the same thing; results are ranked by it."""
    confidence: float
    """The probability that they do."""
    verification: Verification | None
    """None if the candidate's features are not available; the confidence then comes from the vectors alone."""


class Judge:
    """Judges candidates of one collection.

    unrelated: similarity of unrelated images in the collection
    turn:      largest rotation between images whose features can match, in radians; None if the features have no
               usable geometry
    keeps:     whether the collection stores features, so that missing features of a candidate are lost ones
    """

    def __init__(
        self, unrelated: Unrelated, turn: float | None, confidence: Confidence | None = None, *, keeps: bool = False
    ) -> None:
        self.unrelated, self.turn, self.confidence, self.keeps = unrelated, turn, confidence or Confidence(), keeps

    def judge(
        self,
        query: LocalFeatures,
        similarities: Float[np.ndarray, " n"],
        candidates: Sequence[Load],
        turned: Sequence[LocalFeatures] = (),
    ) -> list[Judgement]:
        """A judgement of each candidate, given its similarity and a function that reads its features.

        `turned` are features of the query turned by quarter turns, in its coordinates. The set that agrees best
        counts; matches then refer to the rows of `query` followed by those of each set in `turned`.
        """
        verified = self._verified(query, turned, candidates)
        if verified is None:
            return [self.judged(similarity, None) for similarity in similarities.tolist()]
        return [
            self.judged(similarity, verification, lost=self.keeps and verification is None)
            for similarity, verification in zip(similarities.tolist(), verified, strict=True)
        ]

    def _verified(
        self, query: LocalFeatures, turned: Sequence[LocalFeatures], candidates: Sequence[Load]
    ) -> list[Verification | None] | None:
        """None if the query cannot be compared with any."""
        if self.turn is None or not len(query):
            return None
        turn, prepared = self.turn, _prepared([query, *turned])
        if not len(prepared[0]):  # descriptors without geometry
            return None

        def compare(load: Load) -> Verification | None:
            features = load()
            candidate = Matchable.of(features) if features is not None else None
            if candidate is None or (not len(candidate) and features):
                return None
            upright = verify(prepared[0], candidate, turn=turn)
            return _most_evident([upright, *(verify(each, candidate, turn=pi) for each in prepared[1:])])

        return list(in_threads(compare, candidates, cores()))

    def judged(self, similarity: float, verification: Verification | None, *, lost: bool = False) -> Judgement:
        """The judgement of a candidate that was verified already, or cannot be (None); `lost`: its features are."""
        deviations = self.unrelated.deviations(np.array([similarity]))
        evidence = None if verification is None else np.array([verification.evidence])
        score = self.confidence.score(deviations, evidence)
        if lost:
            score = np.minimum(score, log(MOST_UNCOMPARED / (1 - MOST_UNCOMPARED)))
        return Judgement(float(score[0]), float(probability(score)[0]), verification)


def _prepared(sets: Sequence[LocalFeatures]) -> list[Matchable]:
    """Rows count on from one set to the next."""
    starts = np.cumsum([0, *map(len, sets)]).tolist()
    each = map(Matchable.of, sets)
    return [replace(found, rows=found.rows + start) for found, start in zip(each, starts, strict=False)]


def _most_evident(found: Sequence[Verification]) -> Verification:
    """The best of several attempts; by chance, one of n is n times as likely to reach its evidence."""
    best = max(found, key=lambda each: each.evidence)
    return replace(best, evidence=max(best.evidence - log(len(found)), 0.0))
