"""Which image of a group of duplicates to keep: the most pixels, then the largest file, then the oldest."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from faemb.collection.catalogue import Entry
from faemb.collection.results import GroupedImage
from faemb.features.image.dates import date_taken


def grouped_image(entry: Entry, path: Path) -> GroupedImage:
    taken = date_taken(path)
    date = taken or datetime.fromtimestamp(entry.changed / 1e9)
    return GroupedImage(path, entry.width, entry.height, entry.bytes, date, taken=taken is not None)


def by_worth(images: Sequence[GroupedImage]) -> tuple[list[GroupedImage], str]:
    """The images, the one to keep first, and the reason for it."""
    order = sorted(images, key=_worth)
    return order, _reason(*order[:2])


def _worth(image: GroupedImage) -> tuple[int, int, datetime, Path]:
    return -image.width * image.height, -image.bytes, image.date, image.path


def _reason(first: GroupedImage, second: GroupedImage) -> str:
    if first.width * first.height != second.width * second.height:
        return "most pixels"
    if first.bytes != second.bytes:
        return "same pixels, largest file"
    if first.date != second.date:
        return "same size, oldest"
    return "all the same, first by name"
