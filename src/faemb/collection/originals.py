"""Which image of a group of duplicates to keep: the most pixels, then the largest file, then the oldest."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from PIL import Image as Pillow

from faemb.collection.catalogue import Entry
from faemb.collection.results import GroupedImage
from faemb.features.image.silence import silence

_EXIF, _TAKEN, _DIGITISED = 0x8769, 0x9003, 0x9004
"""Tags of EXIF: the directory of the camera's data, and two dates in it."""


def grouped_image(entry: Entry, path: Path) -> GroupedImage:
    taken = date_taken(path)
    date = taken or datetime.fromtimestamp(entry.changed / 1e9)
    return GroupedImage(path, entry.width, entry.height, entry.bytes, date, taken=taken is not None)


def date_taken(path: str | os.PathLike[str]) -> datetime | None:
    """When a photograph was taken, by its EXIF data; None where there is none. No pixels are decoded."""
    try:
        with silence(), Pillow.open(path) as image:
            exif = Pillow.Exif()
            exif.load(image.info.get("exif", b""))
            camera = exif.get_ifd(_EXIF)
            return datetime.strptime(str(camera.get(_TAKEN) or camera[_DIGITISED]).strip("\0 "), "%Y:%m:%d %H:%M:%S")
    except Exception:  # damaged metadata raises errors of many kinds, and a missing date is no fault
        return None


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
