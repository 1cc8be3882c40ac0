"""Where the vectors of a collection lie: in its own folder (embedded.py), or in a Milvus server (milvus.py).

A store has one table for each model that has encoded the collection. A row of a table holds all vectors of an image,
V x D numbers in float32, that of the whole image first. Rows are identified by slots, which the catalogue assigns: a
row is valid only if the catalogue names its slot, and a slot is not used again for another image of the same table. A
row that a killed process has left is never returned by a search; the next writer overwrites or removes it.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from faemb.collection.catalogue import Entry
from faemb.collection.description import Encoding
from faemb.collection.nearest import Neighbours, nearest


class RemoteVectors(ABC):
    """Vectors of all slots, fetched when they are indexed: in place of an array (total, D) or (total, V, D)."""

    shape: tuple[int, ...]
    indexes: Collection[str]
    """Kinds of index that can select candidates among these vectors."""

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def __getitem__(self, slots: Any) -> Float[np.ndarray, "..."]:
        """The rows of these slots, in their order; of one slot, its row."""

    @abstractmethod
    def nearest(
        self,
        queries: Float[np.ndarray, "Q D"],
        live: Int[np.ndarray, " n"],
        count: int,
        *,
        some: bool,
        index: str | None = None,
    ) -> Neighbours:
        """As `nearest.nearest`, by slot; `some`: `live` (ascending) is a subset of the slots in use.

        With the name of an index, only the candidates that it selects are compared.
        """


Vectors = np.ndarray | RemoteVectors


class Table(ABC):
    """The vectors of a collection's images by one model."""

    @abstractmethod
    def create(self) -> None:
        """Create the table if it does not exist."""

    @abstractmethod
    def mark(self) -> str:
        """The writer's mark; empty if there is none."""

    @abstractmethod
    def set_mark(self, mark: str) -> None:
        """Set the writer's mark, by which changes through another copy of the folder are detected."""

    @abstractmethod
    def write(self, first: int, rows: Float[np.ndarray, "n w"], images: Sequence[Entry]) -> list[int]:
        """Store the rows of these images at consecutive slots, durably; returns their checksums."""

    @abstractmethod
    def row(self, slot: int) -> Float[np.ndarray, " w"] | None:
        """What is stored at a slot; None if nothing is."""

    @abstractmethod
    def vectors(self, total: int) -> tuple[Vectors, Vectors | None]:
        """Vectors of whole images, and all vectors, of the first `total` slots: arrays, or `RemoteVectors`."""

    @abstractmethod
    def damaged(self, images: Iterable[Entry]) -> set[int]:
        """Ids of the images with a slot whose row is missing, or does not match its checksum."""

    @abstractmethod
    def count(self) -> int:
        """Number of rows, in use or not."""

    @abstractmethod
    def remove(self, slots: Sequence[int]) -> None:
        """Delete rows that the catalogue does not name any more."""

    @abstractmethod
    def tidy(self, live: Int[np.ndarray, " n"]) -> None:
        """Delete all rows but those of the slots in use."""


class Store(ABC):
    """All tables of a collection."""

    address: str | None = None
    """None: the collection's own folder."""
    identity: str = ""
    """Random id in both catalogue and store, compared before use."""

    @abstractmethod
    def table(self, number: int, model: Encoding) -> Table: ...

    @abstractmethod
    def require_free(self) -> None:
        """Raise an error if the store's name is in use; nothing is changed."""

    @abstractmethod
    def check_dimension(self, dimension: int) -> None:
        """Raise an error if vectors of this dimension cannot be stored."""

    @abstractmethod
    def drop(self, number: int) -> None:
        """Delete a table, if there is one."""

    @abstractmethod
    def sweep(self, used: Collection[int]) -> None:
        """Delete all tables but those in use."""

    @abstractmethod
    def publish(self, number: int) -> None:
        """Show other programs which table is in use."""

    @abstractmethod
    def close(self) -> None: ...


def nearest_in(
    vectors: Float[np.ndarray, "N *V D"] | RemoteVectors,
    queries: Float[np.ndarray, "Q D"],
    live: Int[np.ndarray, " n"],
    count: int,
    *,
    some: bool = False,
) -> Neighbours:
    """Exact nearest neighbours by slot, in any store; `some`: `live` is a subset of the slots in use."""
    if isinstance(vectors, RemoteVectors):
        return vectors.nearest(queries, live, count, some=some)
    return nearest(queries, vectors, live, count)
