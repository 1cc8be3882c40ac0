"""Search answers or groups of duplicates as one HTML page, with thumbnails of their images.

Thumbnails are JPEG data URIs. The page holds each once, however often it is shown. Those of hits and groups come from
where the caller says, such as `Collection.thumbnail`; that of a query is always made from its file.
"""

import base64
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from faemb.collection.results import Answer, Group, Hit
from faemb.collection.thumbnails import Thumbnail, make_thumbnail
from faemb.errors import FaembError
from faemb.features.feature_files import FEATURES
from faemb.features.region import Box, checked_box
from faemb.pages import percent
from faemb.pages.document import render
from faemb.pages.reasons import agreement, claim
from faemb.pages.side_by_side import SideBySide, side_by_side
from faemb.rerank import Verification

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
    hits: list["ShownHit"]
    note: str = ""
    """What could not be verified."""


@dataclass(frozen=True)
class ShownHit:
    picture: Picture
    hit: Hit
    first_unclaimed: bool = False
    """Whether nothing is claimed of it, but of the hits before it."""
    reasons: list[str] = field(default_factory=list)
    """Why it is a hit; none if it was not judged."""
    layout: SideBySide | None = None
    """Query and hit side by side; None if they were not verified, or are not shown."""

    @property
    def claim(self) -> str:
        """Verdict and confidence."""
        words = {"same": "same, ", "maybe": "maybe, "}.get(self.hit.verdict, "")
        return "" if self.hit.confidence is None else f"{words}{percent(self.hit.confidence)}"


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
    others = [_hit(hit, pictures.of(hit.path), query) for hit in answer.hits if not hit.itself]
    first = next((number for number, each in enumerate(others) if each.hit.verdict == "unsure"), None)
    if first is not None:
        others[first] = replace(others[first], first_unclaimed=True)
    return ShownAnswer(query, answer.features, itself, others, answer.note)


def _hit(hit: Hit, picture: Picture, query: Picture | None) -> ShownHit:
    if hit.confidence is None:
        return ShownHit(picture, hit)
    return ShownHit(
        picture,
        hit,
        reasons=[claim(hit.confidence), agreement(hit.verification)],
        layout=_layout(hit.verification, picture, query),
    )


def _layout(found: Verification | None, picture: Picture, query: Picture | None) -> SideBySide | None:
    """Lines between the thumbnails that the page holds; none where coordinates may be those of another picture."""
    if found is None or query is None or not found.agreeing.any():
        return None
    if any(each.fault or FEATURES.includes(each.path) for each in (query, picture)):
        return None
    return side_by_side((query.width, query.height), (picture.width, picture.height), found)


def _with_box(picture: Picture, box: Sequence[float] | None) -> Picture:
    if box is None or picture.fault or FEATURES.includes(picture.path):  # the image beside features may be smaller
        return picture
    return replace(picture, box=checked_box(box, (picture.width, picture.height)))
