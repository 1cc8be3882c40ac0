"""Two images side by side, equally high, with lines between regions that match and the outline of what both show."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from faemb.rerank import Verification, overlap

HEIGHT = 1000
"""Of both images in units of the layout: coordinates are whole numbers in pages."""
MOST_LINES = 60
"""Matches that are drawn; more of them would hide the images."""
COLOURS = ("#ffb000", "#ff7a2b", "#ff4f9a", "#b58cff", "#6aa5ff", "#2fd3b0")
"""Of the lines, from the top of the first image to its bottom: colour-blind readers can tell neighbours apart."""
_GAP = 24

Size = tuple[float, float]


@dataclass(frozen=True)
class Place:
    """Where an image lies, and how its pixels are enlarged."""

    left: int
    width: int
    across: float
    down: float

    def of(self, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
        """Points of the image, whose pixel centres have whole coordinates, in units of the layout."""
        return (points + 0.5) * (self.across, self.down) + (self.left, 0)


@dataclass(frozen=True, eq=False)
class SideBySide:
    first: Place
    second: Place
    width: int
    lines: list[Float[np.ndarray, "n 4"]]
    """For each colour, the agreeing matches: ends in both images."""
    rows: list[np.ndarray]
    """For each colour, the numbers of these matches in the verification."""
    others: Float[np.ndarray, "n 4"]
    """Some matches that do not agree."""
    outlines: list[Float[np.ndarray, "k 2"]]
    """What both show, in each of them; none if that is not known."""
    height: int = HEIGHT

    @property
    def paths(self) -> list[tuple[str, str]]:
        """The colour of lines, and the lines as an SVG path."""
        return [(colour, _lines(ends)) for colour, ends in zip(COLOURS, self.lines, strict=True) if len(ends)]

    @property
    def other_path(self) -> str:
        return _lines(self.others)

    @property
    def outline_path(self) -> str:
        return "".join(_outline(each) for each in self.outlines)

    @property
    def first_outline_path(self) -> str:
        return "".join(_outline(each) for each in self.outlines[:1])


def side_by_side(first: Size, second: Size, found: Verification | None) -> SideBySide:
    """The layout of two images of these sizes, with what the comparison of their features has found."""
    left = _placed(first, 0)
    right = _placed(second, left.width + _GAP)
    agreeing = np.flatnonzero(found.agreeing)[:MOST_LINES] if found is not None else np.zeros(0, np.int64)
    others = np.flatnonzero(~found.agreeing)[:MOST_LINES] if found is not None else np.zeros(0, np.int64)
    points = found.points.astype(np.float64) if found is not None else np.zeros((0, 4))
    ends = np.concatenate([left.of(points[:, :2]), right.of(points[:, 2:])], axis=1)
    ordered = agreeing[np.argsort(ends[agreeing, 1], kind="stable")]  # from top to bottom
    groups = np.array_split(ordered, len(COLOURS))
    outlines = []
    if found is not None and found.transform is not None:
        shared = overlap(found.transform, first, second)
        outlines = [place.of(region) for place, region in zip((left, right), shared, strict=True) if len(region) > 2]
    return SideBySide(
        left, right, right.left + right.width, [ends[rows] for rows in groups], groups, ends[others], outlines
    )


def _placed(size: Size, left: int) -> Place:
    width = max(1, round(HEIGHT * size[0] / size[1]))
    return Place(left, width, width / size[0], HEIGHT / size[1])


def _lines(ends: Float[np.ndarray, "n 4"]) -> str:
    return "".join("M{} {}L{} {}".format(*row) for row in np.rint(ends).astype(np.int64).tolist())


def _outline(corners: Float[np.ndarray, "k 2"]) -> str:
    return "M" + "L".join("{} {}".format(*corner) for corner in np.rint(corners).astype(np.int64).tolist()) + "z"
