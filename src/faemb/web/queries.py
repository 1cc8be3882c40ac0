"""Photographs that users have sent to search with, kept for a while, so that the address of a search stays valid.

They lie in a temporary folder of the server and are known by the hash of their content. Features that were extracted
for a question are kept too: further pages of its answer, and explanations, ask for them again.
"""

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from faemb.collection.queries import QueryFeatures

_MOST, _MOST_BYTES = 500, 2_000_000_000
"""Queries that are kept, and the bytes of their files; the one that was not used for longest goes first."""
_MOST_DESCRIBED = 16
"""A turned query has several megabytes of features."""


@dataclass(frozen=True)
class Query:
    id: str
    """Hash of its content."""
    name: str
    file: Path
    bytes: int
    features: QueryFeatures


@dataclass(frozen=True)
class Source:
    """Where the pixels of a query are."""

    name: str
    file: Path
    content: str
    """Hash of the photograph that was sent, or of the image when it was indexed."""
    is_indexed: bool
    """Whether it is a file of the collection, which may have another content by now."""


@dataclass(frozen=True, eq=False)
class Question:
    """What a search is for: an image of the collection, or one that was sent."""

    key: str
    source: Source
    features: QueryFeatures
    """In the box, if there is one."""
    size: tuple[int, int]
    box: tuple[float, ...] | None = None
    turned: bool = False
    """Whether the image is also turned by 90, 180 and 270 degrees."""


Described = tuple[str, tuple[float, ...] | None, bool]
"""Hash of a content, the box in it, and whether it was turned."""


class Queries:
    """Photographs that were sent, by content hash; not thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._kept: OrderedDict[str, Query] = OrderedDict()
        self._described: OrderedDict[Described, QueryFeatures] = OrderedDict()

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

    def described(self, what: Described) -> QueryFeatures | None:
        """Features that were extracted for one of the last questions."""
        features = self._described.get(what)
        if features is not None:
            self._described.move_to_end(what)
        return features

    def keep_described(self, what: Described, features: QueryFeatures) -> None:
        self._described[what] = features
        if len(self._described) > _MOST_DESCRIBED:
            self._described.popitem(last=False)

    def _bytes(self) -> int:
        return sum(query.bytes for query in self._kept.values())
