"""Results: hits of a query, groups of duplicates, a summary of a collection."""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from faemb.rerank import POSSIBLE, SURE, Verification

COPIES, SAME_THING, SIMILAR = "copies", "same thing", "similar"
"""Kinds of groups."""


def verdict(confidence: float | None) -> str:
    """What is claimed at a confidence: same, maybe, unsure; empty if nothing was judged."""
    if confidence is None:
        return ""
    return "same" if confidence >= SURE else "maybe" if confidence >= POSSIBLE else "unsure"


@dataclass(frozen=True)
class Hit:
    path: Path
    score: float | None
    """Similarity from -1 to 1; None for an image without local features, which cannot be compared."""
    itself: bool = False
    """The query was given as a path, and this is the same file."""
    copy: bool = False
    """Another file than the query, with the same bytes."""
    confidence: float | None = None
    """Probability that it shows the same thing as the query; None if it was not judged."""
    verification: Verification | None = field(default=None, compare=False, repr=False)
    """How the local features agree; None if they were not compared: `confidence` is that of the vectors alone, or that
    of the way through another image."""
    through: Path | None = None
    """The result through which it was found: that shows the same thing as the query, and this the same as that."""

    @property
    def verdict(self) -> str:
        """same: it shows the same thing as the query; maybe; unsure: nothing is claimed; empty if it was not judged."""
        return verdict(self.confidence)


@dataclass(frozen=True)
class Answer:
    query: str
    features: int
    """Local features of the query; with none there are no hits."""
    hits: list[Hit]
    """The surest first; those that were not judged last, by similarity."""
    note: str = ""
    """A sentence on what could not be verified, and its cure."""


@dataclass(frozen=True)
class GroupedImage:
    """An image of a group, as it was when it was indexed."""

    path: Path
    width: int
    height: int
    bytes: int
    """Size of the file."""
    date: datetime
    """Local time, without a time zone."""
    taken: bool
    """Whether `date` is when the photograph was taken, by its EXIF data; else when the file was last changed."""


@dataclass(frozen=True)
class Group:
    """Images that belong together."""

    images: list[GroupedImage]
    """The one to keep first: with the most pixels, then the largest file, then the oldest; the others in this order."""
    reason: str
    """Why the first is the one to keep."""
    smallest: float
    largest: float
    """Smallest and largest similarity of two images of the group."""
    all_pairs: bool = True
    """False for a very large group: the similarities are those of linked images, and other pairs were not compared."""
    kind: str = COPIES
    """copies: made from one picture, such as resized, cropped, encoded again, with a caption or in other colours; same
    thing: also different photographs of one object or scene; similar: joined by the similarity of the vectors alone,
    because local features could not be compared."""

    @property
    def paths(self) -> list[Path]:
        return [image.path for image in self.images]

    @property
    def similarity(self) -> str:
        """The similarities as text."""
        low, high = f"{self.smallest:.3f}", f"{self.largest:.3f}"
        between = low if low == high else f"{low} to {high}"
        return (
            f"similarity {between}" if self.all_pairs else f"similarity {between} of linked pairs, others not compared"
        )


class Groups(list[Group]):
    """Groups of a collection, the surest first."""

    note: str = ""
    """A sentence on what could not be verified, and its cure."""


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
    excluded: dict[str, list[str]]
    """Folders that leave files out, with their shell patterns."""
    learned_from: int | None
    """Number of images from which the model has learned; 0 if it was given, None if that is not known."""
    relearning_is_due: bool
    """The collection has outgrown its model, or learning it again was interrupted; run `faemb relearn`."""
    removed: int
    """Images that were removed, and that `update` passes over."""
    parts: int = 0
    """Each image also has vectors of n x n parts; 0 if it has not."""
    keeps_features: bool = True
    """Local features are stored, so that answers can be verified."""
