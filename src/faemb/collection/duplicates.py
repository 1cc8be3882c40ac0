"""Groups of images that show the same object or scene: near-duplicates, edits and crops.

Every image is a query. Two images whose similarity reaches the threshold are linked, and a group is a connected
component of these links. Images with very few local features are linked to their copies only.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool

from faemb.collection.backends import Backend
from faemb.collection.reading import View
from faemb.runtime import Progress

DEFAULT_THRESHOLD = 0.3
_NEIGHBOURS = 32
"""Neighbours compared per image; larger groups connect through shared members."""
_BLOCK = 256
FEW_FEATURES = 10
_COPY = 0.95
"""Threshold for images with fewer than `FEW_FEATURES` features, which can match by chance."""


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


def connected(pairs: Iterator[tuple[int, int, float]]) -> list[tuple[list[int], float]]:
    """Members of each group, those with most links first, and its smallest similarity, by which groups are sorted."""
    parent: dict[int, int] = {}
    links: dict[int, int] = defaultdict(int)
    held = {(a, b): score for a, b, score in pairs}
    for a, b in held:
        parent[_root(parent, a)] = _root(parent, b)
        links[a] += 1
        links[b] += 1
    weakest: dict[int, float] = {}
    for (a, _), score in held.items():
        root = _root(parent, a)
        weakest[root] = min(weakest.get(root, np.inf), score)
    members: dict[int, list[int]] = defaultdict(list)
    for place in links:
        members[_root(parent, place)].append(place)
    groups = [(sorted(group, key=lambda p: (-links[p], p)), weakest[root]) for root, group in members.items()]
    return sorted(groups, key=lambda group: (-group[1], group[0]))


def _root(parent: dict[int, int], place: int) -> int:
    while parent.setdefault(place, place) != place:
        parent[place] = parent[parent[place]]
        place = parent[place]
    return place
