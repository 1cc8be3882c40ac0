"""Folders and files that images are taken from."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from faemb.errors import InputError
from faemb.features.folders import Found, find_images


class Sources(NamedTuple):
    """Given folders, and the images found in them and among the given files."""

    folders: list[Path]
    found: Found


StrPath = str | os.PathLike[str]
Images = StrPath | Iterable[StrPath] | Sources
"""An image file or a folder, several of them, or what `images_in` found in them."""


def images_in(images: Images) -> Sources:
    """The images of files and folders; an error if there are none."""
    if isinstance(images, Sources):
        return images
    places = as_list(images)
    found = find_images(places)
    if not found.images:
        raise InputError(f"there are no images in {', '.join(map(str, places)) or 'nothing'}")
    return Sources([place for place in map(Path, places) if place.is_dir()], found)


def as_list(places: StrPath | Iterable[StrPath]) -> list[StrPath]:
    return [places] if isinstance(places, str | os.PathLike) else list(places)


def is_below(path: Path, root: str) -> bool:
    """Whether a path is `root` or lies below it."""
    return str(path) == root or str(path).startswith(root.rstrip(os.sep) + os.sep)


def is_gone(path: Path) -> bool:
    """Whether a file does not exist; false if that cannot be found out."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
