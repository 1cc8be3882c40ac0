"""A collection in one state: which slots are in use, and their vectors, memory mapped."""

from collections.abc import Callable, Set
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
from jaxtyping import Float, Int

from faemb.collection.backends import Backend
from faemb.collection.catalogue import Catalogue
from faemb.collection.current_model import CurrentModel
from faemb.collection.hints import typed
from faemb.collection.layout import Layout
from faemb.collection.model import Model
from faemb.collection.nearest import Neighbours, nearest, products
from faemb.collection.stored import stored_features, vector_file
from faemb.errors import FaembError, FormatError, InputError
from faemb.features import LocalFeatures
from faemb.rerank import Unrelated, sample_of

Result = TypeVar("Result")

_MORE = 4
_AT_LEAST = 64
"""Candidates requested from an index: `_MORE` times the number of results, at least `_AT_LEAST`."""
_REBUILD_SHARE = 0.2
"""An index is rebuilt when it does not cover this share of the slots."""
DECIMALS = 5
"""Decimals of a similarity (float32 precision), so that copies of an image score exactly 1, also with threshold=1."""


@dataclass(frozen=True)
class View:
    layout: Layout
    model: Model
    """The model that has made the vectors, and that must encode queries."""
    generation: int
    slots: Int[np.ndarray, " n"]
    """Slots in use, ascending."""
    ids: Int[np.ndarray, " n"]
    """Image of each of `slots`."""
    vectors: Float[np.ndarray, "total D"]
    """Vectors of whole images, of all slots, in use or not."""
    with_parts: Float[np.ndarray, "total V D"] | None = field(default=None, repr=False)
    """If images have vectors of their parts too: these after that of the whole image."""
    keeps_features: bool = True
    """Whether the collection was made to keep local features."""
    _indexes: dict[str, Backend] = field(default_factory=dict, repr=False)
    """Opened indexes, by kind."""

    def __repr__(self) -> str:
        return f"View({len(self.slots)} vectors of {self.vectors.shape[1]} dimensions in {str(self.layout.folder)!r})"

    @classmethod
    def of(cls, layout: Layout, catalogue: Catalogue, model: Model) -> "View":
        with catalogue.snapshot():
            generation, keeps = catalogue.generation(), catalogue.about()["keep_features"] != "0"
            slots, ids = catalogue.live()
            rows = vector_file(layout, generation, model).rows(catalogue.next_slot())
        if not model.parts:
            return cls(layout, model, generation, slots, ids, rows, keeps_features=keeps)
        stored = rows.reshape(len(rows), model.vectors_per_image, model.dimension)
        return cls(layout, model, generation, slots, ids, stored[:, 0], stored, keeps)

    @property
    def stored(self) -> Float[np.ndarray, "total V D"]:
        """All vectors of all slots."""
        return self.vectors[:, None] if self.with_parts is None else self.with_parts

    @cached_property
    def position(self) -> Int[np.ndarray, " total"]:
        """Position in `slots` of each slot; -1 for a slot that is not in use."""
        table = np.full(len(self.vectors), -1, np.int64)
        table[self.slots] = np.arange(len(self.slots))
        return table

    def restricted(self, images: Set[int]) -> "View":
        """The same state with some of its images alone; it has no indexes."""
        kept = np.isin(self.ids, list(images))
        return replace(self, slots=self.slots[kept], ids=self.ids[kept], _indexes={})

    @cached_property
    def unrelated(self) -> Unrelated:
        """The similarity of images that show different things."""
        sample = np.asarray(self.stored)[self.slots[sample_of(len(self.slots))]]
        return Unrelated.of(sample[:, 0], sample)

    def search(
        self, queries: Float[np.ndarray, "Q D"], count: int, kind: type[Backend] | None, *, parts: bool = False
    ) -> Neighbours:
        """The best slots for each query by full vectors, as positions in `slots`.

        With `parts`, an image is as similar as the most similar of its stored vectors; else as the whole image is.
        """
        vectors = self.stored if parts else self.vectors
        if kind is None or not len(self.slots):
            found = nearest(queries, vectors, self.slots, count)
            found = Neighbours(found.scores, np.where(found.rows >= 0, self.position[found.rows], -1))
        else:
            found = self._ranked(queries, vectors, self._candidates(queries, count, kind), count)
        return _settled(found)

    def _candidates(self, queries: Float[np.ndarray, "Q D"], count: int, kind: type[Backend]) -> list[np.ndarray]:
        """Per query, slots in use: candidates from the index, and all slots that it does not cover."""
        index, per_slot = self._index(kind), self.stored.shape[1]
        total, covered = len(self.vectors), index.covered // per_slot
        unused = max(total, covered) - len(self.slots)
        wanted_rows = per_slot * (max(_MORE * count, _AT_LEAST) + unused)
        found = index.candidates(queries, min(wanted_rows, index.covered)) // per_slot  # -1 stays -1
        # The images of the last slots may have been removed, and a damaged index can return any number.
        known = np.sort(np.where(found < min(total, covered), found, -1), axis=1)
        wanted = (known >= 0) & (self.position[known] >= 0)
        wanted[:, 1:] &= known[:, 1:] != known[:, :-1]
        later = np.arange(covered, total)
        later = later[self.position[later] >= 0]
        return [np.concatenate([row[here], later]) for row, here in zip(known, wanted, strict=True)]

    def _ranked(
        self,
        queries: Float[np.ndarray, "Q D"],
        vectors: Float[np.ndarray, "total *V D"],
        candidates: list[np.ndarray],
        count: int,
    ) -> Neighbours:
        count = min(count, len(self.slots))
        best = Neighbours(np.full((len(candidates), count), -np.inf, np.float32), np.full((len(candidates), count), -1))
        vectors = np.asarray(vectors)  # indexing np.memmap costs more than the product
        for query, slots in enumerate(candidates):
            scores = products(queries[query : query + 1], vectors[slots])[0]
            order = np.argsort(-scores, kind="stable")[:count]
            best.scores[query, : len(order)] = scores[order]
            best.rows[query, : len(order)] = self.position[slots[order]]
        return best

    @property
    def _rows(self) -> Float[np.ndarray, "rows D"]:
        """The vectors that an index holds: those of a slot follow each other."""
        return self.stored.reshape(-1, self.vectors.shape[1])

    def _index(self, kind: type[Backend]) -> Backend:
        if kind.name not in self._indexes:
            self._indexes[kind.name] = self._stored(kind) or self._built(kind)
        return self._indexes[kind.name]

    def _stored(self, kind: type[Backend]) -> Backend | None:
        """The newest index file that can be used."""
        for covered, path in sorted(self._index_files(kind), reverse=True):
            if covered >= (1 - _REBUILD_SHARE) * len(self._rows):
                try:
                    index = kind.load(path)
                except FormatError:
                    continue  # a new one will replace it
                if (index.covered, index.dimension) == (covered, self.vectors.shape[1]):
                    return index
        return None

    def _built(self, kind: type[Backend]) -> Backend:
        per_slot = self.stored.shape[1]
        index = kind.build(self._rows, (self.slots[:, None] * per_slot + np.arange(per_slot)).ravel())
        path = self.layout.index(kind.name, self.generation, index.covered)
        try:
            index.save(path)
        except FaembError:
            return index  # the folder may be read-only: the index is used, and not saved
        for covered, old in self._index_files(kind):
            if covered != index.covered:
                with suppress(OSError):
                    old.unlink()
        return index

    def _index_files(self, kind: type[Backend]) -> list[tuple[int, Path]]:
        own = (path for path in self.layout.indexes(self.generation) if path.name.startswith(f"{kind.name}-"))
        return [(int(path.stem.rsplit("-", 1)[1]), path) for path in own]


