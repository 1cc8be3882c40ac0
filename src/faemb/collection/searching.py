"""Search: the images most similar to a query, and groups of images that show the same object or scene."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float

from faemb.collection.backends import Backend, backend_for
from faemb.collection.catalogue import Entry
from faemb.collection.duplicates import (
    FEW_FEATURES,
    Asked,
    Members,
    grouped,
    in_order,
    least_similarity,
    linked,
    similar_when_mirrored,
    verified,
)
from faemb.collection.expanding import Expander
from faemb.collection.model import Model
from faemb.collection.nearest import best_of
from faemb.collection.originals import by_worth, grouped_image
from faemb.collection.pairs import PairJudge
from faemb.collection.queries import QueryFeatures, described
from faemb.collection.reading import Reader, View
from faemb.collection.results import Answer, Group, Groups, Hit
from faemb.collection.verifying import Verifier
from faemb.errors import Fault, InputError, about
from faemb.features import LocalFeatures
from faemb.features.image import ImageLike, name_of
from faemb.features.job import content_hash
from faemb.features.parts import MOST_PER_SIDE
from faemb.rerank import EXPANSIONS, SURE, VERIFIED
from faemb.rerank.expansion import FURTHER
from faemb.runtime import Progress, silent
from faemb.sets import PORTION
from faemb.settings import require_choice, require_number, require_whole

_VERIFIED_AT_ONCE = 8
"""Queries between two reports of progress: verifying the candidates of one takes up to a second."""


@dataclass(frozen=True)
class Wanted:
    """How much of a ranking is returned."""

    top: int
    threshold: float | None = None
    """Smallest similarity of a hit."""
    index: str | None = None
    """Kind of index; the collection's own if None."""
    count_itself: bool = True
    """Whether the query's own file counts among `top`."""
    verify: int = VERIFIED
    """Number of the most similar images whose local features are compared with the query's; 0 for none."""
    least_confidence: float | None = None
    """Smallest confidence of a hit."""
    expand: str = "none"
    """How more is found than by the query alone: one of `EXPANSIONS`."""
    query_parts: int = 0
    """Search with n x n overlapping parts of the query as well; 0: with the whole query alone."""
    among: frozenset[int] | None = None
    """Only images with these numbers in the catalogue are results; None: all images."""

    def __post_init__(self) -> None:
        require_whole("top", self.top, 1)
        require_whole("verify", self.verify, 0)
        require_choice("expand", self.expand, EXPANSIONS)
        if self.expand != "none" and not self.verify:
            raise InputError("expand needs verified results, and verify is 0; leave one of them out")
        require_whole("query_parts", self.query_parts, 0, MOST_PER_SIDE)
        if self.least_confidence is not None:
            require_number("least_confidence", self.least_confidence, least=0, most=1)
        if self.threshold is not None:
            require_number("threshold", self.threshold, least=-1, most=1)

    @property
    def candidates(self) -> int:
        """Number of the most similar images that may be verified."""
        return self.verify + (FURTHER if self.expand == "results" else 0)


@dataclass(frozen=True)
class _Query:
    name: str
    local: QueryFeatures
    file: Path | None = None
    """None for a query that was given as an array or as features."""

    @property
    def features(self) -> LocalFeatures:
        return self.local.features


