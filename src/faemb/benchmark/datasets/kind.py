"""Kinds of benchmarks: how each is recognised and read, and how large it is when complete."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from faemb.benchmark.datasets.contents import Contents
from faemb.benchmark.datasets.dataset import Query

STANDARD = "standard"
"""The protocol of benchmarks that have only one."""
COMPLETE = "complete"
"""How the note of a dataset begins that is as published."""


@dataclass(frozen=True)
class GroundTruth:
    """What a reader finds in a folder."""

    images: tuple[Path, ...]
    protocols: Mapping[str, tuple[Query, ...]]
    note: str = ""
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    name: str
    title: str
    layout: str
    """Which files are expected where, as a sentence for users."""
    measures: tuple[str, ...]
    query_stays: bool
    fits: Callable[[Contents], bool]
    read: Callable[[Contents], GroundTruth]
    images: tuple[int, ...] = ()
    """How many there are when it is complete: several numbers where copies differ, none where any number will do."""
    queries: int = 0
    distractors: int = 0
    """How many images the published results with distractors used."""
    by_names: bool = False
    """Recognised by the names of its images."""

    def is_complete(self, images: int, queries: int) -> bool | None:
        """None where there is no published size."""
        return images in self.images and queries == self.queries if self.images else None

    def distractors_note(self, images: int) -> str:
        """Whether these are as many distractors as in published results, within one in a hundred."""
        if not self.distractors:
            return ""
        same = abs(images - self.distractors) <= self.distractors / 100
        return f"{COMPLETE}: as many as published" if same else f"published results have {self.distractors:,}"
