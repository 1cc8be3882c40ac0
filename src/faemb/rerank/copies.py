"""Tells copies, where one of two pictures was made from the other, from two photographs of the same thing.

A copy is the other picture resized, cropped, turned, mirrored, encoded again, in other colours, or with something
written over it. Five numbers, computed from local features, tell it from a second photograph:

    agreement     share of the matches that agree with the transform of the pictures
    error         median distance of matched regions from one affine map, in radii of the regions
    systematic    share of the squared distances that a quadratic map explains and the affine map does not
    counterparts  share of the regions of one picture, where both overlap, that are detected in the other picture too
    extent        share of one picture's area that the matched regions span

In a copy, distances are the detector's noise: small and not systematic. A second photograph is taken from another place
or in another direction, if only slightly: perspective, parallax and lens distortion move parts of the picture by
different amounts, which a quadratic map follows. Two pictures with the same watermark agree well too, but the regions
between its letters have no counterparts; a shared caption spans little of either picture.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from faemb.rerank.matching import Matchable
from faemb.rerank.overlays import SMALL, extent
from faemb.rerank.verification import Verification

LEAST_MATCHES = 12
"""Smallest number of agreeing matches; with fewer, a quadratic map explains most of the distances by chance."""
LEAST_AGREEMENT = 0.8
LARGEST_ERROR = 0.02
"""The detector localises a region within 1 % of its radius in an edited picture, 5 % in a second photograph."""
LARGEST_SYSTEMATIC, _BY_CHANCE = 0.03, 6.0
"""A quadratic map has six more parameters, which explain 3 / N of the squared distances of N matches by chance, seldom
6 / N."""
LEAST_COUNTERPARTS = 0.7
_OUTLIER = 3.0
"""Matches farther from the map than this times the median are left out of the fit."""
_REFITS = 5
_EXACT = 0.003
"""Errors below this, in radii, are rounding; no systematic part is computed from them."""
_NEAR, _SCALE = 0.3, 0.4
"""Largest distance of counterparts, in radii, and largest difference of the logarithms of their radii."""
_NEIGHBOURS = 8
_MARGIN = 1.15
"""Regions within this factor of the smallest or largest size in the other picture are not counted: they may not be
detected there."""


class Likeness(NamedTuple):
    """The numbers that the module's docstring defines."""

    matches: int
    agreement: float
    error: float
    systematic: float
    counterparts: float
    extent: float

    @property
    def is_moved(self) -> bool:
        """Whether parts of the picture have moved by different amounts, as between two photographs."""
        return self.systematic > LARGEST_SYSTEMATIC + _BY_CHANCE / self.matches

    @property
    def is_copy(self) -> bool:
        return (
            self.matches >= LEAST_MATCHES
            and self.agreement >= LEAST_AGREEMENT
            and self.error <= LARGEST_ERROR
            and not self.is_moved
            and self.counterparts >= LEAST_COUNTERPARTS
            and self.extent >= SMALL  # a picture pasted into a larger one spans all of its own area
        )


class _Map(NamedTuple):
    """An affine map y = linear x + offset, in pixels."""

    linear: Float[np.ndarray, "2 2"]
    offset: Float[np.ndarray, " 2"]

    @property
    def scale(self) -> float:
        return float(np.sqrt(abs(np.linalg.det(self.linear))))

    def inverse(self) -> "_Map":
        inverse = np.linalg.inv(self.linear)
        return _Map(inverse, -inverse @ self.offset)


def is_copy(first: Matchable, second: Matchable, found: Verification) -> bool:
    """Whether one of two verified pictures was made from the other."""
    measured = likeness(first, second, found)
    return measured is not None and measured.is_copy


