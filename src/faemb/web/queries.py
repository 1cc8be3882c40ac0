"""Photographs that users have sent to search with, kept for a while, so that the address of a search stays valid.

They lie in a temporary folder of the server and are known by the hash of their content.
"""

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from faemb.collection.queries import QueryFeatures

_MOST, _MOST_BYTES = 500, 2_000_000_000
"""Queries that are kept, and the bytes of their files; the one that was not used for longest goes first."""


@dataclass(frozen=True)
class Query:
    id: str
    """Hash of its content."""
    name: str
    file: Path
    bytes: int
    features: QueryFeatures


@dataclass(frozen=True, eq=False)
class Question:
    """What a search is for: an image of the collection, or one that was sent."""

    key: str
    name: str
    file: Path
    features: QueryFeatures
    """In the box, if there is one."""
    size: tuple[int, int]
    box: tuple[float, ...] | None = None


class Queries:
    """Photographs that were sent, by content hash; not thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._kept: OrderedDict[str, Query] = OrderedDict()

    def get(self, id: str) -> Query | None:
        query = self._kept.get(id)
        if query is not None:
            self._kept.move_to_end(id)
        return query

    def keep(self, query: Query) -> None:
        self._kept[query.id] = query
        self._kept.move_to_end(query.id)
        while len(self._kept) > 1 and (len(self._kept) > _MOST or self._bytes() > _MOST_BYTES):
            _, oldest = self._kept.popitem(last=False)
            oldest.file.unlink(missing_ok=True)

    def holds(self, file: Path) -> bool:
        return any(query.file == file for query in self._kept.values())

    def _bytes(self) -> int:
        return sum(query.bytes for query in self._kept.values())
