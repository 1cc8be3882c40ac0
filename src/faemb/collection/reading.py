"""A collection in one state: which slots are in use, and their vectors, memory-mapped."""

from collections.abc import Callable, Set
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import numpy as np
from jaxtyping import Float, Int

from faemb.collection.backends import Backend
from faemb.collection.catalogue import Catalogue
from faemb.collection.current_model import CurrentModel
from faemb.collection.layout import Layout, typed
from faemb.collection.locking import is_being_changed
from faemb.collection.model import Model
from faemb.collection.nearest import Neighbours, nearest, products
from faemb.collection.stored import stored_features
from faemb.collection.stores.store import RemoteVectors, Store
from faemb.errors import FaembError, FormatError, InputError
from faemb.features import LocalFeatures
from faemb.rerank import Unrelated, sample_of
from faemb.runtime import Progress, silent
from faemb.runtime.prefetch import picked
from faemb.runtime.threads import one_thread_for_blas

Result = TypeVar("Result")

_MORE = 4
"""Candidates requested from an index: this times the number of results, at least `Backend.least`."""
_REBUILD_SHARE = 0.2
"""An index is rebuilt if more than this share of the slots is missing from it."""
_MOST_UNCOVERED = 2048
"""An index is extended if more vectors than this are missing from it; missing ones are compared exactly."""
_ENOUGH_IN_USE = 0.5
"""More candidates are requested if less than this share of them is in use, since the others were removed."""
DECIMALS = 5
"""Decimals to which similarities are rounded (float32 precision), so that copies have similarity 1, also with
threshold=1."""


class Rows(NamedTuple):
    """The vectors of whole images, in one state."""

    slots: Int[np.ndarray, " n"]
    """Slots in use, ascending."""
    ids: Int[np.ndarray, " n"]
    """Image of each of `slots`."""
    vectors: Float[np.ndarray, "total D"] | RemoteVectors
    """Those of all slots, in use or not."""


