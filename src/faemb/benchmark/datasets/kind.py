"""Kinds of benchmarks: how each is recognised and read, and how large it is when complete."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from faemb.benchmark.datasets.contents import Contents
from faemb.benchmark.datasets.dataset import Query

STANDARD = "standard"
"""The protocol of benchmarks that have only one."""
COMPLETE = "complete"
"""First word of the note of a dataset of the published size."""


@dataclass(frozen=True)
class GroundTruth:
    """Images and queries read from a folder."""

    images: tuple[Path, ...]
    protocols: Mapping[str, tuple[Query, ...]]
    note: str = ""
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    name: str
    title: str
    layout: str
    """Expected files and their folders, as a sentence for users."""
    measures: tuple[str, ...]
    query_stays: bool
    fits: Callable[[Contents], bool]
    read: Callable[[Contents], GroundTruth]
    images: tuple[int, ...] = ()
    """Numbers of images of complete copies, which may differ; empty without a published size."""
    queries: int = 0
    distractors: int = 0
    """Number of distractors in published results."""
    by_names: bool = False
    """Whether the kind is recognised by the names of its images."""
    source: str = ""
    """Its authors, and the page from which it can be downloaded; empty for a user's own images."""

    def is_complete(self, images: int, queries: int) -> bool | None:
        """Whether the numbers are those of a complete copy; None without a published size."""
        return images in self.images and queries == self.queries if self.images else None

    def distractors_note(self, images: int) -> str:
        """Compare the number of distractors with that of published results; it may differ by one percent."""
        if not self.distractors:
            return ""
        same = abs(images - self.distractors) <= self.distractors / 100
        return f"{COMPLETE}: as many as published" if same else f"published results have {self.distractors:,}"
