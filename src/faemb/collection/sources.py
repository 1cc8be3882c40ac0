"""Folders and files from which images are read, or local features that were extracted before."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from faemb.errors import InputError, RemoteError
from faemb.features.feature_files import FEATURES, require_one_image
from faemb.features.folders import IMAGES, Found, Kind, as_places, find_some, holds
from faemb.runtime.paths_and_urls import Url
from faemb.runtime.storage import AnyPath


class Sources(NamedTuple):
    """Given folders, given files, and the images found in them."""

    folders: list[Path]
    files: list[Path]
    found: Found
    exclude: tuple[str, ...] = ()
    """Shell patterns of what was left out of the folders."""
    kind: Kind = IMAGES
    """What was found: images, or files of local features."""


Images = AnyPath | Iterable[AnyPath] | Sources
"""An image file or a folder, several of them, or the result of `images_in`."""


def images_in(images: Images, exclude: Sequence[str] = (), kind: Kind | None = None) -> Sources:
    """The images of files and folders, or the files of local features; an error if there are none.

    `exclude` are shell patterns of names, and of paths in the folders, that are left out. A collection remembers them
    with the folders. With `kind`, only files of this kind are taken, and others are refused. Otherwise it is
    recognised: folders without any image are searched for features.
    """
    if isinstance(images, Sources):
        if kind not in (None, images.kind):
            raise InputError(_unfit(images.found.images[0], images.kind))
        return images
    places = as_places(as_list(images))
    chosen = kind or _kind_in(places)
    _require_kind(places, chosen)
    found = find_some(places, exclude, chosen)
    files, folders = _divided(places)
    return Sources(folders, files, found, tuple(exclude), chosen)


def _kind_in(places: Sequence[Path]) -> Kind:
    files, folders = _divided([each for each in places if not isinstance(each, Url)])
    stored = [file for file in files if FEATURES.includes(file)]
    if stored and len(stored) < len(files):
        other = next(file for file in files if file not in stored)
        raise InputError(f"{stored[0]} holds local features and {other} does not; give images or features, not both")
    if stored or (not files and not any(holds(folder, IMAGES) for folder in folders)):
        return FEATURES if stored or any(holds(folder, FEATURES) for folder in folders) else IMAGES
    return IMAGES


def _require_kind(places: Sequence[Path], kind: Kind) -> None:
    """Refuse given files of the other kind, and folders of nothing else."""
    files, folders = _divided(places)
    other = IMAGES if kind is FEATURES else FEATURES
    for file in files:
        require_one_image(file)
        if isinstance(file, Url) and (kind is FEATURES or FEATURES.includes(file)):
            raise InputError(f"{file} is not a local file; local features are read from local files: download it first")
        if FEATURES.includes(file) is not (kind is FEATURES):  # images are recognised by content, whatever their suffix
            raise InputError(_unfit(file, other))
    for folder in folders:
        if isinstance(folder, Url):
            if kind is FEATURES:
                raise InputError(f"{folder} is not a local folder; local features are read from local files")
        elif not holds(folder, kind) and holds(folder, other):
            raise InputError(_unfit(folder, other))


def _unfit(given: Path, kind: Kind) -> str:
    """The sentence on a place with files of this kind, where the other is expected."""
    if kind is FEATURES:
        return f"{given} holds local features where images are expected; a model takes either images or features"
    known = ", ".join(sorted(FEATURES.suffixes))
    return f"{given} is given where local features ({known}) are expected; a model takes either images or features"


def _divided(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Files, and folders; what does not exist is neither."""
    return [path for path in paths if path.is_file()], [path for path in paths if path.is_dir()]


def as_list(places: AnyPath | Iterable[AnyPath]) -> list[AnyPath]:
    return [places] if isinstance(places, str | os.PathLike) else list(places)


def is_below(path: Path, root: str) -> bool:
    """Whether a path is `root` or lies below it."""
    return str(path) == root or str(path).startswith(root.rstrip(os.sep) + os.sep)


def is_gone(path: Path) -> bool:
    """Whether a file certainly does not exist; false if its folder cannot be read, or its server not be reached."""
    try:
        path.stat()
    except (OSError, RemoteError) as error:
        return isinstance(error, FileNotFoundError | NotADirectoryError)
    return False


def is_there(path: Path) -> bool:
    """Whether a file certainly exists; false if its folder cannot be read, or its server not be reached."""
    try:
        return path.is_file()
    except (OSError, RemoteError):
        return False
