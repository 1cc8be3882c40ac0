"""Search: the images most similar to a query, and groups of images that show the same object or scene."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import numpy as np
from jaxtyping import Float

from faemb.collection.backends import Backend, backend_for, index_in_use, misses_index
from faemb.collection.catalogue import Entry
from faemb.collection.duplicates import (
    FEW_FEATURES,
    DuplicateOptions,
    Limits,
    Members,
    grouped,
    in_order,
    least_similarity,
    linked,
    similar_when_mirrored,
    verified,
)
from faemb.collection.expanding import Expander, expanded_by_vectors
from faemb.collection.file_state import content_now
from faemb.collection.layout import typed
from faemb.collection.model import Model, vectors_per_image
from faemb.collection.nearest import best_of
from faemb.collection.originals import by_worth, grouped_image
from faemb.collection.pairs import PairJudge
from faemb.collection.queries import QueryFeatures, described
from faemb.collection.reading import Reader, View, rounded
from faemb.collection.results import Answer, Group, Groups, Hit
from faemb.collection.stores.store import RemoteVectors
from faemb.collection.undamaged import SoundSearch, without_damaged
from faemb.collection.verifying import Verifier
from faemb.errors import Fault, InputError, about
from faemb.features import LocalFeatures
from faemb.features.image import ImageLike, name_of
from faemb.features.parts import MOST_PER_SIDE
from faemb.rerank import EXPANSIONS, SURE, VERIFIED
from faemb.rerank.expansion import FURTHER
from faemb.rerank.vector_expansion import BY_VECTORS, RANKED
from faemb.runtime import Progress, silent
from faemb.runtime.paths_and_urls import Url, absolute_text, place
from faemb.sets import PORTION
from faemb.settings import require_choice, require_number, require_whole

_WITHOUT_INDEX = (
    "a collection of this size is searched in codes, which needs the extra 'faiss': pip install \"faemb[faiss]\"; "
    "without it all vectors are compared, which is exact and takes longer"
)
_VERIFIED_AT_ONCE = 8
"""Number of queries between two reports of progress: verifying the candidates of one takes up to a second."""


@dataclass(frozen=True)
class SearchOptions:
    """What is searched for, and how much of the ranking is returned."""

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
    """Query expansion: one of `EXPANSIONS`."""
    query_parts: int = 0
    """Search with n x n overlapping parts of the query as well; 0: with the whole query only."""
    among: frozenset[int] | None = None
    """Only images with these ids may be results; None: all images."""
    turned: bool = False
    """Search with each query turned by 90, 180 and 270 degrees as well."""

    def __post_init__(self) -> None:
        require_whole("top", self.top, 1)
        require_whole("verify", self.verify, 0)
        require_choice("expand", self.expand, EXPANSIONS)
        if self.expand == "results" and not self.verify:
            raise InputError("expand needs verified results, and verify is 0; leave one of them out")
        if self.expand in BY_VECTORS and self.verify:
            raise InputError(f"expand {self.expand!r} ranks by vectors alone, and verify is {self.verify}; set it to 0")
        if self.expand in BY_VECTORS and (self.query_parts or self.turned):
            given = "query_parts" if self.query_parts else "turned"
            raise InputError(f"expand {self.expand!r} is for queries with one vector; leave {given} out")
        require_whole("query_parts", self.query_parts, 0, MOST_PER_SIDE)
        if self.least_confidence is not None:
            require_number("least_confidence", self.least_confidence, least=0, most=1)
            if not self.verify:
                raise InputError(
                    "least_confidence needs results with a confidence, and verify is 0; leave one of them out, or give "
                    "a threshold of similarity"
                )
        if self.threshold is not None:
            require_number("threshold", self.threshold, least=-1, most=1)

    @property
    def candidates(self) -> int:
        """Number of the most similar images that may be verified, or re-ranked by vectors."""
        if self.expand in BY_VECTORS:
            return RANKED
        return self.verify + (FURTHER if self.expand == "results" else 0)


@dataclass(frozen=True)
class _Query:
    name: str
    local: QueryFeatures
    file: Path | None = None
    """None for a query that was given as an array or as features."""
    known: str | None = None
    """Hash of the file, if it is known."""

    @cached_property
    def content(self) -> str | None:
        """Hash of the file; None if there is none, or if it cannot be read any more."""
        return self.known or (None if self.file is None else content_now(self.file))

    def is_content_of(self, hit: Hit) -> bool:
        """Whether an image that was indexed has the same bytes."""
        return hit.entry is not None and hit.entry.hash == self.content

    @property
    def features(self) -> LocalFeatures:
        return self.local.features


@dataclass(frozen=True)
class _Scope:
    """Where a search looks."""

    view: View
    sound: SoundSearch
    """Among the images alone that may be results."""
    kind: type[Backend] | None
    tolerant: bool


class Searcher:
    """Searches a collection; `index` is the kind of index to use where none is given."""

    def __init__(self, reader: Reader, index: str) -> None:
        self._reader, self._index = reader, index
        self._told = False
        """Whether an answer has had the note that there is no index."""

    def images(
        self,
        images: Sequence[ImageLike],
        wanted: SearchOptions,
        *,
        box: Sequence[float] | None,
        jobs: int | None,
        progress: Progress | None = None,
    ) -> tuple[list[Answer], list[Fault]]:
        """An answer for each query that can be read, and a sentence for each that cannot."""
        found: dict[int, _Query] = {}
        faults: list[Fault] = []
        for number, outcome in described(images, self._reader.model.extractor, box, jobs, turned=wanted.turned):
            image = images[number]
            if isinstance(outcome, QueryFeatures):
                file = place(image) if isinstance(image, str | os.PathLike) else None
                found[number] = _Query(name_of(image), outcome, file)
            else:
                faults.append(about(name_of(image), outcome))
        return self._answers([found[number] for number in sorted(found)], wanted, progress or silent), faults

    def features(
        self,
        queries: Sequence[QueryFeatures],
        names: Sequence[str],
        wanted: SearchOptions,
        files: Sequence[Path | None] | None = None,
        contents: Sequence[str | None] | None = None,
    ) -> list[Answer]:
        """An answer for each query; features must be rounded like stored ones (packing.py)."""
        sources = files or [None] * len(queries)
        given = contents or [None] * len(queries)
        known = [content or self._stored_content(file) for content, file in zip(given, sources, strict=True)]
        return self._answers([_Query(*each) for each in zip(names, queries, sources, known, strict=True)], wanted)

    def _stored_content(self, file: Path | None) -> str | None:
        """Content hash from the catalogue for a URL, so that its server is not asked; None for local files."""
        entry = self._reader.catalogue.entry(self._reader.layout.name_of(file)) if isinstance(file, Url) else None
        return None if entry is None else entry.hash

    def _answers(self, queries: Sequence[_Query], wanted: SearchOptions, progress: Progress = silent) -> list[Answer]:
        self._reader.require_fitted()
        answers: list[Answer] = []
        size = _VERIFIED_AT_ONCE if wanted.verify else PORTION
        for start in range(0, len(queries), size):
            if len(queries) > size:
                progress("search", start, len(queries))
            part = queries[start : start + size]
            answers += self._reader.read_past_damage(
                partial(self._in_view, queries=part, wanted=wanted, progress=progress)
            )
        if len(queries) > size:
            progress("search", len(queries), len(queries))
        return answers

    def _in_view(
        self, view: View, tolerant: bool, queries: Sequence[_Query], wanted: SearchOptions, progress: Progress
    ) -> list[Answer]:
        """The answer to each query, with hits best first; none for a query without local features."""
        vectors = _vectors(view.model, queries, wanted.query_parts)
        searched = view if wanted.among is None else view.restricted(wanted.among)
        kind = self._kind(view, wanted.index) if wanted.among is None else None
        searched.prepare(kind, progress)
        sound = SoundSearch(searched, self._reader.catalogue, tolerant=tolerant)
        least = -np.inf if wanted.threshold is None else wanted.threshold
        # One more, since the query itself may be among the results without being counted.
        count, expands = max(wanted.top, wanted.candidates) + 1, wanted.expand in BY_VECTORS
        found = sound.search(np.concatenate(vectors), count, kind, parts=True, least=-np.inf if expands else least)
        found = best_of(found, len(queries))
        if expands:
            found = expanded_by_vectors(sound, wanted.expand, vectors[:, 0], found, kind)
        kept = (found.rows >= 0) & (found.scores >= least) & np.array([[len(query.features) > 0] for query in queries])
        scope = _Scope(view, sound, kind, tolerant=tolerant)
        answers, missed = [], self._note_of_missed(view, wanted.index) if wanted.among is None else ""
        for number, query in enumerate(queries):
            own = sound.entries(searched.ids[found.rows[number, kept[number]]].tolist())
            hits = self._marked(query, own, rounded(found.scores[number, kept[number]]))
            changed, unverified = self._note(query, hits), ""
            if wanted.verify and hits:
                hits, unverified = self._verified(scope, query, _own(vectors[number], query, wanted), hits, wanted)
            note, missed = _together(changed, sound.note, unverified, missed), ""
            chosen = self._chosen(query, hits, wanted)
            limits, size = (wanted.least_confidence, wanted.threshold), query.features.image_size
            answers.append(Answer(query.name, len(query.features), chosen, note, *limits, size))
        return answers

    def _verified(
        self,
        scope: _Scope,
        query: _Query,
        vectors: Float[np.ndarray, "V D"],
        hits: Sequence[Hit],
        wanted: SearchOptions,
    ) -> tuple[list[Hit], str]:
        """The hits by their confidence, and what is found through them; and a note on what could not be verified."""
        view, tolerant = scope.view, scope.tolerant
        verifier = Verifier(view, view.unrelated_to(vectors), tolerant=tolerant)
        judged = _by_confidence(verifier, query, hits, wanted)
        if wanted.expand != "results":
            return judged, verifier.note
        links = Verifier(view, view.unrelated_whole, tolerant=tolerant)
        expander = Expander(scope.sound, links, scope.kind)
        found = expander.expanded(vectors[0], judged, partial(self._marked, query))
        least = -np.inf if wanted.threshold is None else wanted.threshold
        return [
            hit for hit in found if hit.similarity is None or hit.similarity >= least
        ], verifier.note or expander.note

    def _chosen(self, query: _Query, hits: list[Hit], wanted: SearchOptions) -> list[Hit]:
        """As many of the ranked hits as are wanted."""
        if wanted.least_confidence is not None:
            hits = [hit for hit in hits if (hit.confidence or 0) >= wanted.least_confidence]
        most = wanted.top + (not wanted.count_itself and any(hit.itself for hit in hits))
        limited = any(each is not None for each in (wanted.threshold, wanted.least_confidence, wanted.among))
        room = most - len(hits) if len(query.features) and not limited else 0
        return hits[:most] + self._without_features(room)

    def _marked(self, query: _Query, entries: Sequence[Entry], similarities: Sequence[float]) -> list[Hit]:
        """Hits, of which the query's own file and its copies are marked."""
        paths = [self._reader.layout.path_of(entry.path) for entry in entries]
        if query.file is None:
            each = zip(paths, similarities, entries, strict=True)
            return [Hit(path, similarity, entry=entry) for path, similarity, entry in each]
        hits = []
        for entry, path, similarity in zip(entries, paths, similarities, strict=True):
            same = entry.hash == query.content
            itself = _is_same_file(query.file, path, through_links=same)
            hits.append(Hit(path, similarity, itself=itself, copy_of_query=same and not itself, entry=entry))
        return hits

    def _note(self, query: _Query, hits: Sequence[Hit]) -> str:
        """Whether the query is an image of the collection that has changed since."""
        if not any(hit.itself and not query.is_content_of(hit) for hit in hits) or query.content is None:
            return ""
        cure = f"faemb update {typed(self._reader.layout.folder)}"
        return f"the file of the query has changed since it was indexed; run: {cure}"

    def _without_features(self, room: int) -> list[Hit]:
        """Images without local features come last, if there is room for them."""
        if room <= 0:
            return []
        entries = self._reader.catalogue.entries(
            "features = 0 and id in (select id from images where features = 0 limit ?)", room
        )
        return [Hit(self._reader.layout.path_of(entry.path), None, entry=entry) for entry in entries]

    def duplicates(self, options: DuplicateOptions, *, index: str | None, progress: Progress) -> Groups:
        self._reader.require_fitted()
        if options.mirrored and not self._reader.model.extractor.can_mirror:
            raise InputError("mirrored copies can be found with HessianAffine features only; leave out mirrored")
        return self._reader.read_past_damage(partial(self._grouped, options=options, index=index, progress=progress))

    def _grouped(
        self, view: View, tolerant: bool, options: DuplicateOptions, index: str | None, progress: Progress
    ) -> Groups:
        catalogue, kind = self._reader.catalogue, self._kind(view, index)
        view, damaged = without_damaged(view, catalogue, tolerant=tolerant)
        few = np.isin(view.ids, catalogue.ids(f"features < {FEW_FEATURES}"))
        limits, unverified = Limits.of(view, options), least_similarity(view, options.threshold, verify=False)
        view.prepare(kind, progress)
        similar = linked(view, few, limits, kind, progress)
        judge = PairJudge(view, catalogue.entries_of, unverified=unverified, tolerant=tolerant)
        if options.verify:
            turned = (
                similar_when_mirrored(view, judge.mirrored, limits.least, kind, progress) if options.mirrored else ()
            )
            found = verified(view, in_order(similar, turned), options, judge, progress)
        else:
            found = grouped(view, {(a, b): score for a, b, score in similar}, limits.least)
        entries = catalogue.entries_of({int(view.ids[position]) for group in found for position in group.positions})
        alike = [
            self._group(group, [entries[image] for image in view.ids[group.positions].tolist()]) for group in found
        ]
        groups = Groups(sorted([*alike, *self._without_features_alike()], key=_surest))
        judged = judge.note if options.verify else ""
        groups.note = _together(damaged, judged, self._note_of_missed(view, index))
        return groups

    def _without_features_alike(self) -> Iterator[Group]:
        """Images without local features cannot be compared, but have copies: files of the same bytes."""
        none = "features = 0"
        several = f"select hash from images where {none} group by hash having count(*) > 1"  # noqa: S608
        entries = sorted(self._reader.catalogue.entries(f"{none} and hash in ({several})"), key=attrgetter("hash"))
        for _, equal in groupby(entries, attrgetter("hash")):
            yield self._group(Members([], 1.0, 1.0, all_pairs=True), list(equal))

    def _group(self, group: Members, entries: Sequence[Entry]) -> Group:
        images, reason = by_worth([grouped_image(entry, self._reader.layout.path_of(entry.path)) for entry in entries])
        return Group(images, reason, group.smallest, group.largest, group.all_pairs, group.kind)

    def _kind(self, view: View, index: str | None) -> type[Backend] | None:
        """The kind of index. That of the collection may not be one that a server has: its vectors were copied there."""
        is_remote, name = isinstance(view.vectors, RemoteVectors), index or self._index
        if index is None or name == "auto":
            name = index_in_use(name, len(view.slots), remote=is_remote)
        return backend_for(name, len(view.slots))

    def _note_of_missed(self, view: View, index: str | None) -> str:
        """Once, that the index which this number of images deserves cannot be used here."""
        missed = misses_index(index or self._index, len(view.slots))
        if not missed or isinstance(view.vectors, RemoteVectors) or self._told:
            return ""
        self._told = True
        return _WITHOUT_INDEX


