"""Query expansion in a collection: sure results are used as queries, or nearest vectors change the ranking."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from faemb.collection.backends import Backend
from faemb.collection.catalogue import Entry
from faemb.collection.nearest import Neighbours
from faemb.collection.reading import DECIMALS, View, rounded
from faemb.collection.results import Hit
from faemb.collection.undamaged import SoundSearch
from faemb.collection.verifying import Verifier
from faemb.rerank.expansion import NEIGHBOURS, seeds, through
from faemb.rerank.vector_expansion import BY_VECTORS, RANKED, averaged, reciprocal, scaled, with_overlap
from faemb.runtime.prefetch import picked

Make = Callable[[Sequence[Entry], Sequence[float]], list[Hit]]
"""Makes the hits of a query from images and their similarities to it."""
_COPY = 1 - 0.5 * 10**-DECIMALS
"""Images of at least this similarity are taken for the query itself or a copy, and are not used for expansion."""


class Expander:
    """Expands the hits of a query in one state of a collection."""

    note = ""
    """What could not be verified, with its cure; empty if there was nothing."""

    def __init__(self, sound: SoundSearch, verifier: Verifier, kind: type[Backend] | None) -> None:
        self._sound, self._view, self._verifier, self._kind = sound, sound.view, verifier, kind

    def expanded(self, query: Float[np.ndarray, " D"], hits: Sequence[Hit], make: Make) -> list[Hit]:
        """The hits and those found through sure ones, by falling confidence; hits without a confidence last.

        `query` is the query's vector; `hits` are in falling order of confidence.
        """
        best = {hit.path: hit for hit in hits}
        for number in seeds([_confidence(hit) if _can_search(hit) else 0.0 for hit in hits]):
            for hit in self._found_through(hits[number], query, make):
                known = best.get(hit.path)
                if known is None or _confidence(known) < _confidence(hit):
                    best.pop(hit.path, None)  # moved behind those of equal confidence found by the query itself
                    best[hit.path] = replace(known or hit, confidence=hit.confidence, through=hit.through)
        return sorted(best.values(), key=_confidence, reverse=True)

    def _found_through(self, seed: Hit, query: Float[np.ndarray, " D"], make: Make) -> list[Hit]:
        """Hits found with `seed` as the query, by falling confidence."""
        entry = seed.entry
        if entry is None or entry.slot is None or (features := self._verifier.features(entry)) is None:
            return []
        vectors = self._view.vectors
        own = np.asarray(vectors[[entry.slot]])
        found = self._sound.search(own, NEIGHBOURS + 1, self._kind)  # one more: it finds itself
        rows = found.rows[0, found.rows[0] >= 0]
        near = self._sound.entries(self._view.ids[rows].tolist())
        judged = self._verifier.judge(features, near, found.scores[0, : len(rows)].tolist())
        self.note = self.note or self._verifier.note
        similarities = rounded(picked(vectors, self._view.slots[rows]) @ query)
        hits = [
            replace(hit, confidence=through(_confidence(seed), judgement.confidence), through=seed.path)
            for hit, judgement in zip(make(near, similarities), judged, strict=True)
            if hit.path != seed.path
        ]
        return sorted(hits, key=_confidence, reverse=True)


def _can_search(hit: Hit) -> bool:
    """Whether a hit is used as a query; the query itself and its copies would find nothing new."""
    return hit.verification is not None and not hit.itself and not hit.copy_of_query


def _confidence(hit: Hit) -> float:
    return -1.0 if hit.confidence is None else hit.confidence


def expanded_by_vectors(
    sound: SoundSearch, how: str, queries: Float[np.ndarray, "Q D"], found: Neighbours, kind: type[Backend] | None
) -> Neighbours:
    """The images found for each query, re-ranked by expanded similarity; `average` searches again."""
    if not found.rows.size:
        return found
    if how == "average":
        near = [_others(found, number, BY_VECTORS[how]) for number in range(len(queries))]
        vectors = [_with_near(sound.view, query[None], one) for query, one in zip(queries, near, strict=True)]
        return sound.search(np.concatenate(vectors), found.rows.shape[1], kind, parts=True)
    scores = found.scores.copy()
    for number, query in enumerate(queries):
        known = found.rows[number] >= 0
        scores[number, known] = _compared(sound, how, query, found, number, kind)
    order = np.lexsort((found.rows, -scores), axis=-1)
    return Neighbours(np.take_along_axis(scores, order, -1), np.take_along_axis(found.rows, order, -1))


def _compared(
    sound: SoundSearch,
    how: str,
    query: Float[np.ndarray, " D"],
    found: Neighbours,
    number: int,
    kind: type[Backend] | None,
) -> Float[np.ndarray, " k"]:
    """Expanded similarities of a query to the images found for it; copies of the query keep theirs, and stay first."""
    rows, similar = (each[number][found.rows[number] >= 0] for each in (found.rows, found.scores))
    copy = similar >= _COPY
    if how == "reciprocal":
        changed = similar.copy()
        changed[~copy] = _by_reciprocal(sound.view, rows[~copy], similar[~copy])
        return np.round(changed, DECIMALS)
    own = picked(sound.view.vectors, sound.view.slots[rows])
    wide = sound.search(own, BY_VECTORS[how] + 2, kind)  # each finds itself, and perhaps the query
    left_out = (wide.rows == rows[:, None]) | np.isin(wide.rows, rows[copy])
    near = Neighbours(np.where(left_out, -np.inf, wide.scores), np.where(left_out, -1, wide.rows))
    if how == "scaled":
        changed = scaled(similar, _first(near, BY_VECTORS[how]).scores)
    else:
        changed = _with_near(sound.view, own, _first(near, BY_VECTORS[how])) @ query
    return np.where(copy, similar, np.round(changed, DECIMALS))


def _by_reciprocal(
    view: View, rows: Int[np.ndarray, " k"], similar: Float[np.ndarray, " k"]
) -> Float[np.ndarray, " k"]:
    """The first images by their mutual neighbours; the others keep their order behind them."""
    own = picked(view.vectors, view.slots[rows[:RANKED]])
    first = reciprocal(similar[:RANKED], np.round(own @ own.T, DECIMALS))  # so that copies are equally similar
    return np.concatenate([first, with_overlap(similar[RANKED:], 0)])


def _with_near(view: View, vectors: Float[np.ndarray, "k D"], near: Neighbours) -> Float[np.ndarray, "k D"]:
    rows = np.maximum(near.rows, 0)  # missing neighbours have weight 0
    others = picked(view.vectors, view.slots[rows.ravel()]).reshape(*rows.shape, -1)
    return averaged(vectors, others, near.scores)


def _others(found: Neighbours, number: int, count: int) -> Neighbours:
    """The first images found for a query, without its copies."""
    scores, rows = found.scores[number : number + 1], found.rows[number : number + 1]
    copies = scores >= _COPY
    return _first(Neighbours(np.where(copies, -np.inf, scores), np.where(copies, -1, rows)), count)


def _first(found: Neighbours, count: int) -> Neighbours:
    """The `count` best of each row, in order."""
    order = np.argsort(-found.scores, axis=1, kind="stable")[:, :count]
    return Neighbours(np.take_along_axis(found.scores, order, 1), np.take_along_axis(found.rows, order, 1))
