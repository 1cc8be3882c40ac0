"""Results: hits of a query, groups of duplicates, a summary of a collection."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Hit:
    path: Path
    score: float | None
    """Similarity from -1 to 1; None for an image without local features, which cannot be compared."""
    itself: bool = False
    """The query was given as a path, and this is the same file."""
    copy: bool = False
    """Another file than the query, with the same bytes."""


@dataclass(frozen=True)
class Answer:
    query: str
    features: int
    """Local features of the query; with none there are no hits."""
    hits: list[Hit]


@dataclass(frozen=True)
class Group:
    """Images that show the same object or scene, those with most links first."""

    paths: list[Path]
    score: float
    """Smallest similarity of linked images."""


@dataclass(frozen=True)
class Info:
    images: int
    searchable: int
    without_features: int
    waiting: int
    """Images that are stored but not encoded yet, because a command was interrupted; run `faemb update`."""
    unreadable: dict[str, str]
    folders: list[str]
    bytes: int
    encoder: str
    extractor: str
    dimension: int
    """Length of the vectors; 0 before the model is fitted."""
    index: str
