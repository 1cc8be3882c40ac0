"""Which links between copies are believed: those that no comparison with more matches contradicts.

A small part of one photograph may pass for a copy of the next photograph of a burst: its few matches do not show that
parts of the picture have moved. The whole photographs, with more matches, do. So links join groups in order of their
matches, and a link does not join two groups if there are two images, one of each, that more matches show to be two
photographs. Links with many matches are believed in any case.
"""

from collections.abc import Mapping

from faemb.collection.components import connected, root

Counts = Mapping[tuple[int, int], int]
"""Numbers of matches of pairs of positions."""
MANY = 150
"""So many matches show by themselves whether parts of the picture have moved."""


def believed(copies: Counts, photographs: Counts) -> set[tuple[int, int]]:
    """The links between copies that are believed; `photographs` are pairs of different photographs."""
    components = connected(copies)
    component_of = {place: number for number, links in enumerate(components) for pair in links for place in pair}
    contradictions: list[dict[tuple[int, int], int]] = [{} for _ in components]
    for (a, b), matches in photographs.items():
        if a in component_of and component_of[a] == component_of.get(b):
            contradictions[component_of[a]][a, b] = matches
    return {
        pair for links, against in zip(components, contradictions, strict=True) for pair in _believed(links, against)
    }


def _believed(copies: Counts, photographs: Counts) -> list[tuple[int, int]]:
    parent: dict[int, int] = {}
    kept = []
    for pair in sorted(copies, key=lambda pair: (-copies[pair], pair)):
        groups = {root(parent, place) for place in pair}
        against = (
            matches
            for other, matches in photographs.items()
            if matches > copies[pair] and {root(parent, place) for place in other} == groups
        )
        if copies[pair] < MANY and len(groups) == 2 and any(against):
            continue
        kept.append(pair)
        parent[root(parent, pair[0])] = root(parent, pair[1])
    return kept