class Searcher:
    """Searches a collection; `index` is the kind of index to use where none is given."""

    def __init__(self, reader: Reader, index: str) -> None:
        self._reader, self._index = reader, index

    def images(
        self,
        images: Sequence[ImageLike],
        wanted: Wanted,
        *,
        box: Sequence[float] | None,
        jobs: int | None,
        progress: Progress | None = None,
    ) -> tuple[list[Answer], list[Fault]]:
        """An answer for each query that can be read, and a sentence for each that cannot."""
        found: dict[int, _Query] = {}
        faults: list[Fault] = []
        for number, outcome in described(images, self._reader.model.extractor, box, jobs):
            image = images[number]
            if isinstance(outcome, QueryFeatures):
                file = Path(image) if isinstance(image, str | os.PathLike) else None
                found[number] = _Query(name_of(image), outcome, file)
            else:
                faults.append(about(name_of(image), outcome))
        return self._answers([found[number] for number in sorted(found)], wanted, progress or silent), faults

    def features(
        self,
        queries: Sequence[QueryFeatures],
        names: Sequence[str],
        wanted: Wanted,
        files: Sequence[Path | None] | None = None,
    ) -> list[Answer]:
        """An answer for each query, whose features must be rounded as stored features are (packing.py)."""
        sources = files or [None] * len(queries)
        return self._answers([_Query(*each) for each in zip(names, queries, sources, strict=True)], wanted)

    def _answers(self, queries: Sequence[_Query], wanted: Wanted, progress: Progress = silent) -> list[Answer]:
        self._reader.require_fitted()
        answers: list[Answer] = []
        size = _VERIFIED_AT_ONCE if wanted.verify else PORTION
        for start in range(0, len(queries), size):
            if len(queries) > size:
                progress("search", start, len(queries))
            part = queries[start : start + size]
            answers += self._reader.read_past_damage(partial(self._in_view, queries=part, wanted=wanted))
        if len(queries) > size:
            progress("search", len(queries), len(queries))
        return answers

    def _in_view(self, view: View, tolerant: bool, queries: Sequence[_Query], wanted: Wanted) -> list[Answer]:
        """Per query the hits, best first; none for a query without local features."""
        vectors = _vectors(view.model, queries, wanted.query_parts)
        whole, vectors = vectors[:, 0], vectors.reshape(-1, vectors.shape[-1])
        searched = view if wanted.among is None else view.restricted(wanted.among)
        kind = self._kind(view, wanted.index) if wanted.among is None else None
        # One more, since the query itself may be among them and not count.
        found = searched.search(vectors, max(wanted.top, wanted.candidates) + 1, kind, parts=True)
        found = best_of(found, len(queries))
        least = -np.inf if wanted.threshold is None else wanted.threshold
        kept = (found.rows >= 0) & (found.scores >= least) & np.array([[len(query.features) > 0] for query in queries])
        entries = self._reader.catalogue.entries_of(set(searched.ids[found.rows[kept]].tolist()))
        verifier = Verifier(view, tolerant=tolerant) if wanted.verify else None
        answers = []
        for number, query in enumerate(queries):
            own = [entries[image] for image in searched.ids[found.rows[number, kept[number]]].tolist()]
            hits = self._marked(query, own, found.scores[number, kept[number]].tolist())
            note = ""
            if verifier is not None and hits:
                places = {hit.path: entry for hit, entry in zip(hits, own, strict=True)}
                hits = _by_confidence(verifier, query.features, own, hits, wanted)
                note = verifier.note
                if wanted.expand == "results":
                    expander = Expander(searched, self._reader.catalogue, verifier, kind)
                    hits = expander.expanded(whole[number], hits, places, partial(self._marked, query))
                    hits = [hit for hit in hits if hit.score is None or hit.score >= least]
                    note = note or expander.note
            answers.append(Answer(query.name, len(query.features), self._chosen(query, hits, wanted), note))
        return answers

    def _chosen(self, query: _Query, hits: list[Hit], wanted: Wanted) -> list[Hit]:
        """As many of the ranked hits as are wanted."""
        if wanted.least_confidence is not None:
            hits = [hit for hit in hits if (hit.confidence or 0) >= wanted.least_confidence]
        most = wanted.top + (not wanted.count_itself and any(hit.itself for hit in hits))
        limited = any(each is not None for each in (wanted.threshold, wanted.least_confidence, wanted.among))
        room = most - len(hits) if len(query.features) and not limited else 0
        return hits[:most] + self._without_features(room)

    def _marked(self, query: _Query, entries: Sequence[Entry], scores: Sequence[float]) -> list[Hit]:
        """Hits, of which the query's own file and its copies are marked."""
        paths = [self._reader.layout.path_of(entry.path) for entry in entries]
        if query.file is None:
            return [Hit(path, score) for path, score in zip(paths, scores, strict=True)]
        content = _content(query.file)
        hits = []
        for entry, path, score in zip(entries, paths, scores, strict=True):
            same = entry.hash == content
            itself = _is_same_file(query.file, path, through_links=same)
            hits.append(Hit(path, score, itself=itself, copy=same and not itself))
        return hits

    def _without_features(self, room: int) -> list[Hit]:
        """Images without local features come last, if there is room for them."""
        if room <= 0:
            return []
        entries = self._reader.catalogue.entries(
            "features = 0 and id in (select id from images where features = 0 limit ?)", room
        )
        return [Hit(self._reader.layout.path_of(entry.path), None) for entry in entries]

    def duplicates(self, asked: Asked, *, index: str | None, progress: Progress) -> Groups:
        self._reader.require_fitted()
        if asked.mirrored and not self._reader.model.extractor.can_mirror:
            raise InputError(
                "mirrored is set; expected features that tell those of the mirrored image: only HessianAffine's do"
            )
        return self._reader.read_past_damage(partial(self._grouped, asked=asked, index=index, progress=progress))

    def _grouped(self, view: View, tolerant: bool, asked: Asked, index: str | None, progress: Progress) -> Groups:
        catalogue, kind = self._reader.catalogue, self._kind(view, index)
        few = np.isin(view.ids, catalogue.ids(f"features < {FEW_FEATURES}"))
        least = least_similarity(view, asked.threshold, verify=asked.verify)
        unverified = least_similarity(view, asked.threshold, verify=False)
        similar = linked(view, few, least, kind, progress)
        judge = PairJudge(view, catalogue.entries_of, unverified=unverified, tolerant=tolerant)
        if asked.verify:
            mirrored = similar_when_mirrored(view, judge.mirrored, least, kind, progress) if asked.mirrored else ()
            found = verified(view, in_order(similar, mirrored), asked, judge, progress)
        else:
            found = grouped(view, {(a, b): score for a, b, score in similar}, least)
        entries = catalogue.entries_of({int(view.ids[position]) for group in found for position in group.positions})
        groups = Groups(
            self._group(group, [entries[image] for image in view.ids[group.positions].tolist()]) for group in found
        )
        groups.note = judge.note if asked.verify else ""
        return groups

    def _group(self, group: Members, entries: Sequence[Entry]) -> Group:
        images, reason = by_worth([grouped_image(entry, self._reader.layout.path_of(entry.path)) for entry in entries])
        return Group(images, reason, group.smallest, group.largest, group.all_pairs, group.kind)

    def _kind(self, view: View, index: str | None) -> type[Backend] | None:
        return backend_for(index or self._index, len(view.slots))


