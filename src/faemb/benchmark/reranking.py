"""Rows of re-ranking: the ranking by vectors, and the ranking after verification of the best candidates."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from jaxtyping import Float
from scipy.special import expit, logit

from faemb.benchmark.datasets import Query
from faemb.benchmark.rows import RequestedRow, Retrieval, best_seconds
from faemb.benchmark.run import Row
from faemb.benchmark.scoring import Scores, measured, similarities
from faemb.benchmark.workbench import Pooled, Workbench
from faemb.errors import InputError
from faemb.evaluation import ranked
from faemb.features import LocalFeatures
from faemb.rerank import Judge, Unrelated, sample_of
from faemb.rerank.expansion import FURTHER, NEIGHBOURS, seeds, through
from faemb.rerank.vector_expansion import BY_VECTORS, RANKED, averaged, reciprocal, scaled

SEARCHING, EXPANDING, VERIFYING = "ms to search", "ms to expand", "ms to verify"
"""Milliseconds per query."""
_ABOVE = 10.0
"""Added to the scores of verified images, so that they rank above all others, whose similarities are at most 1."""


@dataclass(frozen=True)
class Reranked(Retrieval):
    """Retrieval by vectors; the `verified` most similar images are re-ranked by verification.

    With `expanded`, results with the verdict "same" are used as further queries, as by `faemb search --expand results`.
    """

    verified: int = 0
    expanded: bool = False
    by_vectors: str = ""
    """Method of query expansion by vectors alone, as in `faemb search --verify 0 --expand NAME`; empty for none."""

    def key(self, bench: Workbench) -> str:
        return f"{super().key(bench)}-{self.verified}-{self.by_vectors or self.expanded}"

    def answer(self, bench: Workbench) -> Row:
        start, vectors = time.monotonic(), self.vectors(bench)
        scores = similarities(vectors.queries, vectors.images)
        per_query = 1e3 / max(len(scores), 1)
        costs = {SEARCHING: per_query * best_seconds(lambda: similarities(vectors.queries, vectors.images), 3)}
        middle = time.monotonic()
        if self.by_vectors:
            scores = self._expanded(bench, scores, vectors)
            costs[EXPANDING] = per_query * (time.monotonic() - middle)
        if self.verified:
            unrelated = Unrelated.of(vectors.images[sample_of(len(vectors.images))])
            judge = Judge(unrelated, _largest_turn(bench))
            scores, expanding = self._verified(bench, scores, vectors.images, judge)
            costs[VERIFYING] = per_query * (time.monotonic() - middle - expanding)
            if self.expanded:
                costs[EXPANDING] = per_query * expanding
        return Row(
            settings={**self.settings, "pooling": self.encoder.pooling, "D": int(vectors.images.shape[1])},
            measures={**measured(bench.dataset, scores), **costs},
            seconds={"fit, pool and search": middle - start, "verify": time.monotonic() - middle},
            encoder=repr(self.encoder),
        )

    def _verified(
        self, bench: Workbench, scores: Scores, images: Float[np.ndarray, "N D"], judge: Judge
    ) -> tuple[Scores, float]:
        """Scores after verification, and the seconds spent on expansion."""
        found, expanding = scores.astype(np.float64), 0.0
        queries = zip(bench.dataset.queries, bench.query_features, strict=True)
        for number, (query, features) in enumerate(queries):
            bench.progress("verify", number, len(found))
            if not len(features):
                continue
            order = self._order(bench, query, found[number])
            judged = _judged(bench, judge, features, order[: self.verified], found[number])
            if self.expanded:
                begun = time.monotonic()
                if not _sure(judged):
                    further = order[self.verified : self.verified + FURTHER]
                    judged |= _judged(bench, judge, features, further, found[number])
                expand(bench, judge, judged, images, None if bench.dataset.query_stays else query.number)
                expanding += time.monotonic() - begun
            if judged:
                found[number, list(judged)] = np.array(list(judged.values())) - min(judged.values()) + _ABOVE
        bench.progress("verify", len(found), len(found))
        return found, expanding

    def _expanded(self, bench: Workbench, scores: Scores, vectors: Pooled) -> Scores:
        found, count = scores.astype(np.float64), BY_VECTORS[self.by_vectors]
        for number, (query, vector) in enumerate(zip(bench.dataset.queries, vectors.queries, strict=True)):
            order = self._order(bench, query, found[number])[:RANKED]
            if not vector.any() or not len(order):
                continue
            if self.by_vectors == "average":
                near = order[:count]
                wider = averaged(vector[None], vectors.images[near][None], scores[number, near][None])
                found[number] = similarities(wider, vectors.images)[0]
                continue
            removed = None if bench.dataset.query_stays else query.number
            changed = _by_neighbours(self.by_vectors, scores[number, order], vectors.images, order, vector, removed)
            found[number, order] = changed - changed.min() + _ABOVE
        return found

    def _order(self, bench: Workbench, query: Query, scores: Float[np.ndarray, " N"]) -> np.ndarray:
        """Candidates, most similar first, without the query if it is removed from its own ranking; junk is included."""
        order = ranked(scores)
        order = order[np.isfinite(scores[order])]
        return order[bench.dataset.query_stays | (order != query.number)]


def _by_neighbours(
    how: str,
    similar: Float[np.ndarray, " k"],
    images: Float[np.ndarray, "N D"],
    order: np.ndarray,
    query: Float[np.ndarray, " D"],
    removed: int | None,
) -> Float[np.ndarray, " k"]:
    """Expanded similarities of a query to the images in `order`; the image `removed` is nobody's neighbour."""
    own = images[order]
    if how == "reciprocal":
        return reciprocal(similar, similarities(own, own))
    others = similarities(own, images)
    others[np.arange(len(order)), order] = -np.inf
    if removed is not None:
        others[:, removed] = -np.inf
    near = np.argsort(-others, axis=1, kind="stable")[:, : BY_VECTORS[how]]
    others = np.take_along_axis(others, near, 1)
    return scaled(similar, others) if how == "scaled" else averaged(own, images[near], others) @ query


