"""What is known of each benchmark before any of its files are read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from faemb.benchmark.datasets.contents import Contents
from faemb.benchmark.datasets.dataset import Query

STANDARD = "standard"
"""The protocol of benchmarks that have only one."""


@dataclass(frozen=True)
class GroundTruth:
    """What a reader makes of a folder."""

    images: tuple[Path, ...]
    protocols: Mapping[str, tuple[Query, ...]]
    note: str = ""
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    name: str
    title: str
    layout: str
    """What is expected where, for people."""
    measures: tuple[str, ...]
    query_stays: bool
    fits: Callable[[Contents], bool]
    read: Callable[[Contents], GroundTruth]
    images: tuple[int, ...] = ()
    """How many there are when it is complete; several where copies differ, none where anything goes."""
    queries: int = 0
    by_names: bool = False
    """Recognised by the names of images, and so only where no file of ground truth says more."""

    def is_complete(self, images: int, queries: int) -> bool | None:
        """None where nothing is published that it could be compared with."""
        return images in self.images and queries == self.queries if self.images else None
