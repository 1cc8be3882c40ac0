"""The sure results of a search search in turn: each finds images that the query itself may not resemble."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from faemb.collection.backends import Backend
from faemb.collection.catalogue import Catalogue, Entry
from faemb.collection.reading import DECIMALS, View
from faemb.collection.results import Hit
from faemb.collection.verifying import Verifier
from faemb.rerank.expansion import NEIGHBOURS, seeds, through

Make = Callable[[Sequence[Entry], Sequence[float]], list[Hit]]
"""Makes hits of a query from images and their similarities to it."""


class Expander:
    """Expands the hits of a query in one state of a collection."""

    note = ""
    """What could not be verified, with its cure; empty if there was nothing."""

    def __init__(self, view: View, catalogue: Catalogue, verifier: Verifier, kind: type[Backend] | None) -> None:
        self._view, self._catalogue, self._verifier, self._kind = view, catalogue, verifier, kind

    def expanded(
        self, query: Float[np.ndarray, " D"], hits: Sequence[Hit], entries: Mapping[Path, Entry], make: Make
    ) -> list[Hit]:
        """The hits and what is found through the sure ones, the surest first; those that were not judged last.

        `query` is the query's vector; `hits` are in falling order of confidence, and `entries` are theirs.
        """
        best = {hit.path: hit for hit in hits}
        for number in seeds([_confidence(hit) if _can_search(hit) else 0.0 for hit in hits]):
            for hit in self._found_through(hits[number], entries[hits[number].path], query, make):
                known = best.get(hit.path)
                if known is None or _confidence(known) < _confidence(hit):
                    best.pop(hit.path, None)  # moved behind those that are as sure by the query itself
                    best[hit.path] = replace(known or hit, confidence=hit.confidence, through=hit.through)
        return sorted(best.values(), key=_confidence, reverse=True)

    def _found_through(self, seed: Hit, entry: Entry, query: Float[np.ndarray, " D"], make: Make) -> list[Hit]:
        """The surest first."""
        features, vectors = self._verifier.features(entry), np.asarray(self._view.vectors)
        if features is None or entry.slot is None:
            return []
        found = self._view.search(vectors[[entry.slot]], NEIGHBOURS + 1, self._kind)  # one more: it finds itself
        rows = found.rows[0, found.rows[0] >= 0]
        images = self._view.ids[rows].tolist()
        entries = self._catalogue.entries_of(set(images))
        near = [entries[image] for image in images]
        judged = self._verifier.judge(features, near, found.scores[0, : len(rows)].tolist())
        self.note = self.note or self._verifier.note
        similarities = np.round(vectors[self._view.slots[rows]] @ query, DECIMALS).tolist()
        hits = [
            replace(hit, confidence=through(_confidence(seed), judgement.confidence), through=seed.path)
            for hit, judgement in zip(make(near, similarities), judged, strict=True)
            if hit.path != seed.path
        ]
        return sorted(hits, key=_confidence, reverse=True)


def _can_search(hit: Hit) -> bool:
    """The query itself and its copies would find what the query has found."""
    return hit.verification is not None and not hit.itself and not hit.copy


def _confidence(hit: Hit) -> float:
    return -1.0 if hit.confidence is None else hit.confidence
