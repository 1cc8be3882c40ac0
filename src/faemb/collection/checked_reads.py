"""Stored local features and vectors of a collection, as far as they can be read and match their checksums."""

import zlib
from collections.abc import Iterable

import numpy as np

from faemb.collection.catalogue import Entry
from faemb.collection.layout import repair_command
from faemb.collection.reading import View
from faemb.collection.stored import stored_features
from faemb.collection.stores.store import RemoteVectors
from faemb.errors import FormatError
from faemb.features import LocalFeatures
from faemb.runtime.prefetch import expect


class KeptFeatures:
    """Reads the features of images in one state of a collection, in any thread.

    tolerant: damaged features are treated as missing; otherwise they are an error
    """

    def __init__(self, view: View, *, tolerant: bool) -> None:
        self._file = view.layout.features(view.generation)
        self._kept, self._tolerant = view.keeps_features, tolerant
        self.missing: set[int] = set()
        """Ids of the images whose features were requested and are missing."""

    def expect(self, entries: Iterable[Entry]) -> None:
        """Prefetch the features of these images."""
        expect(self._file, [(each.offset, each.length) for each in entries if each.offset is not None and each.length])

    def load(self, entry: Entry) -> LocalFeatures | None:
        """The features of an image; None if they are missing."""
        if entry.offset is not None:
            try:
                return stored_features(self._file, entry)
            except FormatError:
                if not self._tolerant:
                    raise
        self.missing.add(entry.id)
        return None

    @property
    def fault(self) -> str:
        """The end of a sentence: why features are missing, and the cure."""
        if not self._kept:
            return "are not kept; index the images into a new collection, without --no-features"
        return f"are damaged or lost; run: {repair_command(self._file)}"


class KeptVectors:
    """Compares vectors of images, in one state of a collection, with their checksums.

    Those in a server are not fetched once more for it.

    tolerant: damaged ones are reported; otherwise they are an error
    """

    def __init__(self, view: View, *, tolerant: bool) -> None:
        self._file = view.layout.vectors(view.generation)
        self._rows = None if isinstance(view.stored, RemoteVectors) else np.asarray(view.stored)
        self._tolerant = tolerant

    def damaged(self, entries: Iterable[Entry]) -> set[int]:
        """Numbers of the images whose vectors are damaged."""
        if self._rows is None:
            return set()
        placed = ((entry, entry.slot) for entry in entries if entry.slot is not None)
        found = {entry.id for entry, slot in placed if zlib.crc32(self._rows[slot]) != entry.vector_crc}
        if found and not self._tolerant:
            raise FormatError(f"{self._file} is damaged; run: {repair_command(self._file)}")
        return found

    def note(self, count: int) -> str:
        """A sentence on results that were left out; empty if there are none."""
        if not count:
            return ""
        which = "an image is" if count == 1 else f"{count} images are"
        return f"{which} left out, because the stored vector is damaged; run: {repair_command(self._file)}"
