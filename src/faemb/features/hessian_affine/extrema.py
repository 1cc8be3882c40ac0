"""Extrema of the Hessian's determinant over position and scale: blobs (maxima) and saddles (minima).

    response(x, y, sigma) = sigma^4 (Lxx Lyy - Lxy^2)                                     [Mikolajczyk and Schmid 2004]

Every extremum of a 3 x 3 x 3 neighbourhood is refined by a quadratic fit to fractions of a pixel and of a scale, and
dropped if it lies on an edge (ratio of the response's principal curvatures) or is weak [Lowe 2004, Sec. 4].
"""

from typing import NamedTuple

import cv2
import numpy as np
from jaxtyping import Bool, Float, Int

from faemb.features.hessian_affine.pyramid import Octave

BORDER = 5
"""Width in pixels of the border of an octave in which extrema are not searched."""
_KEPT_FOR_REFINEMENT = 0.8
"""Fraction of the threshold that a response must exceed before the quadratic fit, which may raise it."""
_MOVES = 5
_SETTLED = 0.6
"""If the fitted extremum is more pixels away than this, the fit is repeated around the next pixel."""
_SECOND = np.array([[1, -2, 1]], np.float32)
_MIXED = np.array([[0.25, 0, -0.25], [0, 0, 0], [-0.25, 0, 0.25]], np.float32)
_NEIGHBOURHOOD = np.ones((3, 3), np.uint8)
_BEFORE = np.array([[1, 1, 1], [1, 0, 0], [0, 0, 0]], np.uint8)
"""Neighbours that must be strictly lower, so that of several equal pixels only the first is an extremum."""

Responses = list[Float[np.ndarray, "H W"]]
"""Responses of three levels: below, at and above the level in which extrema are searched."""


class Extrema(NamedTuple):
    """Positions and sigmas in pixels of the octave."""

    level: Int[np.ndarray, " N"]
    x: Float[np.ndarray, " N"]
    y: Float[np.ndarray, " N"]
    sigma: Float[np.ndarray, " N"]
    response: Float[np.ndarray, " N"]