def _vectors(model: Model, queries: Sequence[_Query], per_side: int) -> Float[np.ndarray, "Q V D"]:
    """Vectors of each query, of its parts, and of its other sets; a query with fewer of these repeats its own."""
    vectors = model.encode_with_parts([query.local.plain for query in queries], per_side)
    others = [query.local.sets[1:] for query in queries]
    most = max(map(len, others), default=0)
    if not most:
        return vectors
    sets = [[*own, *[query.local.plain] * most][:most] for query, own in zip(queries, others, strict=True)]
    more = model.encode([features.descriptors for several in sets for features in several])
    return np.concatenate([vectors, more.reshape(len(queries), most, -1)], axis=1)


def _own(vectors: Float[np.ndarray, "V D"], query: _Query, wanted: SearchOptions) -> Float[np.ndarray, "W D"]:
    """The vectors of a query without those that only other queries of the same call have."""
    return vectors[: vectors_per_image(wanted.query_parts) + len(query.local.sets) - 1]


def _by_confidence(verifier: Verifier, query: _Query, hits: Sequence[Hit], wanted: SearchOptions) -> list[Hit]:
    """The verified hits by falling confidence, then the others in their order."""
    entries = [hit.entry for hit in hits if hit.entry is not None]  # all of them
    similarities = [hit.similarity or 0.0 for hit in hits]
    first, further = slice(wanted.verify), slice(wanted.verify, wanted.candidates)
    local = query.local
    judged = verifier.judge(local.features, entries[first], similarities[first], local.turned)
    others = [found for hit, found in zip(hits, judged, strict=False) if not hit.itself and not hit.copy_of_query]
    if wanted.expand == "results" and all(found.confidence < SURE for found in others):
        judged += verifier.judge(local.features, entries[further], similarities[further], local.turned)
    scores = [
        np.inf if query.is_content_of(hit) else judgement.score for hit, judgement in zip(hits, judged, strict=False)
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


def _surest(group: Group) -> tuple[float, int]:
    """Key by which groups are sorted, the surest first."""
    return -round(group.smallest, 2), -len(group.images)


def _together(*notes: str) -> str:
    """Sentences as one, each once."""
    return "; ".join(dict.fromkeys(filter(None, notes)))


def _is_same_file(query: Path, path: Path, *, through_links: bool) -> bool:
    """Links are followed only on request: the system calls are too slow for every hit of a long answer."""
    if absolute_text(query) == os.fspath(path):
        return True
    if isinstance(query, Url) or isinstance(path, Url):
        return False
    return through_links and os.path.realpath(query) == os.path.realpath(path)
