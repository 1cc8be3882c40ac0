"""Which images are meant: files as named, folders searched through."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from faemb.errors import InputError

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif", ".heic", ".heif", ".avif")
)


class Found(NamedTuple):
    images: list[Path]
    unreadable: list[str]
    """A sentence for each folder that could not be searched."""


def find_images(places: Iterable[Any]) -> Found:
    """Every named file, and every image in the named folders and below, by suffix, in order of name, each once.

    Hidden files and folders are passed over; links are followed, except back to a folder above.
    """
    images: dict[Path, None] = {}
    unreadable: list[str] = []
    for place in map(Path, places):
        if place.is_dir():
            images.update(dict.fromkeys(_below(place, frozenset(), unreadable)))
        elif place.exists():
            images[place] = None
        else:
            raise InputError(f"there is no file or folder {place}")
    return Found(list(images), unreadable)


def common_folder(places: Iterable[Any]) -> Path:
    """The folder that holds everything named: images get their names relative to it."""
    folders = [
        os.path.abspath(place if os.path.isdir(place) else os.path.dirname(os.path.abspath(place))) for place in places
    ]
    try:
        return Path(os.path.commonpath(folders))
    except ValueError:
        raise InputError("the images lie on several drives; give those of one drive at a time") from None


def _below(folder: Path, above: frozenset[tuple[int, int]], unreadable: list[str]) -> Iterator[Path]:
    try:
        status = folder.stat()
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        unreadable.append(f"the folder {folder} cannot be read: {error.strerror}")
        return
    here = (status.st_dev, status.st_ino)
    if here in above:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _below(Path(entry.path), above | {here}, unreadable)
        elif entry.is_file() and Path(entry.name).suffix.lower() in SUFFIXES:
            yield Path(entry.path)
