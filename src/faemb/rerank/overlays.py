"""What different pictures have in common in the same place: captions, dates, logos, frames, the layout of a slide.

It matches exactly, but says nothing about what the pictures show. Matches that agree are those of an overlay if each
lies in the same place of both pictures (at the same distance from a corner, an edge or the middle, in pixels or in
proportion to the pictures), they cover a small part of the area, and most features of both pictures lie elsewhere. The
matches of a caption also span a small part of the area; those of a frame, or of several captions, are near fewer
features than as many features taken at random would be.

A small thing that two photographs show is hardly ever in the same place of both. Two photographs of one fixed camera
match in the same place too, but wherever they have features, also by day and by night.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from faemb.rerank.matching import Matchable

_STILL, _SHARE = 0.005, 0.9
"""In the same place: within this distance, in diagonals; and the share of the matches for which that holds."""
_STRAYS = 1
"""Number of matches for which it need not hold, however few there are."""
_NEAR = 0.04
"""What lies within this distance of a match, in diagonals, is covered by it."""
_AREA, _MOST = 0.25, 0.5
"""Largest share of the area that is covered, and of the features."""
_EXPECTED = 0.65
"""Largest ratio of the covered share of the features to the share that random features would cover (geometric mean of
both pictures). Area, share and ratio were seen to be 0.15, 0.37 and 0.34 at most in equal frames; 0.09, 0.5 and 0.5 in
nearly all pairs of captions; at least 0.05, 0.73 and 0.59 in pictures of one fixed camera in different light."""
_GRID = np.stack(np.meshgrid(*[(np.arange(32) + 0.5) / 32] * 2), axis=-1).reshape(-1, 2)
"""Points at which the area is measured, as shares of width and height."""
SMALL = 0.1
"""Largest share of the area that a caption spans: usually up to 0.05."""
_BORDERS = (2, 98)
"""Percentiles of the coordinates that bound the span, so that a few wrong matches do not enlarge it."""
_ANCHORS = np.array([(across, down) for across in (0, 0.5, 1) for down in (0, 0.5, 1)])
"""Shares of the width and the height, from where the place is measured."""


def outside_overlay(
    first: Matchable, second: Matchable, pairs: Int[np.ndarray, "M 2"], agreeing: Bool[np.ndarray, " M"]
) -> Bool[np.ndarray, " M"]:
    """The matches that are not of an overlay, given those that agree with one transform; all if there is none."""
    of_overlay = agreeing.copy()
    of_overlay[agreeing] = _in_the_same_place(first, second, pairs[agreeing])
    if agreeing.sum() - of_overlay.sum() <= max((1 - _SHARE) * agreeing.sum(), _STRAYS):
        parts = [_Part.near(first, pairs[of_overlay, 0]), _Part.near(second, pairs[of_overlay, 1])]
        if _is_overlay(parts):
            return ~(agreeing | parts[0].features[pairs[:, 0]] & parts[1].features[pairs[:, 1]])
    return np.ones(len(pairs), bool)


def extent(image: Matchable, rows: Int[np.ndarray, " M"]) -> float:
    """Share of the picture's area that features span."""
    low, high = np.percentile(image.centres[rows], _BORDERS, axis=0)
    return float(np.prod(high - low) / (image.size[0] * image.size[1]))


class _Part(NamedTuple):
    """What the matches cover of a picture."""

    features: Bool[np.ndarray, " N"]
    area: float
    """Share of the picture's area."""
    extent: float
    ratio: float
    """The share of the features, in proportion to what as many features taken at random would cover."""

    @classmethod
    def near(cls, image: Matchable, rows: Int[np.ndarray, " M"]) -> "_Part":
        from scipy.spatial import cKDTree  # here, since most pairs of images do not need it

        centres = image.centres / image.diagonal
        matches, everything = cKDTree(centres[rows]), cKDTree(centres)

        def covered(points: Float[np.ndarray, "n 2"]) -> Bool[np.ndarray, " n"]:
            return np.isfinite(matches.query(points, distance_upper_bound=_NEAR)[0])

        features, area = covered(centres), covered(_GRID * image.size / image.diagonal)
        alone = everything.query_ball_point(centres, _NEAR, return_length=True) / len(centres)
        expected = 1 - ((1 - alone) ** len(rows)).mean()
        return cls(features, float(area.mean()), extent(image, rows), float(features.mean() / expected))


def _is_overlay(parts: list[_Part]) -> bool:
    if any(part.area > _AREA or part.features.mean() > _MOST for part in parts):
        return False
    return all(part.extent < SMALL for part in parts) or parts[0].ratio * parts[1].ratio <= _EXPECTED**2


def _in_the_same_place(first: Matchable, second: Matchable, pairs: Int[np.ndarray, "M 2"]) -> Bool[np.ndarray, " M"]:
    """Matches for which it is so, from the anchor and at the scale for which there are most."""
    x, y = first.centres[pairs[:, 0]], second.centres[pairs[:, 1]]
    a, b = np.array(first.size), np.array(second.size)
    scales = np.array([1.0, *(b / a)])[:, None, None]
    missed = (y - scales * x)[:, None] - (_ANCHORS * (b - scales * a))[:, :, None]
    still = np.hypot(*np.moveaxis(missed, -1, 0)) < _STILL * second.diagonal
    return np.asarray(still.reshape(-1, len(x))[still.sum(2).argmax()])
