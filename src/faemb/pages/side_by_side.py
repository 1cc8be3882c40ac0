"""Two images side by side, equally high, with lines between regions that match and the outline of what both show."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from faemb.rerank import Verification, overlap

HEIGHT = 1000
"""Of both images in units of the layout: coordinates are whole numbers in pages."""
MOST_LINES = 48
"""Matches that are drawn; more of them would hide the images."""
COLOURS = ("#ffb000", "#ff7a2b", "#ff4f9a", "#b58cff", "#6aa5ff", "#2fd3b0")
"""Of the lines, from the top of the first image to its bottom: colour-blind readers can tell neighbours apart."""
_GAP = 24
_LONGEST = 20
"""Largest ratio of the sides of an image as it is shown: a file of features can state any size."""
_APART = 60
"""Lines that begin and end nearer to others than this are drawn only if there is room."""

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
    lines: list[Float[np.ndarray, "_ 4"]]
    """For each colour, the agreeing matches: ends in both images."""
    rows: list[np.ndarray]
    """For each colour, the numbers of these matches in the verification."""
    others: Float[np.ndarray, "_ 4"]
    """Some matches that do not agree."""
    outlines: list[Float[np.ndarray, "_ 2"]]
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
    def shade_path(self) -> str:
        """What only one of them shows."""
        if not self.outlines:
            return ""
        return "".join(f"M{place.left} 0h{place.width}v{self.height}h-{place.width}z" for place in self._places) + (
            self.outline_path
        )

    @property
    def _places(self) -> tuple[Place, Place]:
        return self.first, self.second

    @property
    def first_outline_path(self) -> str:
        return "".join(_outline(each) for each in self.outlines[:1])


def side_by_side(first: Size, second: Size, found: Verification | None) -> SideBySide:
    """The layout of two images of these sizes, with what the comparison of their features has found."""
    left = _placed(first, 0)
    right = _placed(second, left.width + _GAP)
    points = found.points.astype(np.float64) if found is not None else np.zeros((0, 4))
    agreeing = found.agreeing if found is not None else np.zeros(0, bool)
    ends = np.concatenate([left.of(points[:, :2]), right.of(points[:, 2:])], axis=1)
    chosen = _spread(ends, np.flatnonzero(agreeing))
    others = np.flatnonzero(~agreeing)[:MOST_LINES]
    groups = np.array_split(chosen[np.argsort(ends[chosen, 1], kind="stable")], len(COLOURS))  # from top to bottom
    outlines = []
    if found is not None and found.transform is not None:
        shared = overlap(found.transform, first, second)
        outlines = [place.of(region) for place, region in zip((left, right), shared, strict=True) if len(region) > 2]
    return SideBySide(
        left, right, right.left + right.width, [ends[rows] for rows in groups], groups, ends[others], outlines
    )


def _spread(ends: Float[np.ndarray, "n 4"], rows: Int[np.ndarray, " m"]) -> Int[np.ndarray, " k"]:
    """Some of the rows: those that are apart from each other first."""
    apart: list[int] = []
    for row in rows.tolist():
        if (np.abs(ends[apart] - ends[row]).max(1, initial=0) >= _APART).all():
            apart.append(row)
    near = np.setdiff1d(rows, apart)
    return np.concatenate([np.array(apart, np.int64), near])[:MOST_LINES]


def _placed(size: Size, left: int) -> Place:
    width = min(_LONGEST * HEIGHT, max(HEIGHT // _LONGEST, round(HEIGHT * size[0] / size[1])))
    return Place(left, width, width / size[0], HEIGHT / size[1])


def _lines(ends: Float[np.ndarray, "n 4"]) -> str:
    return "".join("M{} {}L{} {}".format(*row) for row in np.rint(ends).astype(np.int64).tolist())


def _outline(corners: Float[np.ndarray, "k 2"]) -> str:
    return "M" + "L".join("{} {}".format(*corner) for corner in np.rint(corners).astype(np.int64).tolist()) + "z"
