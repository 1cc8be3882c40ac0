"""Groups of images that show the same object or scene: near-duplicates, edits and crops.

Every image is a query. Two images whose similarity reaches the threshold are linked. Images with very few local
features are linked to their copies only. Links join images to groups, the strongest link first; a link between two
groups joins them only if their mean similarity, over all pairs of an image of one and an image of the other,

    <sum of the vectors of A, sum of the vectors of B> / (|A| |B|)

reaches `_COHESION` of the threshold. Without this rule, groups are the connected components of the links, which may be
long chains between images that show different things.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from faemb.collection.backends import Backend
from faemb.collection.reading import DECIMALS, View
from faemb.runtime import Progress

LONG, THRESHOLD, THRESHOLD_OF_SHORT = 3000, 0.3, 0.45
"""Default thresholds: short vectors, of models that have learned from few images, are more similar by chance."""
_NEIGHBOURS = 32
"""Neighbours compared per image; larger groups connect through shared members."""
_BLOCK = 256
_COHESION = 0.75
"""On ukbench400: as precise as larger values, and it loses fewer pairs (docs/collection.md)."""
_ALL_PAIRS = 500
"""Images of the largest group whose pairs are all compared."""
FEW_FEATURES = 10
_COPY = 0.95
"""Threshold for images with fewer than `FEW_FEATURES` features, which can match by chance."""

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


def default_threshold(dimension: int) -> float:
    """For vectors of this length."""
    return THRESHOLD if dimension >= LONG else THRESHOLD_OF_SHORT


def linked(
    view: View, few: Bool[np.ndarray, " n"], threshold: float, kind: type[Backend] | None, progress: Progress
) -> Iterator[tuple[int, int, float]]:
    """Pairs of positions in `view.slots` whose similarity reaches the threshold, most of them twice.

    `few` marks images with few features.
    """
    total = len(view.slots)
    least = np.where(few, max(threshold, _COPY), threshold).astype(np.float64)
    for start in range(0, total, _BLOCK):
        progress("duplicates", start, total)
        slots = view.slots[start : start + _BLOCK]
        found = view.search(np.ascontiguousarray(view.vectors[slots]), _NEIGHBOURS + 1, kind)
        for place, others, scores in zip(range(start, total), found.rows.tolist(), found.scores.tolist(), strict=False):
            for other, score in zip(others, scores, strict=True):
                # An approximate index may find a pair from one of its images only. The smaller position comes first.
                if other >= 0 and other != place and score >= max(least[place], least[other]):
                    yield min(place, other), max(place, other), score
    progress("duplicates", total, total)


def grouped(view: View, links: Links, threshold: float) -> list[Members]:
    """Groups of linked images, the surest first: by their smallest similarity to two decimals, then by size."""
    groups = [
        _measured(view, positions, component)
        for component in connected(links)
        for positions in divided(view, component, threshold)
    ]
    return sorted(groups, key=lambda group: (-round(group.smallest, 2), -len(group.positions), group.positions))


def connected(links: Links) -> list[Links]:
    """The links of each connected component."""
    parent: dict[int, int] = {}
    for a, b in links:
        parent[_root(parent, a)] = _root(parent, b)
    components: dict[int, dict[tuple[int, int], float]] = defaultdict(dict)
    for (a, b), score in links.items():
        components[_root(parent, a)][a, b] = score
    return list(components.values())


def _root(parent: dict[int, int], place: int) -> int:
    while parent.setdefault(place, place) != place:
        parent[place] = parent[parent[place]]
        place = parent[place]
    return place


def divided(view: View, links: Links, threshold: float) -> list[list[int]]:
    """The images of a connected component in groups of two or more, as the module's docstring says."""
    least = min(threshold, _COHESION * threshold)  # the threshold itself where it is negative
    places = sorted({place for pair in links for place in pair})
    row = {place: number for number, place in enumerate(places)}
    group_of = list(range(len(places)))
    groups, sums = [[place] for place in places], _vectors(view, places)
    for a, b in sorted(links, key=lambda pair: (-links[pair], pair)):
        pair = {group_of[row[a]], group_of[row[b]]}
        small, large = sorted(pair, key=lambda group: len(groups[group])) if len(pair) == 2 else (0, 0)
        if small != large and sums[small] @ sums[large] >= least * len(groups[small]) * len(groups[large]):
            for place in groups[small]:
                group_of[row[place]] = large
            sums[large] += sums[small]
            groups[large] += groups[small]
            groups[small] = []
    return [sorted(group) for group in groups if len(group) > 1]


def _measured(view: View, positions: list[int], links: Links) -> Members:
    if len(positions) > _ALL_PAIRS:
        inside = set(positions)
        scores = [score for pair, score in links.items() if inside.issuperset(pair)]
        return Members(positions, min(scores), max(scores), all_pairs=False)
    vectors = _vectors(view, positions)
    similarities = np.round(vectors @ vectors.T, DECIMALS)[np.triu_indices(len(positions), 1)]
    return Members(positions, float(similarities.min()), float(similarities.max()), all_pairs=True)


def _vectors(view: View, positions: list[int]) -> Float[np.ndarray, "m D"]:
    return np.asarray(view.vectors)[view.slots[positions]].astype(np.float64)
