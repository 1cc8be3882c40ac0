"""Rows of re-ranking: the order of the vectors, and the order after verification of the first candidates."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from jaxtyping import Float
from scipy.special import expit, logit

from faemb.benchmark.datasets import Query
from faemb.benchmark.rows import Asked, Retrieval, best_seconds
from faemb.benchmark.run import Row
from faemb.benchmark.scoring import Scores, measured, similarities
from faemb.benchmark.workbench import Workbench
from faemb.errors import InputError
from faemb.evaluation import ranked
from faemb.features import LocalFeatures
from faemb.rerank import Judge, Unrelated, sample_of
from faemb.rerank.expansion import FURTHER, NEIGHBOURS, seeds, through

SEARCHING, VERIFYING = "ms to search", "ms to verify"
"""Milliseconds per query."""
_ABOVE = 10.0
"""Added to scores of verified images, so that they precede all others; similarities are 1 at most."""


@dataclass(frozen=True)
class Reranked(Retrieval):
    """Retrieval by vectors, of which the `verified` most similar images are ranked again by verification.

    With `expanded`, the sure ones among them search in turn, as `faemb search --expand results` does.
    """

    verified: int = 0
    expanded: bool = False

    def key(self, bench: Workbench) -> str:
        return f"{super().key(bench)}-{self.verified}-{self.expanded}"

    def answer(self, bench: Workbench) -> Row:
        start, vectors = time.monotonic(), self.vectors(bench)
        scores = similarities(vectors.queries, vectors.images)
        per_query = 1e3 / max(len(scores), 1)
        costs = {SEARCHING: per_query * best_seconds(lambda: similarities(vectors.queries, vectors.images), 3)}
        middle = time.monotonic()
        if self.verified:
            unrelated = Unrelated.of(vectors.images[sample_of(len(vectors.images))])
            scores = self._verified(bench, scores, vectors.images, Judge(unrelated, _largest_turn(bench)))
            costs[VERIFYING] = per_query * (time.monotonic() - middle)
        return Row(
            settings={**self.settings, "pooling": self.encoder.pooling, "D": int(vectors.images.shape[1])},
            measures={**measured(bench.dataset, scores), **costs},
            seconds={"fit, pool and search": middle - start, "verify": time.monotonic() - middle},
            encoder=repr(self.encoder),
        )

    def _verified(self, bench: Workbench, scores: Scores, images: Float[np.ndarray, "N D"], judge: Judge) -> Scores:
        found = scores.astype(np.float64)
        queries = zip(bench.dataset.queries, bench.query_features, strict=True)
        for number, (query, features) in enumerate(queries):
            bench.progress("verify", number, len(found))
            if not len(features):
                continue
            order = self._order(bench, query, found[number])
            judged = _judged(bench, judge, features, order[: self.verified], found[number])
            if self.expanded:
                if not _sure(judged):
                    further = order[self.verified : self.verified + FURTHER]
                    judged |= _judged(bench, judge, features, further, found[number])
                expand(bench, judge, judged, images, None if bench.dataset.query_stays else query.number)
            if judged:
                found[number, list(judged)] = np.array(list(judged.values())) - min(judged.values()) + _ABOVE
        bench.progress("verify", len(found), len(found))
        return found

    def _order(self, bench: Workbench, query: Query, scores: Float[np.ndarray, " N"]) -> np.ndarray:
        """Candidates, the most similar first. A query that is removed from its ranking is none; junk is not known."""
        order = ranked(scores)
        order = order[np.isfinite(scores[order])]
        return order[bench.dataset.query_stays | (order != query.number)]


def _judged(
    bench: Workbench, judge: Judge, query: LocalFeatures, candidates: np.ndarray, similar: Float[np.ndarray, " N"]
) -> dict[int, float]:
    """Log-odds of the candidates, by number of the image, given the similarity of all images."""
    loads = [partial(bench.images.features, candidate) for candidate in candidates.tolist()]
    found = judge.judge(query, similar[candidates], loads)
    return {image: judgement.score for image, judgement in zip(candidates.tolist(), found, strict=True)}


def expand(
    bench: Workbench, judge: Judge, judged: dict[int, float], images: Float[np.ndarray, "N D"], removed: int | None
) -> None:
    """Add what the sure results find in turn, or raise its score; `removed` is not searched for."""
    for image in _sure(judged):
        score = judged[image]
        similar = images @ images[image]
        near = np.array([other for other in ranked(similar).tolist() if other not in (image, removed)][:NEIGHBOURS])
        for other, link in _judged(bench, judge, bench.images.features(image), near, similar).items():
            chain = float(logit(through(float(expit(score)), float(expit(link)))))
            judged[other] = max(judged.get(other, chain), chain)


def _sure(judged: Mapping[int, float]) -> list[int]:
    """The images that search in turn, given log-odds."""
    order = sorted(judged, key=lambda image: -judged[image])
    return [order[place] for place in seeds([float(expit(judged[image])) for image in order])]


def _largest_turn(bench: Workbench) -> float:
    turn = bench.extractor.largest_turn
    if turn is None:
        raise InputError("features of this extractor have no geometry to verify; give another extractor")
    return turn


@dataclass(frozen=True)
class Elsewhere(Asked):
    """A published number of a system that is not computed here, to be read beside the rows that are."""

    published: Mapping[str, float] = field(default_factory=dict)

    def key(self, bench: Workbench) -> str:
        return bench.key_of(None, *self._named(), repr(sorted(self.published.items())))

    def answer(self, bench: Workbench) -> Row:
        return Row(settings=self.settings, measures={}, published=self.published)