@dataclass(frozen=True)
class View:
    layout: Layout
    model: Model
    """The model of the vectors, which must also encode queries."""
    generation: int
    slots: Int[np.ndarray, " n"]
    """Slots in use, ascending."""
    ids: Int[np.ndarray, " n"]
    """Image of each of `slots`."""
    vectors: Float[np.ndarray, "total D"] | RemoteVectors
    """Vectors of whole images, of all slots, in use or not."""
    with_parts: Float[np.ndarray, "total V D"] | RemoteVectors | None = field(default=None, repr=False)
    """If vectors of parts are stored: those after that of the whole image."""
    keeps_features: bool = True
    """Whether the collection stores local features."""
    is_restricted: bool = False
    """Whether only some of the images are searched."""
    freed: int | None = None
    """Number of slots freed in this generation; None if they were not counted."""
    _indexes: dict[str, Backend] = field(default_factory=dict, repr=False)
    """Opened indexes, by kind."""

    def __repr__(self) -> str:
        return f"View({len(self.slots)} vectors of {self.vectors.shape[1]} dimensions in {str(self.layout.folder)!r})"

    @classmethod
    def of(
        cls, layout: Layout, catalogue: Catalogue, store: Store, model: Model, before: "View | None" = None
    ) -> "View":
        """The current state; if the collection has only grown since the view `before`, only new rows are read."""
        with catalogue.snapshot():
            generation, keeps = catalogue.generation(), catalogue.about()["keep_features"] != "0"
            counted = catalogue.freed() if store.address is None else None  # not counted for a table in a server
            freed = None if counted is None else counted.slots
            if before is None or freed is None or (generation, freed) != (before.generation, before.freed):
                slots, ids = catalogue.live()
            else:
                slots, ids = before._and_later(catalogue)
            whole, stored = store.table(catalogue.table(), model).vectors(catalogue.next_slot())
        return cls(layout, model, generation, slots, ids, whole, stored, keeps, freed=freed)

    def _and_later(self, catalogue: Catalogue) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
        """Slots and ids, with those added since: no slot is used twice in a generation."""
        if not len(self.slots):
            return catalogue.live()
        slots, ids = catalogue.live(after=int(self.slots[-1]))
        return np.concatenate([self.slots, slots]), np.concatenate([self.ids, ids])

    @property
    def stored(self) -> Float[np.ndarray, "total V D"] | RemoteVectors:
        """All vectors of all slots."""
        return self.vectors[:, None] if self.with_parts is None else self.with_parts

    @cached_property
    def position(self) -> Int[np.ndarray, " total"]:
        """Position in `slots` of each slot; -1 for a slot that is not in use."""
        table = np.full(len(self.vectors), -1, np.int64)
        table[self.slots] = np.arange(len(self.slots))
        return table

    def restricted(self, images: Set[int]) -> "View":
        """The same state restricted to some of its images; it has no indexes."""
        kept = np.isin(self.ids, list(images))
        return replace(self, slots=self.slots[kept], ids=self.ids[kept], is_restricted=True, _indexes={})

    def without(self, images: Set[int]) -> "View":
        """The same state without some of its images; indexes stay in use."""
        kept = ~np.isin(self.ids, list(images))
        return replace(self, slots=self.slots[kept], ids=self.ids[kept])

    @cached_property
    def _sample(self) -> Float[np.ndarray, "n V D"]:
        """All vectors of some images."""
        return picked(self.stored, self.slots[sample_of(len(self.slots))])

    @cached_property
    def unrelated(self) -> Unrelated:
        """The similarity of images that show different things, as a search with one vector compares them."""
        return Unrelated.of(self._sample[:, 0], self._sample)

    @cached_property
    def unrelated_whole(self) -> Unrelated:
        """The same where vectors of whole images alone are compared, as those of results and of duplicates are."""
        return self.unrelated if self.with_parts is None else Unrelated.of(self._sample[:, 0])

    def unrelated_to(self, query: Float[np.ndarray, "V D"]) -> Unrelated:
        """The same for a query with several vectors, of which the nearest counts: it is nearer by chance alone."""
        if len(query) == 1:
            return self.unrelated
        similar = products(query, self._sample)
        similar = similar[:, np.isfinite(similar).all(0)]
        if not similar.size:
            return self.unrelated
        nearer = float(np.median(similar.max(0)) - np.median(similar[0]))
        return self.unrelated._replace(typical=self.unrelated.typical + nearer)

    def search(
        self, queries: Float[np.ndarray, "Q D"], count: int, kind: type[Backend] | None, *, parts: bool = False
    ) -> Neighbours:
        """The best slots for each query by full vectors, as positions in `slots`.

        With `parts`, the similarity of an image is the largest of its stored vectors; otherwise of the whole image.
        """
        vectors = self.stored if parts else self.vectors
        if isinstance(vectors, RemoteVectors):
            name = None if kind is None else kind.name
            found = self._placed(vectors.nearest(queries, self.slots, count, some=self.is_restricted, index=name))
        elif kind is None or not len(self.slots):
            found = self._placed(nearest(queries, vectors, self.slots, count))
        else:
            found = self._ranked(queries, vectors, self._candidates(queries, count, kind), count)
        return _settled(found)

    def prepare(self, kind: type[Backend] | None, progress: Progress) -> None:
        """Open the index that searches will use, or build it: the first of them would, and report nothing."""
        if kind is not None and len(self.slots) and not isinstance(self.vectors, RemoteVectors):
            self._index(kind, progress)

    def _placed(self, found: Neighbours) -> Neighbours:
        """Positions instead of slots."""
        return Neighbours(found.scores, np.where(found.rows >= 0, self.position[found.rows], -1))

    def _candidates(self, queries: Float[np.ndarray, "Q D"], count: int, kind: type[Backend]) -> list[np.ndarray]:
        """Slots in use for each query: candidates from the index, and all slots that it does not cover."""
        index, per_slot = self._index(kind), self.stored.shape[1]
        total, covered = len(self.vectors), index.covered // per_slot
        wanted_most = min(max(_MORE * count, kind.least), len(self.slots))
        enough = max(min(count, len(self.slots)), int(_ENOUGH_IN_USE * wanted_most))
        later = np.arange(covered, total)
        later = later[self.position[later] >= 0]
        asked = per_slot * wanted_most
        while True:
            asked = min(asked, index.covered)
            found = index.candidates(queries, asked) // per_slot  # -1 stays -1
            # The images of the last slots may have been removed, and a damaged index can return any number.
            known = np.sort(np.where(found < min(total, covered), found, -1), axis=1)
            wanted = (known >= 0) & (self.position[known] >= 0)
            wanted[:, 1:] &= known[:, 1:] != known[:, :-1]
            if asked == index.covered or wanted.sum(axis=1).min() + len(later) >= enough:
                return [np.concatenate([row[here], later]) for row, here in zip(known, wanted, strict=True)]
            asked *= 2  # too many were of removed images

    def _ranked(
        self,
        queries: Float[np.ndarray, "Q D"],
        vectors: Float[np.ndarray, "total *V D"],
        candidates: list[np.ndarray],
        count: int,
    ) -> Neighbours:
        count = min(count, len(self.slots))
        best = Neighbours(np.full((len(candidates), count), -np.inf, np.float32), np.full((len(candidates), count), -1))
        for query, slots in enumerate(candidates):
            rows = picked(vectors, slots)
            with one_thread_for_blas():
                scores = products(queries[query : query + 1], rows)[0]
            order = np.argsort(-scores, kind="stable")[:count]
            best.scores[query, : len(order)] = scores[order]
            best.rows[query, : len(order)] = self.position[slots[order]]
        return best

    @property
    def _rows(self) -> Float[np.ndarray, "rows D"]:
        """The vectors that an index contains: all of the first slot, then all of the second, and so on."""
        return np.reshape(cast(np.ndarray, self.stored), (-1, self.vectors.shape[1]))

    def _index(self, kind: type[Backend], progress: Progress = silent) -> Backend:
        if kind.name not in self._indexes:
            self._indexes[kind.name] = self._stored(kind) or self._built(kind, progress)
        return self._indexes[kind.name]

    def _stored(self, kind: type[Backend]) -> Backend | None:
        """The newest usable index file, extended if many vectors are missing from it."""
        for covered, path in sorted(self._index_files(kind), reverse=True):
            later = self._rows[covered:]
            if covered >= (1 - _REBUILD_SHARE) * len(self._rows):
                try:
                    index = kind.load(path, mapped=len(later) <= _MOST_UNCOVERED)
                except FormatError:
                    continue  # a new one will replace it
                if (index.covered, index.dimension) == (covered, self.vectors.shape[1]):
                    return self._extended(index, later) if len(later) > _MOST_UNCOVERED else index
        return None

    def _extended(self, index: Backend, later: Float[np.ndarray, "rows D"]) -> Backend:
        index.extend(later)
        return self._saved(index)

    def _built(self, kind: type[Backend], progress: Progress) -> Backend:
        per_slot = self.stored.shape[1]
        live = (self.slots[:, None] * per_slot + np.arange(per_slot)).ravel()
        return self._saved(kind.build(self._rows, live, progress))

    def _saved(self, index: Backend) -> Backend:
        """The index, after its file has replaced earlier ones of its kind."""
        kind = type(index)
        path = self.layout.index(kind.name, self.generation, index.covered)
        try:
            index.save(path)
        except FaembError:
            return index  # in a read-only folder the index is used without being saved
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
        self.layout, self.catalogue, self.store = model.layout, model.catalogue, model.store
        self._model = model
        self._view: tuple[tuple[int, int], View] | None = None

    @property
    def model(self) -> Model:
        return self._model.get()

    def view(self) -> AbstractContextManager[View]:
        """The current state, which stays the same until the end of the block; the last view if nothing has changed."""
        return self.catalogue.consistent(self._current)

    def read(self, task: Callable[[View], Result]) -> Result:
        """The result of `task` in one state; called again if another process has replaced the files of that state."""
        with self.catalogue.consistent(lambda: task(self._current())) as result:
            return result

    def read_past_damage(self, task: Callable[[View, bool], Result]) -> Result:
        """As `read`, with tolerant=False as the second argument of `task`; after a FormatError again with True."""
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

    def paths(self, view: View | Rows) -> list[Path]:
        """The file of each image of a view, in the order of its slots."""
        images = view.ids.tolist()
        names = self.catalogue.paths(images)
        return [self.layout.path_of(names[image]) for image in images]

    def require_fitted(self) -> None:
        if not self._model.is_fitted():
            raise self._unfitted()

    def _unfitted(self) -> InputError:
        return InputError(f"{self.layout.folder} holds no encoded images yet; {self._cure_of_emptiness()}")

    def _cure_of_emptiness(self) -> str:
        if is_being_changed(self.layout):
            return "another process is working on it: wait until it has ended"
        folder = typed(self.layout.folder)
        update = f"faemb update {folder}, or with more images: " if self.catalogue.count("features > 0") else ""
        return f"run: {update}faemb add {folder} IMAGES"

    def rows(self) -> AbstractContextManager[Rows]:
        """The vectors in use, for which no model is needed."""
        return self.catalogue.consistent(self._rows)

    def _rows(self) -> Rows:
        encoding = self._model.encoding()
        if encoding is None:
            raise self._unfitted()
        slots, ids = self.catalogue.live()
        table = self.store.get().table(self.catalogue.table(), encoding)
        return Rows(slots, ids, table.vectors(self.catalogue.next_slot())[0])

    def _current(self) -> View:
        state = self.catalogue.state()
        if self._view is None or self._view[0] != state:
            before = None if self._view is None else self._view[1]
            self._view = state, View.of(self.layout, self.catalogue, self.store.get(), self.model, before)
        return self._view[1]


def rounded(similarities: Float[np.ndarray, " n"]) -> list[float]:
    """Numbers of no more decimals than are known, also when they are printed in full."""
    return np.round(similarities.astype(np.float64), DECIMALS).tolist()


def _settled(found: Neighbours) -> Neighbours:
    """Rounded scores, equal ones in order of position: scores of copies of one image differ by rounding only."""
    scores = np.round(found.scores, DECIMALS)
    order = np.lexsort((found.rows, -scores), axis=-1)
    return Neighbours(np.take_along_axis(scores, order, -1), np.take_along_axis(found.rows, order, -1))