def _judged(
    bench: Workbench, judge: Judge, query: LocalFeatures, candidates: np.ndarray, similar: Float[np.ndarray, " N"]
) -> dict[int, float]:
    """Log-odds of the candidates, by image number; `similar` are the similarities of all images to the query."""
    loads = [partial(bench.images.features, candidate) for candidate in candidates.tolist()]
    found = judge.judge(query, similar[candidates], loads)
    return {image: judgement.score for image, judgement in zip(candidates.tolist(), found, strict=True)}


def expand(
    bench: Workbench, judge: Judge, judged: dict[int, float], images: Float[np.ndarray, "N D"], removed: int | None
) -> None:
    """Search with the results of verdict "same"; add their results to `judged`, or raise the scores of those in it.

    The image `removed` is not added.
    """
    for image in _sure(judged):
        score = judged[image]
        similar = images @ images[image]
        near = np.array([other for other in ranked(similar).tolist() if other not in (image, removed)][:NEIGHBOURS])
        for other, link in _judged(bench, judge, bench.images.features(image), near, similar).items():
            chain = float(logit(through(float(expit(score)), float(expit(link)))))
            judged[other] = max(judged.get(other, chain), chain)


def _sure(judged: Mapping[int, float]) -> list[int]:
    """The images to use as further queries, given the log-odds of all."""
    order = sorted(judged, key=lambda image: -judged[image])
    return [order[place] for place in seeds([float(expit(judged[image])) for image in order])]


def _largest_turn(bench: Workbench) -> float:
    turn = bench.extractor.largest_turn
    if turn is None:
        raise InputError("features of this extractor have no geometry to verify; give another extractor")
    return turn


@dataclass(frozen=True)
class Elsewhere(RequestedRow):
    """A published number of a system that is not computed here, listed for comparison."""

    published: Mapping[str, float] = field(default_factory=dict)

    def key(self, bench: Workbench) -> str:
        return bench.key_of(None, *self._named(), repr(sorted(self.published.items())))

    def answer(self, bench: Workbench) -> Row:
        return Row(settings=self.settings, measures={}, published=self.published)
