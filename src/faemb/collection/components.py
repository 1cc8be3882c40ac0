"""Connected components of links between positions."""

from collections import defaultdict
from collections.abc import Mapping
from typing import TypeVar

Value = TypeVar("Value", int, float)


def connected(links: Mapping[tuple[int, int], Value]) -> list[dict[tuple[int, int], Value]]:
    """The links of each connected component."""
    parent: dict[int, int] = {}
    for a, b in links:
        parent[root(parent, a)] = root(parent, b)
    components: dict[int, dict[tuple[int, int], Value]] = defaultdict(dict)
    for (a, b), value in links.items():
        components[root(parent, a)][a, b] = value
    return list(components.values())


def root(parent: dict[int, int], place: int) -> int:
    """The position that stands for the component of `place`, which is added to `parent` if it is new."""
    while parent.setdefault(place, place) != place:
        parent[place] = parent[parent[place]]
        place = parent[place]
    return place
