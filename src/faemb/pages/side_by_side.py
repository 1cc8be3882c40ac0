"""Layout of two images side by side, equally high, with lines between matches and outlines of the shared region."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from faemb.rerank import Verification, overlap

HEIGHT = 1000
"""Height of both images in units of the layout; on pages, coordinates are rounded to whole units."""
MOST_LINES = 48
"""Largest number of matches that are drawn; more would hide the images."""
COLOURS = ("#ffb000", "#ff7a2b", "#ff4f9a", "#b58cff", "#6aa5ff", "#2fd3b0")
"""Colours of lines, from top to bottom of the first image; colour-blind readers can distinguish neighbours."""
_GAP = 24
_LONGEST = 20
"""Largest ratio of the sides of an image as shown: a file of features can state any size."""
_APART = 60
"""Distance of ends, in units of the layout; lines nearer to others than this are drawn last."""

Size = tuple[float, float]


@dataclass(frozen=True)
class Place:
    """Position and scale of an image in the layout."""

    left: int
    width: int
    across: float
    down: float

    def of(self, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
        """Convert points of the image, whose pixel centres have whole coordinates, to units of the layout."""
        return (points + 0.5) * (self.across, self.down) + (self.left, 0)


@dataclass(frozen=True, eq=False)
class SideBySide:
    first: Place
    second: Place
    width: int
    lines: list[Float[np.ndarray, "_ 4"]]
    """Lines of agreeing matches, by colour: the ends in both images."""
    rows: list[np.ndarray]
    """Indices of these matches in the verification, by colour."""
    others: Float[np.ndarray, "_ 4"]
    """Lines of some matches that do not agree."""
    outlines: list[Float[np.ndarray, "_ 2"]]
    """Outlines of the shared region in each image; empty if it is unknown."""
    height: int = HEIGHT

    @property
    def paths(self) -> list[tuple[str, str]]:
        """Colour and SVG path of each group of lines."""
        return [(colour, _lines(ends)) for colour, ends in zip(COLOURS, self.lines, strict=True) if len(ends)]

    @property
    def other_path(self) -> str:
        return _lines(self.others)

    @property
    def outline_path(self) -> str:
        return "".join(_outline(each) for each in self.outlines)

    @property
    def shade_path(self) -> str:
        """SVG path of the parts that only one image shows."""
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
    """The layout of two images of these sizes, with the matches and the shared region of their verification."""
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
    """At most MOST_LINES of the rows; rows whose lines are apart from each other come first."""
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
