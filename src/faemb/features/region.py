"""A region of interest: a box in pixels of the original image, including its corners (x1, y1) and (x2, y2)."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from faemb.errors import InputError
from faemb.settings import shown


class Box(NamedTuple):
    x1: float
    y1: float
    x2: float
    y2: float


def parse_box(text: str) -> Box:
    """A box from text such as "10,20,300,240": x1,y1,x2,y2."""
    try:
        corners = [float(part) for part in text.split(",")]
    except ValueError:
        corners = []
    if len(corners) != 4 or not all(map(math.isfinite, corners)):
        raise InputError(f"the box {shown(text)} cannot be read; expected x1,y1,x2,y2 in pixels, such as 10,20,300,240")
    return Box(*corners)


def checked_box(box: Sequence[float], size: tuple[int, int]) -> Box:
    """The part of `box` inside an image of `size` (width, height); an empty box and one outside are errors."""
    try:
        corners = [float(corner) for corner in box]
    except (TypeError, ValueError, OverflowError):
        corners = []
    if len(corners) != 4 or not all(math.isfinite(corner) for corner in corners):
        raise InputError(f"a box is {shown(box)}; expected four finite numbers x1, y1, x2, y2")
    x1, y1, x2, y2 = corners
    given, width, height = f"the box {x1:g},{y1:g},{x2:g},{y2:g}", *size
    if x2 <= x1 or y2 <= y1:
        raise InputError(f"{given} is empty; expected x1 < x2 and y1 < y2")
    if x2 < 0 or y2 < 0 or x1 > width - 1 or y1 > height - 1:
        raise InputError(f"{given} lies outside the image, which is {width} x {height} pixels")
    return Box(max(x1, 0.0), max(y1, 0.0), min(x2, width - 1.0), min(y2, height - 1.0))
