"""Search answers or groups of duplicates as one HTML page, with thumbnails of their images.

Thumbnails are JPEG data URIs. The page contains each only once, however often it is shown. Those of hits and groups are
made by a function of the caller, such as `Collection.thumbnail`; that of a query is always made from its file.
"""

import base64
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from faemb.collection.file_state import in_words, is_astray
from faemb.collection.results import Answer, Group, GroupedImage, Hit
from faemb.collection.thumbnails import Thumbnail, make_thumbnail
from faemb.errors import FaembError
from faemb.features.feature_files import FEATURES
from faemb.features.region import Box, checked_box
from faemb.pages import percent
from faemb.pages.document import render
from faemb.pages.reasons import agreement, claim
from faemb.pages.side_by_side import SideBySide, side_by_side
from faemb.rerank import Verification
from faemb.runtime.paths_and_urls import absolute

MakeThumbnail = Callable[[Path], Thumbnail]
"""Function that returns the thumbnail of an image, or raises a FaembError that states why there is none."""

_NOT_FILES = ("", "the array", "the image")
"""Names of queries that were given as pixels or as features."""


@dataclass(frozen=True)
class Picture:
    """An image file as templates show it."""

    path: Path
    id: str = ""
    width: int = 0
    height: int = 0
    """Width and height of the image file, not of the thumbnail."""
    data: str = ""
    """The thumbnail as a data URI; empty if the page already holds it under the same id."""
    box: Box | None = None
    """The searched region, in pixels of the image."""
    fault: str = ""
    """Why there is no thumbnail."""
    is_linked: bool = True
    """Whether to link to the file: not if it is missing, or is now another picture."""

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
    """The hit that is the query's own file, which is not shown among the hits."""
    hits: list["ShownHit"]
    note: str = ""
    """Note on results that could not be verified."""
    nothing: str = ""
    """Why there are no hits."""


@dataclass(frozen=True)
class ShownHit:
    picture: Picture
    hit: Hit
    first_unconfirmed: bool = False
    """Whether it is the first hit with the verdict "unsure"."""
    reasons: list[str] = field(default_factory=list)
    """Sentences on why it is a hit; empty if it has no verdict."""
    layout: SideBySide | None = None
    """Layout of query and hit side by side; None if they were not verified, or have no thumbnails."""

    @property
    def claim(self) -> str:
        """Verdict and confidence."""
        words = {"same": "same, ", "maybe": "maybe, "}.get(self.hit.verdict, "")
        return "" if self.hit.confidence is None else f"{words}{percent(self.hit.confidence)}"

    @property
    def mark(self) -> str:
        """How the image was found, or that it is a copy of the query; empty for other results."""
        if self.hit.through is not None and self.hit.verdict != "unsure":
            return f"found through {self.hit.through.name}"
        return "copy of the query" if self.hit.copy_of_query and not is_astray(self.hit.state) else ""

    @property
    def state(self) -> str:
        """How its file differs from the one that was indexed, in words."""
        return in_words(self.hit.state)


@dataclass(frozen=True)
class ShownGroup:
    group: Group
    pictures: list[Picture]

    @property
    def states(self) -> list[str]:
        """How the file of each picture differs from the one that was indexed, in words."""
        return [in_words(image.state) for image in self.group.images]


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
    rows = (ShownGroup(group, [_of_result(image, pictures) for image in group.images]) for group in groups)
    return render("groups.html", title=title, note=note, count=len(groups), groups=rows)


class _Pictures:
    """Makes the pictures of one page; keeps track of the thumbnails that the page contains, but not of their pixels."""

    def __init__(self, thumbnail: MakeThumbnail) -> None:
        self._thumbnail = thumbnail
        self._held: dict[Path, Picture] = {}

    def of(self, file: str | os.PathLike[str], thumbnail: MakeThumbnail | None = None) -> Picture:
        """The picture of a file; `thumbnail` replaces the function of the page."""
        path = absolute(file)
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
    others = [_hit(hit, _of_result(hit, pictures), query, answer.note) for hit in answer.hits if not hit.itself]
    first = next((number for number, each in enumerate(others) if each.hit.verdict == "unsure"), None)
    if first is not None:
        others[first] = replace(others[first], first_unconfirmed=True)
    return ShownAnswer(query, answer.features, itself, others, answer.note, answer.nothing)


def _of_result(result: Hit | GroupedImage, pictures: _Pictures) -> Picture:
    return replace(pictures.of(result.path), is_linked=not is_astray(result.state))


def _hit(hit: Hit, picture: Picture, query: Picture | None, note: str) -> ShownHit:
    if hit.confidence is None:
        return ShownHit(picture, hit)
    return ShownHit(
        picture,
        hit,
        reasons=[claim(hit.confidence), *_ways(hit, note)],
        layout=_layout(hit.verification, picture, query),
    )


def _ways(hit: Hit, note: str) -> Iterator[str]:
    """How it was found, in words; of a hit that was not compared, with the note that says why."""
    if hit.through is not None:
        yield f"it shows the same thing as {hit.through.name}, which shows the same thing as the query"
    if hit.through is None or hit.verification is not None:
        yield agreement(hit.verification)
        if hit.verification is None and note:
            yield note


def _layout(found: Verification | None, picture: Picture, query: Picture | None) -> SideBySide | None:
    """The layout with lines between matches; None for files of features, whose image may have other coordinates."""
    if found is None or query is None or not found.agreeing.any():
        return None
    if any(each.fault or FEATURES.includes(each.path) for each in (query, picture)):
        return None
    return side_by_side((query.width, query.height), (picture.width, picture.height), found)


def _with_box(picture: Picture, box: Sequence[float] | None) -> Picture:
    if box is None or picture.fault or FEATURES.includes(picture.path):  # the image beside features may be smaller
        return picture
    return replace(picture, box=checked_box(box, (picture.width, picture.height)))
