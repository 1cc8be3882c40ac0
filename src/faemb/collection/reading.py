"""A collection at one moment: which slots are alive, and their vectors, mapped."""

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Int

from faemb.collection.backends import Backend
from faemb.collection.catalogue import Catalogue
from faemb.collection.layout import Layout
from faemb.collection.model import Coded, Model
from faemb.collection.search import Nearest, nearest
from faemb.collection.writing import slot_files
from faemb.errors import FaembError, FormatError

_MORE = 4
_AT_LEAST = 64
"""Candidates asked of an approximate index: so many times the answers wanted, and never fewer than this."""
_REBUILD_SHARE = 0.2
"""An index that does not know so large a share of the slots is made again."""
_DECIMALS = 5
"""Of a similarity: float32 is good for no more, and so an image and its copy have 1, and a threshold of 1 finds it."""


@dataclass(frozen=True)
class View:
    layout: Layout
    generation: int
    slots: Int[np.ndarray, " n"]
    """In use, ascending."""
    ids: Int[np.ndarray, " n"]
    data: Coded
    """All slots, in use or not."""
    _indexes: dict[str, Backend] = field(default_factory=dict, repr=False)
    """Those that have been opened."""

    @classmethod
    def of(cls, layout: Layout, catalogue: Catalogue, model: Model) -> "View":
        with catalogue.snapshot():
            generation = int(catalogue.about()["generation"])
            slots, ids = catalogue.live()
            total = catalogue.next_slot()
            data = Coded(*(file.rows(total) for file in slot_files(layout, generation, model)))
        return cls(layout, generation, slots, ids, data)

    @cached_property
    def position(self) -> Int[np.ndarray, " total"]:
        """Slot to place in `slots`; -1 for one that is dead."""
        table = np.full(len(self.data.vectors), -1, np.int64)
        table[self.slots] = np.arange(len(self.slots))
        return table

    def search(self, queries: Coded, count: int, kind: type[Backend] | None) -> Nearest:
        """The best live slots for each query, by full vectors, as places in `slots`."""
        if kind is None or not len(self.slots):
            found = nearest(queries.vectors, self.data.vectors, self.slots, count)
            found = Nearest(found.scores, np.where(found.rows >= 0, self.position[found.rows], -1))
        else:
            found = self._ranked(queries, self._candidates(queries, count, kind), count)
        return _settled(found)

    def _candidates(self, queries: Coded, count: int, kind: type[Backend]) -> list[np.ndarray]:
        """Per query live slots: the index's, and all that came after it."""
        index = self._index(kind)
        total = len(self.data.vectors)
        dead = max(total, index.covered) - len(self.slots)
        found = index.candidates(queries, min(max(_MORE * count, _AT_LEAST) + dead, index.covered))
        # The last slots may have died, so that they are not in the table; and a damaged index names anything.
        known = np.sort(np.where(found < min(total, index.covered), found, -1), axis=1)
        wanted = (known >= 0) & (self.position[known] >= 0)
        wanted[:, 1:] &= known[:, 1:] != known[:, :-1]
        later = np.arange(index.covered, total)
        later = later[self.position[later] >= 0]
        return [np.concatenate([row[here], later]) for row, here in zip(known, wanted, strict=True)]

    def _ranked(self, queries: Coded, candidates: list[np.ndarray], count: int) -> Nearest:
        count = min(count, len(self.slots))
        best = Nearest(np.full((len(candidates), count), -np.inf, np.float32), np.full((len(candidates), count), -1))
        vectors = np.asarray(self.data.vectors)  # one row of a mapped array costs more than its product
        for query, slots in enumerate(candidates):
            scores = vectors[slots] @ queries.vectors[query]
            order = np.argsort(-scores, kind="stable")[:count]
            best.scores[query, : len(order)] = scores[order]
            best.rows[query, : len(order)] = self.position[slots[order]]
        return best

    def _index(self, kind: type[Backend]) -> Backend:
        if kind.name not in self._indexes:
            self._indexes[kind.name] = self._stored(kind) or self._built(kind)
        return self._indexes[kind.name]

    def _stored(self, kind: type[Backend]) -> Backend | None:
        """The newest file that can be used."""
        for covered, path in sorted(self._index_files(kind), reverse=True):
            if covered >= (1 - _REBUILD_SHARE) * len(self.data.vectors):
                try:
                    index = kind.load(path)
                except FormatError:
                    continue  # the new one takes its place
                if index.covered == covered:
                    return index
        return None

    def _built(self, kind: type[Backend]) -> Backend:
        index = kind.build(self.data)
        path = self.layout.index(kind.name, self.generation, index.covered)
        try:
            index.save(path)
        except FaembError:
            return index  # a folder that may not be written to is searched all the same
        for covered, old in self._index_files(kind):
            if covered != index.covered:
                with suppress(OSError):
                    old.unlink()
        return index

    def _index_files(self, kind: type[Backend]) -> list[tuple[int, Path]]:
        files = self.layout.folder.glob(f"{kind.name}-{self.generation}-*.faiss")
        return [(int(path.stem.rsplit("-", 1)[1]), path) for path in files if path.stem.rsplit("-", 1)[1].isdigit()]


def _settled(found: Nearest) -> Nearest:
    """Scores rounded, and what is then equal in order of place: copies of an image differ in rounding."""
    scores = np.round(found.scores, _DECIMALS)
    order = np.lexsort((found.rows, -scores), axis=-1)
    return Nearest(np.take_along_axis(scores, order, -1), np.take_along_axis(found.rows, order, -1))