def extrema(octave: Octave, *, sigma: float, threshold: float, edge_ratio: float) -> Extrema:
    """Extrema with sqrt(|response|) above `threshold`, for pixels 0..255."""
    per_octave = len(octave.levels) - 2
    sigmas = [sigma * 2.0 ** (k / per_octave) for k in range(per_octave + 2)]
    window = [hessian_determinant(octave.levels[k], sigmas[k]) for k in (0, 1)]
    found = []
    for k in range(1, per_octave + 1):
        window = [*window[-2:], hessian_determinant(octave.levels[k + 1], sigmas[k + 1])]
        rows, columns = local_extrema(window, _KEPT_FOR_REFINEMENT * threshold**2)
        y, x, offset, response = refined(window, rows, columns, edge_ratio)
        strong = np.abs(response) > threshold**2
        level = np.full(int(strong.sum()), k)
        exact = sigma * 2.0 ** ((k + offset[strong]) / per_octave)
        found.append(Extrema(level, x[strong], y[strong], exact, response[strong]))
    return Extrema(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def hessian_determinant(level: Float[np.ndarray, "H W"], sigma: float) -> Float[np.ndarray, "H W"]:
    response, lyy, lxy = (_filtered(level, kernel) for kernel in (_SECOND, _SECOND.T, _MIXED))
    response *= lyy
    lxy *= lxy
    response -= lxy
    response *= np.float32(sigma**4)
    return response


def local_extrema(responses: Responses, threshold: float) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
    """Rows and columns of the middle response's maxima above `threshold` and minima below its negative."""
    below, here, above = responses
    highest = cv2.dilate(np.maximum(np.maximum(below, above), here), _NEIGHBOURHOOD)
    peak = (here >= highest) & (here > threshold) & (here > cv2.dilate(here, _BEFORE))
    del highest  # as large as the image: only one such array at a time
    lowest = cv2.erode(np.minimum(np.minimum(below, above), here), _NEIGHBOURHOOD)
    peak |= (here <= lowest) & (here < -threshold) & (here < cv2.erode(here, _BEFORE))
    rows, columns = np.nonzero(peak[BORDER:-BORDER, BORDER:-BORDER])
    return rows + BORDER, columns + BORDER


def refined(
    responses: Responses, rows: Int[np.ndarray, " N"], columns: Int[np.ndarray, " N"], edge_ratio: float
) -> tuple[Float[np.ndarray, " M"], ...]:
    """y, x, scale offset and response of the extrema whose fit converges within a few moves, in order of position."""
    height, width = responses[1].shape
    places = rows * width + columns
    parts = []
    for move in range(_MOVES):
        gradient, hessian, value = _quadratic(responses, places)
        solvable = np.abs(np.linalg.det(hessian)) > 1e-12
        if move == 0:
            solvable &= _not_on_an_edge(hessian, edge_ratio)
        hessian[~solvable] = np.eye(3)
        offset = -np.linalg.solve(hessian, gradient[..., None])[..., 0]
        done = solvable & (np.abs(offset) <= _SETTLED).all(axis=1)
        fitted = value + 0.5 * np.einsum("nk,nk->n", gradient, offset)
        parts.append((places[done], offset[done], fitted[done]))
        places = _moved(places, offset, solvable & ~done, (height, width))
        if not len(places):
            break
    places, offset, fitted = (np.concatenate(part) for part in zip(*parts, strict=True))
    _, first = np.unique(places, return_index=True)  # several may have moved to one pixel
    y, x = np.divmod(places[first], width)
    return y + offset[first, 1], x + offset[first, 0], offset[first, 2], fitted[first]


def _filtered(level: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    return cv2.filter2D(level, cv2.CV_32F, kernel, borderType=cv2.BORDER_REPLICATE)


class _Neighbours(NamedTuple):
    """Responses at the neighbours of some pixels, addressed by steps in (scale, row, column)."""

    flat: list[np.ndarray]
    places: np.ndarray
    width: int

    def __call__(self, scale: int, row: int, column: int) -> np.ndarray:
        return self.flat[1 + scale][self.places + (row * self.width + column)].astype(np.float64)

    def mixed(self, a: tuple[int, int, int], b: tuple[int, int, int]) -> np.ndarray:
        """The mixed second derivative along two axes."""
        signs = ((1, 1), (1, -1), (-1, 1), (-1, -1))
        parts = [i * j * self(*(i * p + j * q for p, q in zip(a, b, strict=True))) for i, j in signs]
        return np.asarray(sum(parts)) / 4


def _quadratic(
    responses: Responses, places: Int[np.ndarray, " N"]
) -> tuple[Float[np.ndarray, "N 3"], Float[np.ndarray, "N 3 3"], Float[np.ndarray, " N"]]:
    """Gradient and Hessian in (x, y, scale) by central differences, and the value, at flat pixel indices."""
    at = _Neighbours([response.ravel() for response in responses], places, responses[1].shape[1])
    axes = ((0, 0, 1), (0, 1, 0), (1, 0, 0))
    value = at(0, 0, 0)
    sides = [(at(*axis), at(*(-step for step in axis))) for axis in axes]
    gradient = np.stack([(after - before) / 2 for after, before in sides], axis=1)
    hessian = np.empty((len(places), 3, 3))
    for i, (after, before) in enumerate(sides):
        hessian[:, i, i] = after - 2 * value + before
        for j in range(i):
            hessian[:, i, j] = hessian[:, j, i] = at.mixed(axes[i], axes[j])
    return gradient, hessian, value


def _not_on_an_edge(hessian: Float[np.ndarray, "N 3 3"], ratio: float) -> Bool[np.ndarray, " N"]:
    """Whether both principal curvatures of the response have one sign and a ratio below `ratio`."""
    trace = hessian[:, 0, 0] + hessian[:, 1, 1]
    determinant = hessian[:, 0, 0] * hessian[:, 1, 1] - hessian[:, 0, 1] ** 2
    return (determinant > 0) & (trace**2 * ratio < (ratio + 1) ** 2 * determinant)


def _moved(
    places: Int[np.ndarray, " N"], offset: Float[np.ndarray, "N 3"], moving: Bool[np.ndarray, " N"], shape: tuple
) -> Int[np.ndarray, " M"]:
    """The next pixel towards the fitted extremum, if it lies inside the border; the scale does not change."""
    height, width = shape
    step = (np.sign(offset) * (np.abs(offset) > _SETTLED)).astype(np.int64)
    rows, columns = np.divmod(places, width)
    rows, columns = rows + step[:, 1], columns + step[:, 0]
    inside = (rows > 2) & (columns > 2) & (rows < height - 3) & (columns < width - 3)
    moving = moving & inside & (step[:, :2] != 0).any(axis=1)
    return (rows * width + columns)[moving]
