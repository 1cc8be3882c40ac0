"""Candidates of a search, judged by the local features that the collection keeps."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from faemb.collection.catalogue import Entry
from faemb.collection.hints import repair_command
from faemb.collection.reading import View
from faemb.collection.stored import stored_features
from faemb.errors import FormatError
from faemb.features import LocalFeatures
from faemb.rerank import Judge, Judgement


class Verifier:
    """Judges candidates in one state of a collection.

    keeps_features: whether the collection was made to keep local features
    tolerant:       pass over features that are damaged, which is said in `note`; otherwise they are an error
    """

    def __init__(self, view: View, *, keeps_features: bool, tolerant: bool) -> None:
        self._file = view.layout.features(view.generation)
        self._judge = Judge(view.unrelated, view.model.extractor.largest_turn)
        self._keeps_features, self._tolerant = keeps_features, tolerant
        self._missing: list[Entry] = []

    def judge(self, query: LocalFeatures, entries: Sequence[Entry], similarities: Sequence[float]) -> list[Judgement]:
        self._missing = []
        return self._judge.judge(query, np.array(similarities), [partial(self._load, entry) for entry in entries])

    @property
    def note(self) -> str:
        """What could not be verified in the last call, with its cure; empty if there was nothing."""
        if self._judge.turn is None:
            return "features of this extractor have no geometry to verify: confidence is that of the vectors alone"
        if not self._missing:
            return ""
        what = (
            f"{len(self._missing)} candidates were not verified: their confidence is that of the vectors alone, because"
        )
        if not self._keeps_features:
            return f"{what} local features are not kept; index the images into a new collection, without --no-features"
        return f"{what} their local features are damaged or lost; run: {repair_command(self._file)}"

    def _load(self, entry: Entry) -> LocalFeatures | None:
        if entry.offset is not None:
            try:
                return stored_features(self._file, entry)
            except FormatError:
                if not self._tolerant:
                    raise
        self._missing.append(entry)
        return None
