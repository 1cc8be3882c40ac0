"""Folders and files from which images are read."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from faemb.features.folders import Found, find_some
from faemb.runtime.storage import AnyPath


class Sources(NamedTuple):
    """Given folders, given files, and the images found in them."""

    folders: list[Path]
    files: list[Path]
    found: Found


Images = AnyPath | Iterable[AnyPath] | Sources
"""An image file or a folder, several of them, or the result of `images_in`."""


def images_in(images: Images) -> Sources:
    """The images of files and folders; an error if there are none."""
    if isinstance(images, Sources):
        return images
    places = as_list(images)
    found = find_some(places)
    are_folders = {place: place.is_dir() for place in map(Path, places)}
    folders, files = ([place for place, is_one in are_folders.items() if is_one is wanted] for wanted in (True, False))
    return Sources(folders, files, found)


def as_list(places: AnyPath | Iterable[AnyPath]) -> list[AnyPath]:
    return [places] if isinstance(places, str | os.PathLike) else list(places)


def is_below(path: Path, root: str) -> bool:
    """Whether a path is `root` or lies below it."""
    return str(path) == root or str(path).startswith(root.rstrip(os.sep) + os.sep)


def is_gone(path: Path) -> bool:
    """Whether a file certainly does not exist; false if its folder cannot be read."""
    try:
        path.stat()
    except OSError as error:
        return isinstance(error, FileNotFoundError | NotADirectoryError)
    return False
