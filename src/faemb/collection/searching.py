"""Search: the images most similar to a query, and groups of images that show the same object or scene."""

from collections.abc import Sequence

import numpy as np

from faemb.collection.backends import Backend, backend_for
from faemb.collection.duplicates import FEW_FEATURES, connected, linked
from faemb.collection.queries import described
from faemb.collection.reading import Reader, View
from faemb.collection.results import Answer, Group, Hit
from faemb.errors import Fault, about
from faemb.features import LocalFeatures
from faemb.features.image import ImageLike, name_of
from faemb.runtime import Progress, silent
from faemb.sets import PORTION
from faemb.settings import require_number, require_whole


class Searcher:
    """Searches a collection; `index` is the kind of index to use where none is given."""

    def __init__(self, reader: Reader, index: str) -> None:
        self._reader, self._index = reader, index

    def images(
        self,
        queries: Sequence[ImageLike],
        *,
        top: int,
        threshold: float | None,
        box: Sequence[float] | None,
        index: str | None,
        jobs: int | None,
    ) -> tuple[list[Answer], list[Fault]]:
        """An answer for each query that can be read, and a sentence for each that cannot."""
        found: dict[int, LocalFeatures] = {}
        faults: list[Fault] = []
        for number, outcome in described(queries, self._reader.model.extractor, box, jobs):
            if isinstance(outcome, LocalFeatures):
                found[number] = outcome
            else:
                faults.append(about(name_of(queries[number]), outcome))
        numbers = sorted(found)
        names = [name_of(queries[number]) for number in numbers]
        features = [found[number] for number in numbers]
        return self.features(features, names, top=top, threshold=threshold, index=index), faults

    def features(
        self,
        queries: Sequence[LocalFeatures],
        names: Sequence[str],
        *,
        top: int,
        threshold: float | None,
        index: str | None,
    ) -> list[Answer]:
        """An answer for each query, whose features must be rounded as stored features are (packing.py)."""
        require_whole("top", top, 1)
        if threshold is not None:
            require_number("threshold", threshold, least=-1, most=1)
        self._reader.require_fitted()
        answers: list[Answer] = []
        with self._reader.view() as view:
            kind = self._kind(view, index)
            for start in range(0, len(queries), PORTION):
                part = queries[start : start + PORTION]
                hits = self._hits(view, part, top, threshold, kind)
                answers += [
                    Answer(name, len(query), found)
                    for name, query, found in zip(names[start:], part, hits, strict=False)
                ]
        return answers

    def _hits(
        self,
        view: View,
        queries: Sequence[LocalFeatures],
        top: int,
        threshold: float | None,
        kind: type[Backend] | None,
    ) -> list[list[Hit]]:
        """Per query, best first; none for a query without local features."""
        found = view.search(view.model.encode([query.descriptors for query in queries]), top, kind)
        least = -np.inf if threshold is None else threshold
        wanted = (found.rows >= 0) & (found.scores >= least) & np.array([[len(query) > 0] for query in queries])
        names = self._reader.catalogue.paths(set(view.ids[found.rows[wanted]].tolist()))
        hits = []
        for number, query in enumerate(queries):
            ids = view.ids[found.rows[number, wanted[number]]].tolist()
            scores = found.scores[number, wanted[number]].tolist()
            own = [Hit(self._reader.layout.path_of(names[i]), score) for i, score in zip(ids, scores, strict=True)]
            hits.append(own + self._without_features(top - len(own)) if len(query) and threshold is None else own)
        return hits

    def _without_features(self, room: int) -> list[Hit]:
        """Images without local features come last, if there is room for them."""
        if room <= 0:
            return []
        entries = self._reader.catalogue.entries(
            "features = 0 and id in (select id from images where features = 0 limit ?)", room
        )
        return [Hit(self._reader.layout.path_of(entry.path), None) for entry in entries]

    def duplicates(self, threshold: float, *, index: str | None, progress: Progress | None) -> list[Group]:
        require_number("threshold", threshold, least=-1, most=1)
        self._reader.require_fitted()
        with self._reader.view() as view:
            few = np.isin(view.ids, self._reader.catalogue.ids(f"features < {FEW_FEATURES}"))
            groups = connected(linked(view, few, threshold, self._kind(view, index), progress or silent))
            members = {int(view.ids[position]) for positions, _ in groups for position in positions}
            names = self._reader.catalogue.paths(members)
        return [
            Group([self._reader.layout.path_of(names[int(view.ids[position])]) for position in positions], score)
            for positions, score in groups
        ]

    def _kind(self, view: View, index: str | None) -> type[Backend] | None:
        return backend_for(index or self._index, len(view.slots))
