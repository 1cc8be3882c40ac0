"""SIFT: 4 x 4 cells of 8 gradient orientations over a patch [Lowe 2004, Sec. 6]; and RootSIFT.

Every gradient is weighted by its length and by a Gaussian around the patch's centre, and distributed linearly over the
two nearest orientations and the four nearest cells. Cells are squares of a fifth of the patch's side. The descriptor is
scaled to unit length, clipped at 0.2 and scaled again.

RootSIFT is r(x) = sqrt(x / |x|_1), of unit length: Euclidean distances between such vectors are Hellinger distances
between the histograms [AZ12].

[AZ12] R. Arandjelovic, A. Zisserman: Three things everyone should know to improve object retrieval. CVPR 2012.
"""

from functools import cache

import cv2
import numpy as np
from jaxtyping import Float

from faemb.errors import InputError
from faemb.features.hessian_affine.patches import Gradients

CELLS = 4
ORIENTATIONS = 8
DIMENSION = CELLS * CELLS * ORIENTATIONS
_LARGEST = 0.2
_ANGLES = 2048
"""Number of angles in the table of orientation weights: steps of 0.2 degrees, below the error of the angles."""
_BLOCK = 32
"""Number of patches processed together, so few that their intermediate results fit into the cache."""


def sift(gradients: Gradients) -> Float[np.ndarray, "N 128"]:
    """Vectors of unit length, ordered by cell row, cell column, orientation; zeros for a patch without gradients."""
    out = np.empty((len(gradients.x), DIMENSION), np.float32)
    for start in range(0, len(out), _BLOCK):
        block = slice(start, start + _BLOCK)
        out[block] = _histograms(gradients.x[block], gradients.y[block])
    return _unit(np.minimum(_unit(out), _LARGEST))


def root_sift(descriptors: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N d"]:
    """Each row divided by its sum, then the square root of each entry; a row of zeros stays zero."""
    unfit = ~((descriptors >= 0) & (descriptors < np.inf))
    if unfit.any():
        raise InputError(
            f"descriptors hold {int(unfit.sum())} values that are negative, NaN or infinite; "
            "expected SIFT's histograms, before any centring or projection"
        )
    total = descriptors.sum(axis=1, keepdims=True, dtype=np.float64).astype(descriptors.dtype)
    return np.sqrt(np.divide(descriptors, total, out=np.zeros_like(descriptors), where=total > 0))


def _histograms(gx: Float[np.ndarray, "N n n"], gy: Float[np.ndarray, "N n n"]) -> Float[np.ndarray, "N 128"]:
    count, side = gx.shape[:2]
    magnitude, angle = cv2.cartToPolar(gx.reshape(count, -1), gy.reshape(count, -1))
    magnitude *= _window(side).ravel()
    angle *= np.float32(_ANGLES / (2 * np.pi))
    spread = _shares().take(np.rint(angle).astype(np.int32), axis=0, mode="clip")
    spread *= magnitude[..., None]
    cells = _cells(side)
    rows = (cells @ spread.reshape(count, side, -1)).reshape(count, CELLS, side, ORIENTATIONS)
    return (cells @ rows).reshape(count, DIMENSION)


@cache
def _shares() -> Float[np.ndarray, "a 8"]:
    """The weight of each orientation for every angle of the table, from 0 to a full turn inclusive."""
    position = np.arange(_ANGLES + 1)[:, None] * (ORIENTATIONS / _ANGLES)
    distance = np.abs(position - np.arange(ORIENTATIONS))
    return np.maximum(1 - np.minimum(distance, ORIENTATIONS - distance), 0).astype(np.float32)


@cache
def _cells(side: int) -> Float[np.ndarray, "4 n"]:
    """The weight of each cell for every pixel of a row: a triangle two cells wide."""
    width = side / (CELLS + 1)
    centres = (np.arange(CELLS) - (CELLS - 1) / 2) * width
    k = np.arange(side) - side // 2
    return np.maximum(1 - np.abs(k - centres[:, None]) / width, 0).astype(np.float32)


@cache
def _window(side: int) -> Float[np.ndarray, "n n"]:
    """A Gaussian whose standard deviation is two thirds of the radius, limited to a disc."""
    radius = side // 2
    squared = (np.arange(side) - radius) ** 2
    squared = squared[:, None] + squared
    return (np.exp(-squared / (2 * (radius / 1.5) ** 2)) * (squared <= radius**2)).astype(np.float32)


def _unit(descriptors: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N d"]:
    return descriptors / np.maximum(np.linalg.norm(descriptors, axis=1, keepdims=True), 1e-12)
