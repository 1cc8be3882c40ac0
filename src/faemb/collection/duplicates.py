"""Groups of images that belong together: copies of one picture, or all photographs of the same thing.

Every image is a query. Its most similar images are compared with it by local features (pairs.py), and pairs that are
copies are linked; on request, pairs that show the same thing too. Verified links always join, since two parts of one
picture, or two sides of one thing, belong together even if they share nothing.

Where local features cannot be compared, images whose similarity reaches the threshold are linked. In order of
similarity, such a link joins two groups only if their mean similarity, over all pairs of an image of one and an image
of the other,

    <sum of the vectors of A, sum of the vectors of B> / (|A| |B|)

reaches `_COHESION` of the threshold. Without this rule, groups are the connected components of the links, which may be
long chains between images that show different things. Images with very few local features are linked to their copies
only.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from faemb.collection.backends import Backend
from faemb.collection.components import connected, root
from faemb.collection.copy_links import MANY, believed
from faemb.collection.pairs import COPY, Pair, PairJudge
from faemb.collection.reading import DECIMALS, View
from faemb.collection.results import COPIES, SAME_THING, SIMILAR
from faemb.errors import InputError
from faemb.features import LocalFeatures
from faemb.runtime import Progress
from faemb.settings import require_flag, require_number

LONG, THRESHOLD, THRESHOLD_OF_SHORT = 3000, 0.3, 0.45
"""Default thresholds where features cannot be compared: short vectors, of models learned from few images, are more
similar by chance."""
_UNUSUAL = 4.0
"""Images are compared if their similarity is this number of standard deviations above that of unrelated images."""
_NEAREST, _HIGHER = 3, 2.0
"""To find photographs of the same thing, the nearest images of each are compared from this number of deviations on."""
_NEIGHBOURS = 32
"""Neighbours compared per image; larger groups connect through shared members."""
_BLOCK, _MIRRORED = 256, 32
"""Number of images searched for at once, and of mirrored ones, whose features are in memory too."""
_COHESION = 0.75
"""On ukbench400 as precise as larger values, with fewer lost pairs (docs/collection.md)."""
_ALL_PAIRS = 500
"""Size of the largest group in which all pairs are compared."""
FEW_FEATURES = 10
"""Images with fewer features can match by chance: they are linked to their copies only, at a similarity of `COPY`."""

_SUREST = (COPIES, SAME_THING, SIMILAR)
"""Kinds of links, the surest first."""

Load = Callable[[Sequence[int]], list[LocalFeatures | None]]
Links = Mapping[tuple[int, int], float]
"""Similarity of linked images, given as two positions, the smaller one first."""


class Members(NamedTuple):
    """A group as positions in the slots of a view, ascending."""

    positions: list[int]
    smallest: float
    largest: float
    """Smallest and largest similarity of two members."""
    all_pairs: bool
    """Whether all pairs were compared, or linked ones only."""
    kind: str = COPIES


@dataclass(frozen=True)
class DuplicateOptions:
    """Which images are joined."""

    threshold: float | None = None
    """Smallest similarity of images that are compared."""
    same_thing: bool = False
    """Join different photographs of the same thing too."""
    mirrored: bool = False
    """Find copies that are mirrored from left to right too."""
    verify: bool = True
    """Compare local features; otherwise the similarity of the vectors decides alone."""

    def __post_init__(self) -> None:
        if self.threshold is not None:
            require_number("threshold", self.threshold, least=-1, most=1)
        for name in ("same_thing", "mirrored", "verify"):
            require_flag(name, getattr(self, name))
        if not self.verify and (self.same_thing or self.mirrored):
            given = "same_thing" if self.same_thing else "mirrored"
            raise InputError(
                f"{given} is set; expected local features to be compared, which verify=False (--no-verify) leaves out"
            )


def default_threshold(dimension: int) -> float:
    """Default threshold for vectors of this dimension."""
    return THRESHOLD if dimension >= LONG else THRESHOLD_OF_SHORT


def least_similarity(view: View, threshold: float | None, *, verify: bool) -> float:
    """Smallest similarity of compared pairs: the given threshold if there is one.

    The default is never above the threshold used without verification.
    """
    if threshold is not None:
        return threshold
    if not verify:
        return default_threshold(view.model.dimension)
    return min(THRESHOLD, view.unrelated_whole.typical + _UNUSUAL * view.unrelated_whole.spread)


class Limits(NamedTuple):
    """Smallest similarity of pairs that are compared."""

    least: float
    of_nearest: float
    """Smallest similarity at which an image is compared with its `_NEAREST` nearest ones."""

    @classmethod
    def of(cls, view: View, options: DuplicateOptions) -> "Limits":
        """In a small collection all pairs are compared: it has too few images to tell which similarity is usual."""
        least = least_similarity(view, options.threshold, verify=options.verify)
        if options.threshold is not None or not options.verify:
            return cls(least, least)
        if len(view.slots) <= _NEIGHBOURS:
            return cls(-1.0, -1.0)
        unrelated = view.unrelated_whole
        nearest = unrelated.typical + _HIGHER * unrelated.spread if options.same_thing else least
        return cls(least, min(least, nearest))


def linked(
    view: View, few: Bool[np.ndarray, " n"], limits: Limits, kind: type[Backend] | None, progress: Progress
) -> Iterator[tuple[int, int, float]]:
    """Pairs of positions in `view.slots` whose similarity reaches the limits, most of them twice.

    `few` marks images with few features.
    """
    total = len(view.slots)
    least, nearest = (np.where(few, max(limit, COPY), limit).astype(np.float64) for limit in limits)
    for start in range(0, total, _BLOCK):
        progress("duplicates", start, total)
        slots = view.slots[start : start + _BLOCK]
        found = view.search(np.ascontiguousarray(view.vectors[slots]), _NEIGHBOURS + 1, kind)
        for place, others, scores in zip(range(start, total), found.rows.tolist(), found.scores.tolist(), strict=False):
            for rank, (other, score) in enumerate(zip(others, scores, strict=True)):
                limit = nearest if rank <= _NEAREST else least  # the first is the image itself
                # An approximate index may find a pair from one of its images only. The smaller position comes first.
                if other >= 0 and other != place and score >= max(limit[place], limit[other]):
                    yield min(place, other), max(place, other), score
    progress("duplicates", total, total)


def similar_when_mirrored(
    view: View, load: Load, threshold: float, kind: type[Backend] | None, progress: Progress
) -> Iterator[tuple[int, int, float]]:
    """Pairs of positions whose similarity reaches the threshold if one image is mirrored, most of them twice.

    `load` gives the features of the images at some positions; None for those that cannot be mirrored.
    """
    total = len(view.slots)
    for start in range(0, total, _MIRRORED):
        progress("mirrored images", start, total)
        places = range(start, min(start + _MIRRORED, total))
        features = [(place, each) for place, each in zip(places, load(places), strict=True) if each is not None]
        if not features:
            continue
        vectors = view.model.encode([each.descriptors for _, each in features])
        found = view.search(vectors, _NEIGHBOURS, kind)
        for (place, _), others, scores in zip(features, found.rows.tolist(), found.scores.tolist(), strict=True):
            for other, score in zip(others, scores, strict=True):
                if other >= 0 and other != place and score >= threshold:
                    yield min(place, other), max(place, other), score
    progress("mirrored images", total, total)


def verified(
    view: View, pairs: Sequence[Pair], options: DuplicateOptions, judge: PairJudge, progress: Progress
) -> list[Members]:
    """Groups of the pairs that belong together; images that sure copies have joined already are not compared again."""
    links: dict[tuple[int, int], float] = {}
    kinds: dict[tuple[int, int], str] = {}
    copies: dict[tuple[int, int], int] = {}
    photographs: dict[tuple[int, int], int] = {}
    parent: dict[int, int] = {}

    def is_joined(pair: Pair) -> bool:
        return root(parent, pair.first) == root(parent, pair.second)

    for pair, found in judge.judge(pairs, progress, is_joined):
        link = pair[:2]
        if found.kind:
            links[link] = max(pair.similarity, links.get(link, -1.0))
            kinds[link] = min(found.kind, kinds.get(link, SIMILAR), key=_SUREST.index)
        if found.is_moved:
            photographs[link] = max(found.matches, photographs.get(link, 0))
        if found.kind == COPIES:
            copies[link] = max(found.matches, copies.get(link, 0))
            if found.matches >= MANY or pair.similarity >= 1:
                parent[root(parent, pair.first)] = root(parent, pair.second)
    kinds.update(dict.fromkeys(copies.keys() - believed(copies, photographs), SAME_THING))
    joined = {link: score for link, score in links.items() if options.same_thing or kinds[link] != SAME_THING}
    return grouped(view, joined, least_similarity(view, options.threshold, verify=True), kinds)


def in_order(upright: Iterable[tuple[int, int, float]], mirrored: Iterable[tuple[int, int, float]] = ()) -> list[Pair]:
    """Each pair once, in order of position."""
    found: dict[tuple[int, int, bool], float] = {}
    for turned, links in enumerate((upright, mirrored)):
        found.update({(a, b, bool(turned)): score for a, b, score in links})
    return [Pair(a, b, found[a, b, turned], turned) for a, b, turned in sorted(found)]


def grouped(
    view: View, links: Links, threshold: float, kinds: Mapping[tuple[int, int], str] | None = None
) -> list[Members]:
    """Groups of linked images, the surest first: by their smallest similarity to two decimals, then by size.

    A group is of the kind of the least sure link that has joined it; links are `SIMILAR` if no `kinds` are given.
    """
    kinds = dict.fromkeys(links, SIMILAR) if kinds is None else kinds
    groups = [
        _measured(view, positions, component, kind)
        for component in connected(links)
        for positions, kind in divided(view, component, threshold, kinds)
    ]
    return sorted(groups, key=lambda group: (-round(group.smallest, 2), -len(group.positions), group.positions))


def divided(
    view: View, links: Links, threshold: float, kinds: Mapping[tuple[int, int], str]
) -> list[tuple[list[int], str]]:
    """The images of a connected component in groups of two or more, and the kind of each."""
    least = min(threshold, _COHESION * threshold)  # the threshold itself where it is negative
    places = sorted({place for pair in links for place in pair})
    row = {place: number for number, place in enumerate(places)}
    group_of = list(range(len(places)))
    groups, sums, worst = [[place] for place in places], _vectors(view, places), [0] * len(places)
    order = {pair: _SUREST.index(kinds[pair]) for pair in links}
    for a, b in sorted(links, key=lambda pair: (order[pair], -links[pair], pair)):
        pair = {group_of[row[a]], group_of[row[b]]}
        if len(pair) < 2:
            continue
        small, large = sorted(pair, key=lambda group: len(groups[group]))
        if kinds[a, b] != SIMILAR or sums[small] @ sums[large] >= least * len(groups[small]) * len(groups[large]):
            for place in groups[small]:
                group_of[row[place]] = large
            sums[large] += sums[small]
            groups[large] += groups[small]
            worst[large] = max(worst[large], worst[small], order[a, b])
            groups[small] = []
    return [(sorted(group), _SUREST[kind]) for group, kind in zip(groups, worst, strict=True) if len(group) > 1]


def _measured(view: View, positions: list[int], links: Links, kind: str) -> Members:
    if len(positions) > _ALL_PAIRS:
        inside = set(positions)
        scores = [score for pair, score in links.items() if inside.issuperset(pair)]
        return Members(positions, min(scores), max(scores), all_pairs=False, kind=kind)
    vectors = _vectors(view, positions)
    similarities = np.round(vectors @ vectors.T, DECIMALS)[np.triu_indices(len(positions), 1)]
    return Members(positions, float(similarities.min()), float(similarities.max()), all_pairs=True, kind=kind)


def _vectors(view: View, positions: list[int]) -> Float[np.ndarray, "m D"]:
    return np.asarray(view.vectors[view.slots[positions]]).astype(np.float64)