def _vectors(model: Model, queries: Sequence[_Query], per_side: int) -> Float[np.ndarray, "Q V D"]:
    """Of each query and of its parts, and with their enlarged description if one of them has it."""
    vectors = model.encode_with_parts([query.local.plain for query in queries], per_side)
    if not any(query.local.enlarged for query in queries):
        return vectors
    enlarged = model.encode([query.features.descriptors for query in queries])
    return np.concatenate([vectors, enlarged[:, None]], axis=1)


def _by_confidence(
    verifier: Verifier, query: LocalFeatures, entries: Sequence[Entry], hits: Sequence[Hit], wanted: Wanted
) -> list[Hit]:
    """The hits that are verified with their confidence, the surest first, and then the others as they are."""
    similarities = [hit.score or 0.0 for hit in hits]
    first, further = slice(wanted.verify), slice(wanted.verify, wanted.candidates)
    judged = verifier.judge(query, entries[first], similarities[first])
    others = [found for hit, found in zip(hits, judged, strict=False) if not hit.itself and not hit.copy]
    if wanted.expand == "results" and all(found.confidence < SURE for found in others):
        judged += verifier.judge_further(query, entries[further], similarities[further])
    scores = [
        np.inf if hit.itself or hit.copy else judgement.score for hit, judgement in zip(hits, judged, strict=False)
    ]
    order = sorted(range(len(judged)), key=lambda number: -scores[number])  # equal ones stay in order
    sure = [
        replace(
            hits[number],
            confidence=1.0 if np.isposinf(scores[number]) else judged[number].confidence,
            verification=judged[number].verification,
        )
        for number in order
    ]
    return [*sure, *hits[len(judged) :]]


def _content(file: Path) -> str | None:
    try:
        return content_hash(file)
    except InputError:  # deleted since its features were extracted
        return None


def _is_same_file(query: Path, path: Path, *, through_links: bool) -> bool:
    """Following links takes system calls, which is too slow for every hit of a long answer."""
    if os.path.abspath(query) == os.fspath(path):
        return True
    return through_links and os.path.realpath(query) == os.path.realpath(path)
