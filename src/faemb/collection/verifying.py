"""Candidates of a search, judged by the local features that the collection keeps."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from faemb.collection.catalogue import Entry
from faemb.collection.checked_reads import KeptFeatures
from faemb.collection.reading import View
from faemb.features import LocalFeatures
from faemb.rerank import Judge, Judgement, Unrelated


class Verifier:
    """Judges candidates of one query in one state of a collection.

    unrelated: similarity of unrelated images, compared as the query is with its candidates
    tolerant:  skip damaged features and report them in `note`; otherwise they are an error
    """

    def __init__(self, view: View, unrelated: Unrelated, *, tolerant: bool) -> None:
        turn = view.model.extractor.largest_turn
        self._judge = Judge(unrelated, turn, view.model.confidence, keeps=view.keeps_features)
        self._kept = KeptFeatures(view, tolerant=tolerant)
        self._uncompared = 0

    def judge(
        self,
        query: LocalFeatures,
        entries: Sequence[Entry],
        similarities: Sequence[float],
        turned: Sequence[LocalFeatures] = (),
    ) -> list[Judgement]:
        """A judgement of each candidate; `turned` as for `Judge`."""
        self._kept.expect(entries)
        candidates = [partial(self.features, entry) for entry in entries]
        judged = self._judge.judge(query, np.array(similarities), candidates, turned)
        self._uncompared += sum(judgement.verification is None for judgement in judged)
        return judged

    def features(self, entry: Entry) -> LocalFeatures | None:
        """The features of an image; None if they are not available."""
        return self._kept.load(entry)

    @property
    def note(self) -> str:
        """What could not be verified, with its cure; empty if there was nothing."""
        if self._judge.turn is None:
            return "features of this extractor have no geometry to verify: confidence is that of the vectors alone"
        if not self._kept.missing:
            return self._without_geometry
        return (
            "candidates without a comparison have the confidence of the vectors alone: the local features of "
            f"{len(self._kept.missing)} of them {self._kept.fault}"
        )

    @property
    def _without_geometry(self) -> str:
        if not self._uncompared:
            return ""
        return (
            "descriptors without geometry cannot be compared: the confidence of "
            f"{self._uncompared} {'candidate' if self._uncompared == 1 else 'candidates'} is that of the vectors alone"
        )