def likeness(first: Matchable, second: Matchable, found: Verification) -> Likeness | None:
    """None if too few matches agree for a copy, or no affine map can be fitted."""
    pairs = found.matches[found.agreeing]
    if len(pairs) < max(LEAST_MATCHES, LEAST_AGREEMENT * len(found.matches)):
        return None
    a, b = np.searchsorted(first.rows, pairs[:, 0]), np.searchsorted(second.rows, pairs[:, 1])
    middle = first.centres[a].mean(0)
    x, y = (first.centres[a] - middle) / first.diagonal, second.centres[b]
    radii = _radii(second)[b]
    constant = np.ones((len(x), 1))
    affine = np.concatenate([x, constant], axis=1)
    quadratic = np.concatenate([affine, x**2, x[:, :1] * x[:, 1:]], axis=1)
    kept = np.ones(len(x), bool)
    for _ in range(_REFITS):
        error = _errors(affine, y, radii, kept)
        kept = error <= max(_OUTLIER * float(np.median(error[kept])), _EXACT)
    solution = _solved(affine, y, radii, kept)
    linear = solution[:2].T / first.diagonal
    fitted = _Map(linear, solution[2] - linear @ middle)
    if kept.sum() < LEAST_MATCHES or fitted.scale < 1e-3:
        return None
    error, less = _errors(affine, y, radii, kept)[kept], _errors(quadratic, y, radii, kept)[kept]
    noise = len(error) * _EXACT**2
    return Likeness(
        int(kept.sum()),
        len(pairs) / len(found.matches),
        float(np.median(error)),
        float(1 - ((less**2).sum() + noise) / ((error**2).sum() + noise)),
        max(_counterparts(first, second, fitted), _counterparts(second, first, fitted.inverse())),
        max(extent(first, a[kept]), extent(second, b[kept])),
    )


def _solved(
    columns: Float[np.ndarray, "M c"],
    y: Float[np.ndarray, "M 2"],
    radii: Float[np.ndarray, " M"],
    kept: Bool[np.ndarray, " M"],
) -> Float[np.ndarray, "c 2"]:
    """Least squares of the distances in radii, since large regions are localised less exactly."""
    weight = 1 / radii[kept, None]
    return np.linalg.lstsq(columns[kept] * weight, y[kept] * weight, rcond=None)[0]


def _errors(
    columns: Float[np.ndarray, "M c"],
    y: Float[np.ndarray, "M 2"],
    radii: Float[np.ndarray, " M"],
    kept: Bool[np.ndarray, " M"],
) -> Float[np.ndarray, " M"]:
    """Distances, in radii, of all matches from the map that is fitted to the kept ones."""
    return np.asarray(np.hypot(*(y - columns @ _solved(columns, y, radii, kept)).T) / radii)


def _counterparts(first: Matchable, second: Matchable, fitted: _Map) -> float:
    """Share of the regions of `first`, of those inside `second` and of a size detected there, that `second` has too."""
    centres = first.centres @ fitted.linear.T + fitted.offset
    radii, others = _radii(first) * fitted.scale, _radii(second)
    inside = ((centres > radii[:, None]) & (centres < np.array(second.size) - radii[:, None])).all(1)
    inside &= (radii > _MARGIN * np.percentile(others, 2)) & (radii < others.max() / _MARGIN)
    if inside.sum() < LEAST_MATCHES:
        return 0.0
    centres, radii = centres[inside], radii[inside, None]
    distance, near = _nearest(second, centres)
    same = (distance < _NEAR * radii) & (np.abs(np.log(others[near] / radii)) < _SCALE)
    return float(same.any(1).mean())


def _nearest(
    image: Matchable, points: Float[np.ndarray, "n 2"]
) -> tuple[Float[np.ndarray, "n k"], Int[np.ndarray, "n k"]]:
    from scipy.spatial import cKDTree  # here, since most pairs of images do not need it

    distance, rows = cKDTree(image.centres).query(points, k=np.arange(1, min(_NEIGHBOURS, len(image)) + 1))
    return distance, rows


def _radii(image: Matchable) -> Float[np.ndarray, " N"]:
    return np.sqrt(np.abs(np.linalg.det(image.shapes)))
