"""Searches in one state of a collection, without the images whose stored vectors are damaged.

A damaged vector can be nearer to a query than any other, or equal to no number. So the vectors of the images that a
search has found are compared with their checksums, and if some are damaged, the search is made again without them.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float, Int

from faemb.collection.backends import Backend
from faemb.collection.catalogue import Catalogue, Entry
from faemb.collection.checked_reads import KeptVectors
from faemb.collection.nearest import Neighbours
from faemb.collection.reading import View

_IMAGES = 4096
"""Number of images whose entries are read from the catalogue at once."""


class SoundSearch:
    """Searches in `view`; positions in the results are those of `view`.

    Vectors in a server are not fetched to be compared with their checksums.

    tolerant: damaged vectors are left out, and counted in `note`; otherwise they are an error
    """

    def __init__(self, view: View, catalogue: Catalogue, *, tolerant: bool) -> None:
        self.view, self._sound, self._catalogue = view, view, catalogue
        self._stored = KeptVectors(view, tolerant=tolerant)
        self._entries: dict[int, Entry] = {}
        """Entries of the images whose vectors were compared with their checksums."""

    @property
    def note(self) -> str:
        """How many images were left out, and the cure; empty if there were none."""
        return self._stored.note(len(self.view.slots) - len(self._sound.slots))

    def search(
        self,
        queries: Float[np.ndarray, "Q D"],
        count: int,
        kind: type[Backend] | None,
        *,
        parts: bool = False,
        least: float = -np.inf,
    ) -> Neighbours:
        """As `View.search`; images of a smaller similarity than `least` are not compared with their checksums."""
        while True:
            found = self._sound.search(queries, count, kind, parts=parts)
            damaged = self._damaged(found.rows[(found.rows >= 0) & (found.scores >= least)])
            if not damaged:
                return self._in_view(found)
            self._sound = self._sound.without(damaged)

    def entries(self, images: Sequence[int]) -> list[Entry]:
        """The entries of images that were found."""
        return [self._entries[image] for image in images]

    def _damaged(self, rows: Int[np.ndarray, " n"]) -> set[int]:
        """Numbers of the images at these positions whose vectors are damaged."""
        found = set(self._sound.ids[rows].tolist()) - self._entries.keys()
        entries = self._catalogue.entries_of(found)
        self._entries.update(entries)
        return self._stored.damaged(entries.values())

    def _in_view(self, found: Neighbours) -> Neighbours:
        if self._sound is self.view:
            return found
        position = self.view.position[self._sound.slots]
        return Neighbours(found.scores, np.where(found.rows >= 0, position[found.rows], -1))


def without_damaged(view: View, catalogue: Catalogue, *, tolerant: bool) -> tuple[View, str]:
    """The view without all images whose vectors are damaged, and a note on them."""
    stored = KeptVectors(view, tolerant=tolerant)
    damaged = {image for part in _parts(view.ids) for image in stored.damaged(catalogue.entries_of(part).values())}
    return view.without(damaged) if damaged else view, stored.note(len(damaged))


def _parts(images: Int[np.ndarray, " n"]) -> Iterator[list[int]]:
    for start in range(0, len(images), _IMAGES):
        yield images[start : start + _IMAGES].tolist()
