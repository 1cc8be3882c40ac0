"""Which image of a group of duplicates to keep: the most pixels, then the largest file, then the oldest.

A file that is missing, or is another one than was indexed, comes after those that are there: it cannot be kept.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from faemb.collection.catalogue import Entry
from faemb.collection.file_state import CHANGED, is_astray, state_of
from faemb.collection.results import GroupedImage
from faemb.features.image.dates import date_taken


def grouped_image(entry: Entry, path: Path) -> GroupedImage:
    state = state_of(path, entry)
    taken = None if state == CHANGED else date_taken(path)
    date = taken or datetime.fromtimestamp(entry.changed / 1e9)
    return GroupedImage(path, entry.width, entry.height, entry.bytes, date, taken is not None, state)


def by_worth(images: Sequence[GroupedImage]) -> tuple[list[GroupedImage], str]:
    """The images, the one to keep first, and the reason for it."""
    order = sorted(images, key=_worth)
    return order, _reason(*order[:2])


def _worth(image: GroupedImage) -> tuple[bool, int, int, datetime, Path]:
    return is_astray(image.state), -image.width * image.height, -image.bytes, image.date, image.path


def _reason(first: GroupedImage, second: GroupedImage) -> str:
    if is_astray(second.state) and not is_astray(first.state):
        return "the only one that is there as it was indexed"
    if first.width * first.height != second.width * second.height:
        return "most pixels"
    if first.bytes != second.bytes:
        return "same pixels, largest file"
    if first.date != second.date:
        return "same size, oldest"
    return "all the same, first by name"
