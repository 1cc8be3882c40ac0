"""Results: hits of a query, groups of duplicates, a summary of a collection."""

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path

from faemb.collection.catalogue import Entry
from faemb.collection.file_state import state_of
from faemb.rerank import POSSIBLE, SURE, Polygon, Verification, overlap

COPIES, SAME_THING, SIMILAR = "copies", "same thing", "similar"
"""Kinds of groups."""


def verdict(confidence: float | None) -> str:
    """The verdict for a confidence: same, maybe or unsure; empty if there is no confidence."""
    if confidence is None:
        return ""
    return "same" if confidence >= SURE else "maybe" if confidence >= POSSIBLE else "unsure"


def shown_by_both(
    found: Verification | None, query: tuple[int, int], result: tuple[int, int]
) -> tuple[Polygon, Polygon] | None:
    """Corners of the region that two images of these sizes show, in pixels of each; None if it is unknown."""
    if found is None or found.transform is None or not all((*query, *result)):
        return None
    regions = overlap(found.transform, query, result)
    return regions if len(regions[0]) else None


@dataclass(frozen=True)
class Hit:
    """An image of the collection that a search has found."""

    path: Path
    similarity: float | None
    """From -1 to 1; None for an image without local features, which cannot be compared."""
    itself: bool = False
    """The query was given as a path, and this is the same file."""
    copy_of_query: bool = False
    """Another file than the query, which had the same bytes when it was indexed: see `state`."""
    confidence: float | None = None
    """Probability that it shows the same thing as the query; None if it was not estimated."""
    verification: Verification | None = field(default=None, compare=False, repr=False)
    """How the local features agree; None if they were not compared: then `confidence` comes from the vectors alone, or
    from query expansion."""
    through: Path | None = None
    """Intermediate result of query expansion: it matches the query, and this image matches it."""
    entry: Entry | None = field(default=None, compare=False, repr=False)
    """The image's row in the catalogue at the time of the search."""

    @property
    def verdict(self) -> str:
        """same (confidence from 0.9), maybe (from 0.5) or unsure; empty if there is no confidence."""
        return verdict(self.confidence)

    @cached_property
    def state(self) -> str | None:
        """Whether its file, which is looked at when this is first asked for, is the one that was indexed.

        unchanged, changed or missing; None if that is unknown, as of a URL: no server is asked.
        """
        return None if self.entry is None else state_of(self.path, self.entry)


@dataclass(frozen=True)
class Answer:
    """The results of one query."""

    query: str
    features: int
    """Number of local features of the query; with none there are no hits."""
    hits: list[Hit]
    """By falling confidence; hits without a confidence last, by similarity."""
    note: str = ""
    """A sentence on what could not be verified, and its cure."""
    least_confidence: float | None = None
    threshold: float | None = None
    """Smallest confidence and similarity that a hit had to have; None: any."""
    size: tuple[int, int] = (0, 0)
    """Width and height of the query; (0, 0) if they are unknown."""

    def overlap(self, hit: Hit) -> tuple[Polygon, Polygon] | None:
        """Corners of the region that the query and a hit show, in pixels of each; None if it is unknown."""
        size = (0, 0) if hit.entry is None else (hit.entry.width, hit.entry.height)
        return shown_by_both(hit.verification, self.size, size)

    @property
    def nothing(self) -> str:
        """Why there is no hit but the query itself; empty if there are others."""
        if any(not hit.itself for hit in self.hits):
            return ""
        if not self.features:
            return "nothing found: the query has no local features; give a larger or more detailed picture"
        image = "other image" if self.hits else "image"
        limits = (("confidence", self.least_confidence), ("similarity", self.threshold))
        asked = " and ".join(f"a {what} of {least:g} or more" for what, least in limits if least is not None)
        return f"nothing found: {f'no {image} has {asked}' if asked else f'there is no {image} to compare'}"


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
    """Whether `date` is when the photograph was taken, by its EXIF data; otherwise when the file was last changed."""
    state: str | None = None
    """Whether its file is still the one that was indexed: unchanged, changed or missing; None if that is unknown."""


@dataclass(frozen=True)
class Group:
    """Images that belong together."""

    images: list[GroupedImage]
    """The one to keep first: with the most pixels, then the largest file, then the oldest; the others in this order.

    Images whose files are missing or have changed come after all others."""
    reason: str
    """Why the first is the one to keep."""
    smallest: float
    largest: float
    """Smallest and largest similarity of two images of the group."""
    all_pairs: bool = True
    """False for a very large group: the similarities are those of linked pairs, and other pairs were not compared."""
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
    """Groups of a collection, in order of their smallest similarity."""

    note: str = ""
    """A sentence on what could not be verified, and its cure."""


@dataclass(frozen=True)
class Info:
    """A summary of a collection."""

    images: int
    searchable: int
    """Number of images with vectors."""
    without_features: int
    """Number of images without local features, which are ranked last."""
    waiting: int
    """Images that are stored but not encoded yet: a process is working on them, or was interrupted."""
    unreadable: dict[str, str]
    """Files in its folders that cannot be used, with the reason."""
    folders: list[str]
    bytes: int
    encoder: str
    extractor: str
    dimension: int
    """Dimension of the vectors; 0 before the model is fitted."""
    index: str
    """The kind of index that was asked for."""
    index_in_use: str
    """The kind that searches use now: what `auto` has chosen."""
    excluded: dict[str, list[str]]
    """Folders of which files are left out, with the shell patterns."""
    learned_from: int | None
    """Number of images from which the model was learned; 0 if it was given, None if unknown."""
    relearning_is_due: bool
    """The collection has outgrown its model, or learning it again was interrupted; run `faemb relearn`."""
    removed: int
    """Number of images that were removed, and are skipped when folders are searched."""
    parts: int = 0
    """n if vectors of n x n parts of each image are stored too; 0 if not."""
    keeps_features: bool = True
    """Whether local features are stored, so that results can be verified."""
    store: str | None = None
    """Address of the server with the vectors; None if they lie in the collection's folder."""
    left_stores: list[str] = field(default_factory=list)
    """Addresses of stores that are not in use any more, and could not be deleted since their server does not answer."""
    is_being_changed: bool = False
    """Whether a process is changing it at present; otherwise `faemb update` encodes images that wait."""
    model_fault: str | None = None
    """Why the model cannot be used, with the cure; None if it can."""
