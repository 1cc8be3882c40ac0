"""Pairs of similar images, compared by local features: copies, photographs of the same thing, or neither.

If features are not stored, or have no usable geometry, they cannot be compared: then the similarity of the vectors
decides, as it does for pictures with too few matches.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from faemb.collection.catalogue import Entry
from faemb.collection.checked_reads import KeptFeatures
from faemb.collection.reading import View
from faemb.collection.results import COPIES, SAME_THING, SIMILAR
from faemb.features import LocalFeatures
from faemb.rerank import SURE, Judge, Matchable, verify
from faemb.rerank.copies import LEAST_AGREEMENT, LEAST_MATCHES, likeness
from faemb.runtime import Progress
from faemb.runtime.threads import cores, in_threads

COPY = 0.95
"""Smallest similarity of copies with too few features or matches to be verified, which could match by chance."""
_MOST = 1 + 1e-4
"""Similarities above this are not of unit vectors: one of them is damaged."""
_IMAGES = 256
"""Number of images whose entries are read from the catalogue at once."""


class Pair(NamedTuple):
    """Two positions in the slots of a view, the smaller one first."""

    first: int
    second: int
    similarity: float
    mirrored: bool = False
    """The mirrored first image is compared with the second one; the similarity is that of these two."""


class Finding(NamedTuple):
    """What the comparison of a pair has shown."""

    kind: str
    """Kind of the pair; empty if it is not linked."""
    matches: int = 0
    """Number of matches that agree with one transform."""
    is_moved: bool = False
    """Whether parts of the picture have moved by different amounts, so that these are two photographs."""


Entries = Callable[[Iterable[int]], dict[int, Entry]]
"""Reads catalogue entries by id."""


class _Work(NamedTuple):
    """An image and the others with which it is compared."""

    entry: Entry
    others: list[tuple[Pair, Entry]]
    done: int
    """Number of pairs up to and including these."""


class PairJudge:
    """Judges pairs of images in one state of a collection.

    entries:    reads catalogue entries by id
    unverified: smallest similarity of a linked pair that cannot be verified
    tolerant:   treat damaged features as missing, and say so in `note`; otherwise they are an error
    """

    def __init__(self, view: View, entries: Entries, *, unverified: float, tolerant: bool) -> None:
        self._view, self._entries, self._unverified = view, entries, unverified
        self._extractor = view.model.extractor
        self._judge = Judge(view.unrelated_whole, self._extractor.largest_turn, view.model.confidence)
        self._kept = KeptFeatures(view, tolerant=tolerant)
        self._has_flat = False
        """Whether descriptors without geometry were met."""

    def judge(
        self, pairs: Sequence[Pair], progress: Progress, is_joined: Callable[[Pair], bool] = lambda pair: False
    ) -> Iterator[tuple[Pair, Finding]]:
        """The pairs that are linked, or are two photographs; `pairs` must be in order of their first positions.

        Pairs that earlier ones have joined already, by `is_joined`, are skipped.
        """
        for done, judged in in_threads(self._judged, self._work(pairs, is_joined), cores()):
            yield from ((pair, found) for pair, found in judged if found.kind or found.is_moved)
            progress("verification", done, len(pairs))
        progress("verification", len(pairs), len(pairs))

    def mirrored(self, places: Sequence[int]) -> list[LocalFeatures | None]:
        """The features of the images at these positions, mirrored; None where that cannot be done."""
        images = self._view.ids[list(places)].tolist()
        entries = self._entries(images)
        loaded = (self._load(entries[image]) for image in images)
        return [None if each is None else self._extractor.mirrored(each) for each in loaded]

    @property
    def note(self) -> str:
        """What could not be verified, with its cure; empty if there was nothing."""
        if self._extractor.largest_turn is None:
            return "features of this extractor have no geometry to verify: groups are joined by similarity alone"
        if not self._kept.missing:
            sentence = "descriptors without geometry cannot be compared: their images are joined by similarity alone"
            return sentence if self._has_flat else ""
        count = len(self._kept.missing)
        return (
            "images without a comparison are joined by similarity alone, so that copies are not told from other "
            "photographs of the same thing: the local features of "
            f"{count} {'image' if count == 1 else 'images'} {self._kept.fault}"
        )

    def _work(self, pairs: Sequence[Pair], is_joined: Callable[[Pair], bool]) -> Iterator[_Work]:
        """Runs in the caller's thread, the only one that may use the catalogue."""
        grouped, done = [list(group) for _, group in groupby(pairs, attrgetter("first"))], 0
        for start in range(0, len(grouped), _IMAGES):
            block = grouped[start : start + _IMAGES]
            places = {place for group in block for pair in group for place in pair[:2]}
            entries = self._entries(self._view.ids[sorted(places)].tolist())
            for group in block:
                done += len(group)
                others = [(pair, entries[int(self._view.ids[pair.second])]) for pair in group if not is_joined(pair)]
                if others:
                    yield _Work(entries[int(self._view.ids[group[0].first])], others, done)

    def _judged(self, work: _Work) -> tuple[int, list[tuple[Pair, Finding]]]:
        features = self._load(work.entry)
        prepared: dict[bool, Matchable | None] = {}
        judged = []
        for pair, other in work.others:
            if pair.mirrored not in prepared:
                prepared[pair.mirrored] = self._prepared(features, mirrored=pair.mirrored)
            judged.append((pair, self._found(pair, prepared[pair.mirrored], self._prepared(self._load(other)))))
        return work.done, judged

    def _prepared(self, features: LocalFeatures | None, *, mirrored: bool = False) -> Matchable | None:
        if features is not None and mirrored:
            features = self._extractor.mirrored(features)
        if features is None:
            return None
        matchable = Matchable.of(features)
        self._has_flat = self._has_flat or not matchable
        return matchable or None

    def _found(self, pair: Pair, first: Matchable | None, second: Matchable | None) -> Finding:
        turn = self._extractor.largest_turn
        if not pair.similarity <= _MOST:
            return Finding("")
        if first is None or second is None or turn is None:
            return Finding(SIMILAR if pair.similarity >= self._unverified else "")
        found = verify(first, second, turn=turn)
        matches = int(found.agreeing.sum())
        measured = likeness(first, second, found)
        few = len(found.matches) < LEAST_MATCHES or LEAST_AGREEMENT * len(found.matches) <= matches < LEAST_MATCHES
        if (few and pair.similarity >= COPY) or (measured is not None and measured.is_copy):
            return Finding(COPIES, matches)
        is_same = self._judge.judged(pair.similarity, found).confidence >= SURE
        return Finding(SAME_THING if is_same else "", matches, measured is not None and measured.is_moved)

    def _load(self, entry: Entry) -> LocalFeatures | None:
        return None if self._extractor.largest_turn is None else self._kept.load(entry)
