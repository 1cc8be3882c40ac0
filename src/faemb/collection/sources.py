"""Folders and files that images are taken from, and what is still there of them."""

import os
from pathlib import Path
from typing import Any, NamedTuple

from faemb.errors import InputError
from faemb.features.folders import Found, find_images


class Sources(NamedTuple):
    """Folders and files to take images from, and what is there."""

    folders: list[Path]
    found: Found


def images_in(images: Any) -> Sources:
    """Look once, and before anything is made: there may be no images at all."""
    if isinstance(images, Sources):
        return images
    places = [images] if isinstance(images, str | os.PathLike) else list(images)
    found = find_images(places)
    if not found.images:
        raise InputError(f"there are no images in {', '.join(map(str, places)) or 'nothing'}")
    return Sources([place for place in map(Path, places) if place.is_dir()], found)


def is_below(path: Path, root: str) -> bool:
    """Whether a path is this one, or below it."""
    return str(path) == root or str(path).startswith(root.rstrip(os.sep) + os.sep)


def is_gone(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
