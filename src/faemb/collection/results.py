"""What a collection answers: hits of a query, groups of duplicates, a summary of itself."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Hit:
    path: Path
    score: float | None
    """Similarity from -1 to 1; None for an image without local features, which nothing can be compared with."""


@dataclass(frozen=True)
class Answer:
    query: str
    features: int
    """Local features of the query; with none there are no hits."""
    hits: list[Hit]


@dataclass(frozen=True)
class Group:
    """Images that show the same, the most connected first, and the weakest similarity that holds them together."""

    paths: list[Path]
    score: float


@dataclass(frozen=True)
class Info:
    images: int
    searchable: int
    without_features: int
    waiting: int
    """Gathered and not yet encoded: a command was interrupted; run `faemb update`."""
    unreadable: dict[str, str]
    folders: list[str]
    bytes: int
    model: str
    extractor: str
    dimension: int
    short: int
    bits: int
    index: str
