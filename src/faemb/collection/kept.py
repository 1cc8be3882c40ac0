"""Local features that a collection keeps, as far as they can be read."""

from faemb.collection.catalogue import Entry
from faemb.collection.hints import repair_command
from faemb.collection.reading import View
from faemb.collection.stored import stored_features
from faemb.errors import FormatError
from faemb.features import LocalFeatures


class KeptFeatures:
    """Reads the features of images in one state of a collection, in any thread.

    tolerant: damaged features are missing, as those that are not kept are; otherwise they are an error
    """

    def __init__(self, view: View, *, tolerant: bool) -> None:
        self._file = view.layout.features(view.generation)
        self._kept, self._tolerant = view.keeps_features, tolerant
        self.missing: set[int] = set()
        """Images whose features were asked for and are missing."""

    def load(self, entry: Entry) -> LocalFeatures | None:
        """None if they are missing."""
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
        """Why features are missing, and the cure: the end of a sentence about them."""
        if not self._kept:
            return "are not kept; index the images into a new collection, without --no-features"
        return f"are damaged or lost; run: {repair_command(self._file)}"
