"""Search for image files: given files, and those in given folders."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from faemb.errors import InputError
from faemb.runtime.storage import AnyPath

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif", ".heic", ".heif", ".avif")
)


class Kind(NamedTuple):
    """A kind of files, recognised by suffix."""

    name: str
    suffixes: frozenset[str]

    def includes(self, path: Path) -> bool:
        return path.suffix.lower() in self.suffixes


IMAGES = Kind("images", SUFFIXES)


class Found(NamedTuple):
    images: list[Path]
    unreadable: list[str]
    """One message per folder that could not be read."""


def find_images(places: Iterable[AnyPath], kind: Kind = IMAGES) -> Found:
    """Every given file, and every image in the given folders and their subfolders, each once; or files of another kind.

    Images in folders are recognised by suffix and sorted by name. Hidden files and folders are skipped; links are
    followed, except to a folder that contains them.
    """
    images: dict[str, Path] = {}
    unreadable: list[str] = []
    for place in map(Path, places):
        if place.is_dir():
            found = list(_below(place, kind.includes, frozenset(), unreadable))
        elif place.is_file():
            found = [place]
        elif place.exists():
            raise InputError(f"{place} is a pipe, a socket or a device; expected an image file or a folder")
        else:
            raise InputError(f"there is no file or folder {place}")
        for image in found:
            images.setdefault(os.path.abspath(image), image)
    return Found(list(images.values()), list(dict.fromkeys(unreadable)))


def find_some(places: Sequence[AnyPath], kind: Kind = IMAGES) -> Found:
    """The same as `find_images`; an error if there are no images."""
    if not places:
        raise InputError("no files or folders are given; expected images")
    found = find_images(places, kind)
    if not found.images:
        reasons = "".join(f"; {sentence}" for sentence in found.unreadable)
        raise InputError(f"there are no {kind.name} in {', '.join(map(str, places))}{reasons}")
    return found


def is_image(path: Path) -> bool:
    return IMAGES.includes(path)


def holds(place: AnyPath, kind: Kind) -> bool:
    """Whether a folder and its subfolders hold a file of this kind; of a file, whether it is one."""
    folder = Path(place)
    return any(_below(folder, kind.includes, frozenset(), [])) if folder.is_dir() else kind.includes(folder)


def files_below(folder: Path, wanted: Callable[[Path], bool] = is_image) -> Iterator[Path]:
    """Wanted files of a folder and its subfolders, as `find_images` finds them, one at a time: there may be millions.

    A folder that cannot be read raises an error after the files before it.
    """
    unreadable: list[str] = []
    for path in _below(folder, wanted, frozenset(), unreadable):
        if unreadable:
            break
        yield path
    if unreadable:
        raise InputError(f"{unreadable[0]}; change its permissions")


def common_folder(places: Iterable[AnyPath]) -> Path:
    """The folder that contains all these files and folders; images are named relative to it."""
    folders = [
        os.path.abspath(place if os.path.isdir(place) else os.path.dirname(os.path.abspath(place))) for place in places
    ]
    try:
        return Path(os.path.commonpath(folders))
    except ValueError:
        raise InputError("the images lie on several drives; give those of one drive at a time") from None


def _below(
    folder: Path, wanted: Callable[[Path], bool], above: frozenset[tuple[int, int]], unreadable: list[str]
) -> Iterator[Path]:
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
    for path in (Path(entry.path) for entry in entries if not entry.name.startswith(".")):
        if os.path.isdir(path):  # unlike an entry's methods it does not raise, as on a link to itself
            yield from _below(path, wanted, above | {here}, unreadable)
        elif wanted(path) and os.path.isfile(path):
            yield path
