"""The region that two images share, given the transform between them."""

import numpy as np
from jaxtyping import Float

from faemb.rerank.transforms import homogeneous

Polygon = Float[np.ndarray, "_ 2"]
"""Corners of a convex region, in pixels; no rows if it is empty."""
Size = tuple[float, float]
"""Width and height of an image."""

_HORIZON = 1e-3
"""Smallest depth of a shared point, relative to the centre of the first image; others lie near the horizon."""


def overlap(transform: Float[np.ndarray, "3 3"], first: Size, second: Size) -> tuple[Polygon, Polygon]:
    """The shared region in the first and in the second image; `transform` maps pixels of the first to the second.

    A point of the first image lies in the second if a few linear functions of its coordinates are positive, so the
    region is the first image clipped by lines.
    """
    across, down, depth = transform / (transform[2] @ (first[0] / 2, first[1] / 2, 1) or 1.0)
    region = np.array([(0, 0), (first[0] - 1, 0), (first[0] - 1, first[1] - 1), (0, first[1] - 1)], np.float64)
    visible = depth - np.array([0, 0, _HORIZON])
    right, bottom = (second[0] - 1) * depth - across, (second[1] - 1) * depth - down
    for line in (visible, across, right, down, bottom):
        region = _cut(region, line)
    return region, mapped(transform, region)


def mapped(transform: Float[np.ndarray, "3 3"], points: Polygon) -> Polygon:
    """Points mapped by a transform."""
    found = homogeneous(points) @ transform.T
    return found[:, :2] / found[:, 2:]


def area(polygon: Polygon) -> float:
    x, y = polygon.T
    return float(abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2)


def _cut(polygon: Polygon, line: Float[np.ndarray, " 3"]) -> Polygon:
    """The part of a convex polygon where line[0] x + line[1] y + line[2] is not negative."""
    value = polygon @ line[:2] + line[2]
    corners: list[np.ndarray] = []
    for here in range(len(polygon)):
        there = (here + 1) % len(polygon)
        if value[here] >= 0:
            corners.append(polygon[here])
        if (value[here] < 0) != (value[there] < 0):
            share = value[here] / (value[here] - value[there])
            corners.append(polygon[here] + share * (polygon[there] - polygon[here]))
    return np.array(corners).reshape(-1, 2)
