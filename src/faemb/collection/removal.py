"""Which images leave a collection: those that the user removes, and those whose files are deleted."""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import NamedTuple

from faemb.collection.catalogue import Catalogue
from faemb.collection.layout import Layout, typed
from faemb.collection.sources import is_below, is_gone
from faemb.errors import InputError
from faemb.features.folders import Found
from faemb.runtime.paths_and_urls import absolute
from faemb.runtime.storage import AnyPath

_DOUBTFUL_SHARE, _DOUBTFUL_IMAGES = 0.3, 5
"""If more than this share of the images is gone at once, and at least this many, their drive may be disconnected."""


class Departure(NamedTuple):
    """Stored names: images to remove, folders to forget, names to add to or drop from the list of removed images."""

    images: list[str]
    folders: list[str]
    kept_out: list[str]
    let_in: list[str]


def departure(layout: Layout, catalogue: Catalogue, places: Sequence[AnyPath]) -> Departure:
    """What removing images, or all images below folders, changes.

    A given image is skipped from now on when folders are searched. An image in a given folder is skipped if it would be
    found in another folder; otherwise it is not listed as removed.
    """
    folders = catalogue.folders()
    given = {layout.name_of(place): place for place in places}
    known = catalogue.recorded(given)
    inside = ([name] if name in known else _inside(layout, catalogue, folders, place) for name, place in given.items())
    images = list(dict.fromkeys(name for names in inside for name in names))
    searched = [layout.path_of(name) for name in folders if name not in given]
    found_again = _Below(layout, searched)
    before = dict.fromkeys(name for place in places for name in _below(layout, catalogue, ["removed"], place))
    return Departure(
        images,
        folders=[name for name in folders if name in given],
        kept_out=[name for name in images if name in given or found_again(name)],
        let_in=[name for name in before if not found_again(name)],
    )


def deleted(layout: Layout, catalogue: Catalogue, found: Found, folders: Sequence[Path]) -> list[str]:
    """Images of the collection below the folders whose files do not exist any more."""
    here = {layout.name_of(path) for path in found.images}
    missing = _Below(layout, folders).among(name for name in catalogue.seen() if name not in here)
    return [name for name in missing if is_gone(layout.path_of(name))]


def doubts(layout: Layout, images: Set[str], gone: Sequence[str], folders: Sequence[Path]) -> Iterator[str]:
    """A sentence for each reason to doubt that files which are gone were deleted; `images` are all known ones."""
    lost = images & set(gone)
    if not lost:
        return
    cure = (
        "; connect their drive, or, if they are deleted, remove them with: "
        f"faemb update {typed(layout.folder)} --allow-removing"
    )
    share = {folder: _Below(layout, [folder]) for folder in folders}
    for folder, below in share.items():
        count = len(below.among(lost))
        if count and not any(map(below, images - lost)):
            yield f"all images of the folder {folder} are gone ({count}); they were not removed{cure}"
    if len(lost) >= _DOUBTFUL_IMAGES and len(lost) > _DOUBTFUL_SHARE * len(images):
        places = ", ".join(str(folder) for folder, below in share.items() if any(map(below, lost)))
        yield f"{len(lost)} of {len(images)} images are gone from {places}; they were not removed{cure}"


def _inside(layout: Layout, catalogue: Catalogue, folders: Collection[str], place: AnyPath) -> list[str]:
    """The known image at a path, or those below it; an error if there are none."""
    names = _below(layout, catalogue, ["images", "unreadable"], place)
    if not names and layout.name_of(place) not in folders:
        raise InputError(f"{place} is not in the collection {layout.folder}")
    return names


def _below(layout: Layout, catalogue: Catalogue, tables: Iterable[str], place: AnyPath) -> list[str]:
    """Stored names of the file at a path, or of those below it.

    They begin with the name of the folder, so that no others are read; except below a folder that holds the collection
    itself, where all names are compared.
    """
    folder = os.fspath(absolute(place))
    if is_below(layout.folder, folder):
        return _Below(layout, [folder]).among(name for table in tables for name in catalogue.names_in(table))
    starts = sorted(layout.names_of(folder))
    return [name for table in tables for start in starts for name in catalogue.names_below(table, start)]


class _Below:
    """Whether the file with a stored name is, or lies in, one of these files or folders."""

    def __init__(self, layout: Layout, places: Iterable[AnyPath]) -> None:
        self._layout, self._places = layout, [os.fspath(place) for place in places]

    def __call__(self, name: str) -> bool:
        path = self._layout.path_of(name)
        return any(is_below(path, place) for place in self._places)

    def among(self, names: Iterable[str]) -> list[str]:
        return list(filter(self, names))
