"""Folders and files from which images are read."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from faemb.features.folders import Found, find_some
from faemb.runtime.storage import AnyPath


class Sources(NamedTuple):
    """Given folders, and the images found in them and among the given files."""

    folders: list[Path]
    found: Found
    exclude: tuple[str, ...] = ()
    """Shell patterns of what was left out of the folders."""


Images = AnyPath | Iterable[AnyPath] | Sources
"""An image file or a folder, several of them, or the result of `images_in`."""


def images_in(images: Images, exclude: Sequence[str] = ()) -> Sources:
    """The images of files and folders; an error if there are none.

    `exclude` are shell patterns of names, and of paths in the folders, that are left out. A collection remembers them
    with the folders.
    """
    if isinstance(images, Sources):
        return images
    places = as_list(images)
    found = find_some(places, exclude)
    return Sources([place for place in map(Path, places) if place.is_dir()], found, tuple(exclude))


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
