"""Candidates of a search, judged by the local features that the collection keeps."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from faemb.collection.catalogue import Entry
from faemb.collection.kept import KeptFeatures
from faemb.collection.reading import View
from faemb.features import LocalFeatures
from faemb.rerank import Judge, Judgement


class Verifier:
    """Judges candidates in one state of a collection.

    tolerant: pass over features that are damaged, which is said in `note`; otherwise they are an error
    """

    def __init__(self, view: View, *, tolerant: bool) -> None:
        self._judge = Judge(view.unrelated, view.model.extractor.largest_turn)
        self._kept = KeptFeatures(view, tolerant=tolerant)

    def judge(self, query: LocalFeatures, entries: Sequence[Entry], similarities: Sequence[float]) -> list[Judgement]:
        self._kept.missing.clear()
        return self.judge_further(query, entries, similarities)

    def judge_further(
        self, query: LocalFeatures, entries: Sequence[Entry], similarities: Sequence[float]
    ) -> list[Judgement]:
        """The same for more candidates of a query: `note` tells of all of them."""
        return self._judge.judge(query, np.array(similarities), [partial(self.features, entry) for entry in entries])

    def features(self, entry: Entry) -> LocalFeatures | None:
        """The features of an image; None if they are not available."""
        return self._kept.load(entry)

    @property
    def note(self) -> str:
        """What could not be verified of the last query, with its cure; empty if there was nothing."""
        if self._judge.turn is None:
            return "features of this extractor have no geometry to verify: confidence is that of the vectors alone"
        if not self._kept.missing:
            return ""
        return (
            "candidates without a comparison have the confidence of the vectors alone: the local features of "
            f"{len(self._kept.missing)} of them {self._kept.fault}"
        )
