"""Search answers or groups of duplicates as one HTML page, with thumbnails of their images.

Thumbnails are JPEG data URIs. The page holds each once, however often it is shown. Those of hits and groups come from
where the caller says, such as `Collection.thumbnail`; that of a query is always made from its file.
"""

import base64
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from faemb.collection.results import Answer, Group, Hit
from faemb.collection.thumbnails import Thumbnail, make_thumbnail
from faemb.errors import FaembError
from faemb.features.feature_files import FEATURES
from faemb.features.region import Box, checked_box
from faemb.pages.document import render

MakeThumbnail = Callable[[Path], Thumbnail]
"""Gives the thumbnail of an image, or raises a FaembError that says why there is none."""

_NOT_FILES = ("", "the array", "the image")
"""Names of queries that were given as pixels or as features."""


@dataclass(frozen=True)
class Picture:
    """An image file as templates show it."""

    path: Path
    id: str = ""
    width: int = 0
    height: int = 0
    """Width and height of the image in its file, not of the thumbnail."""
    data: str = ""
    """The thumbnail as a data URI; empty if the page already holds it under the same id."""
    box: Box | None = None
    """The searched region, in pixels of the image."""
    fault: str = ""
    """Why there is no thumbnail."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def folder(self) -> str:
        return self.path.parent.name


@dataclass(frozen=True)
class ShownAnswer:
    picture: Picture | None
    """The query; None if it is not a file."""
    features: int
    itself: Hit | None
    """The hit that is the query's own file, which is not shown among its answers."""
    hits: list[tuple[Picture, Hit]]


@dataclass(frozen=True)
class ShownGroup:
    group: Group
    pictures: list[Picture]


def answers_page(
    answers: Sequence[Answer],
    *,
    title: str,
    box: Sequence[float] | None = None,
    note: str = "",
    thumbnail: MakeThumbnail = make_thumbnail,
) -> str:
    """A page of queries with their hits; `box` is the region x1, y1, x2, y2 of each query that was searched for."""
    pictures = _Pictures(thumbnail)
    rows = (_answer(answer, box, pictures) for answer in answers)
    return render("answers.html", title=title, note=note, count=len(answers), answers=rows, boxed=box is not None)


def groups_page(
    groups: Sequence[Group], *, title: str, note: str = "", thumbnail: MakeThumbnail = make_thumbnail
) -> str:
    """A page of groups of images that show the same object or scene."""
    pictures = _Pictures(thumbnail)
    rows = (ShownGroup(group, [pictures.of(path) for path in group.paths]) for group in groups)
    return render("groups.html", title=title, note=note, count=len(groups), groups=rows)


class _Pictures:
    """Makes the pictures of one page; remembers which thumbnails the page holds, but not their pixels."""

    def __init__(self, thumbnail: MakeThumbnail) -> None:
        self._thumbnail = thumbnail
        self._held: dict[Path, Picture] = {}

    def of(self, file: str | os.PathLike[str], thumbnail: MakeThumbnail | None = None) -> Picture:
        """A picture, with this way to its thumbnail instead of the page's own."""
        path = Path(os.path.abspath(file))
        if path in self._held:
            return self._held[path]
        try:
            made = (thumbnail or self._thumbnail)(path)
        except FaembError as error:
            return Picture(path, fault=str(error).replace(str(path), path.name))
        picture = self._held[path] = Picture(path, f"p{len(self._held)}", made.width, made.height)
        return replace(picture, data="data:image/jpeg;base64," + base64.b64encode(made.jpeg).decode("ascii"))


def _answer(answer: Answer, box: Sequence[float] | None, pictures: _Pictures) -> ShownAnswer:
    query = None if answer.query in _NOT_FILES else _with_box(pictures.of(answer.query, make_thumbnail), box)
    itself = next((hit for hit in answer.hits if hit.itself), None)
    others = [(pictures.of(hit.path), hit) for hit in answer.hits if not hit.itself]
    return ShownAnswer(query, answer.features, itself, others)


def _with_box(picture: Picture, box: Sequence[float] | None) -> Picture:
    if box is None or picture.fault or FEATURES.includes(picture.path):  # the image beside features may be smaller
        return picture
    return replace(picture, box=checked_box(box, (picture.width, picture.height)))
