"""Which images leave a collection: those that are taken out, and those whose files are gone."""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import NamedTuple

from faemb.collection.catalogue import Catalogue
from faemb.collection.hints import typed
from faemb.collection.layout import Layout
from faemb.collection.sources import is_below, is_gone
from faemb.errors import InputError
from faemb.features.folders import Found
from faemb.runtime.storage import AnyPath

_DOUBTFUL_SHARE, _DOUBTFUL_IMAGES = 0.3, 5
"""If more than this share of the images is gone at once, and at least this many, their drive may be disconnected."""


class Departure(NamedTuple):
    """Stored names: images to remove, folders to forget, and a change of the images that folders do not bring back."""

    images: list[str]
    folders: list[str]
    kept_out: list[str]
    let_in: list[str]


def departure(layout: Layout, catalogue: Catalogue, places: Sequence[AnyPath]) -> Departure:
    """Take out images, or all images below folders.

    An image that is given is kept out of every folder. One in a folder that is given is kept out if it would be found
    in another folder; if not, nothing about it is remembered.
    """
    known, folders = catalogue.seen(), catalogue.folders()
    images = list(dict.fromkeys(name for place in places for name in _inside(layout, known, folders, place)))
    given = dict.fromkeys(map(layout.name_of, places))
    searched = [layout.path_of(name) for name in folders if name not in given]
    found_again = _Below(layout, searched)
    before = _Below(layout, map(os.path.abspath, places)).among(catalogue.removed())
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


def _inside(layout: Layout, known: Collection[str], folders: Collection[str], place: AnyPath) -> list[str]:
    """The image at a place, or the known ones below it."""
    if layout.name_of(place) in known:
        return [layout.name_of(place)]
    names = _Below(layout, [os.path.abspath(place)]).among(known)
    if not names and layout.name_of(place) not in folders:
        raise InputError(f"{place} is not in the collection {layout.folder}")
    return names


class _Below:
    """Whether the file with a stored name is, or lies in, one of these places."""

    def __init__(self, layout: Layout, places: Iterable[AnyPath]) -> None:
        self._layout, self._places = layout, [os.fspath(place) for place in places]

    def __call__(self, name: str) -> bool:
        path = self._layout.path_of(name)
        return any(is_below(path, place) for place in self._places)

    def among(self, names: Iterable[str]) -> list[str]:
        return list(filter(self, names))