class Reader:
    """Reads a collection while other processes may change it."""

    def __init__(self, model: CurrentModel) -> None:
        self.layout, self.catalogue = model.layout, model.catalogue
        self._model = model
        self._view: tuple[tuple[int, int], View] | None = None

    @property
    def model(self) -> Model:
        return self._model.get()

    def view(self) -> AbstractContextManager[View]:
        """The current state, which stays the same until the end of the block; the last view if nothing has changed."""
        return self.catalogue.consistent(self._current)

    def read(self, task: Callable[[View], Result]) -> Result:
        """What `task` gives in one state; again in a newer one if it meets files that another process has replaced."""
        with self.catalogue.consistent(lambda: task(self._current())) as result:
            return result

    def read_past_damage(self, task: Callable[[View, bool], Result]) -> Result:
        """As `read`; `task` is told whether to be tolerant of damage, which it is only if it has met some."""
        try:
            return self.read(lambda view: task(view, False))
        except FormatError:
            return self.read(lambda view: task(view, True))

    def features(self, image: Path) -> LocalFeatures:
        """The stored local features of an image."""
        with self.catalogue.consistent(lambda: self._features(image)) as features:
            return features

    def _features(self, image: Path) -> LocalFeatures:
        entry = self.catalogue.entry(self.layout.name_of(image))
        if entry is None:
            raise InputError(f"{image} is not in the collection {self.layout.folder}")
        return stored_features(self.layout.features(self.catalogue.generation()), entry)

    def paths(self, view: View) -> list[Path]:
        """The file of each image of a view, in the order of its slots."""
        images = view.ids.tolist()
        names = self.catalogue.paths(images)
        return [self.layout.path_of(names[image]) for image in images]

    def require_fitted(self) -> None:
        if not self.model.is_fitted:
            raise InputError(
                f"{self.layout.folder} holds no encoded images yet; run: faemb add {typed(self.layout.folder)} IMAGES"
            )

    def _current(self) -> View:
        state = self.catalogue.state()
        if self._view is None or self._view[0] != state:
            self._view = state, View.of(self.layout, self.catalogue, self.model)
        return self._view[1]


def _settled(found: Neighbours) -> Neighbours:
    """Scores rounded, and equal ones in order of position: scores of copies of one image differ by rounding only."""
    scores = np.round(found.scores, DECIMALS)
    order = np.lexsort((found.rows, -scores), axis=-1)
    return Neighbours(np.take_along_axis(scores, order, -1), np.take_along_axis(found.rows, order, -1))
