"""Patches: described regions, normalised so that their ellipses become discs; and their gradients.

Every patch has a blur of 1.5 of its own pixels, independent of the size of its region. It is sampled from the coarsest
scale-space octave with no more blur than that, and the remaining blur is applied to the patch.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import cv2
import numpy as np
from jaxtyping import Float, Int

from faemb.features.hessian_affine.pyramid import IMAGE_BLUR, Octave

PATCH_BLUR = 1.5
_BLUR_STEP = 0.25
"""The remaining blur is rounded to multiples of this, so that many patches share one matrix."""


class Gradients(NamedTuple):
    x: Float[np.ndarray, "N n n"]
    y: Float[np.ndarray, "N n n"]


class Source(NamedTuple):
    """An image to sample patches from; its pixel size and blur are in pixels of the original."""

    image: Float[np.ndarray, "_ _"]
    pixel: float
    blur: float


def sources(grey: Float[np.ndarray, "H W"], octaves: Sequence[Octave], sigma: float) -> list[Source]:
    """The image itself and the first level of each octave, finest first."""
    return [Source(grey, 1.0, IMAGE_BLUR)] + [
        Source(octave.levels[0], octave.pixel, sigma * octave.pixel) for octave in octaves if octave.pixel >= 1
    ]


def sampled(
    images: Sequence[Float[np.ndarray, "_ _"]],
    which: Int[np.ndarray, " N"],
    centres: Float[np.ndarray, "N 2"],
    steps: Float[np.ndarray, "N 2 2"],
    side: int,
) -> Float[np.ndarray, "N n n"]:
    """Bilinear samples of images[which] at centre + step @ (column, row); `which` must be sorted."""
    k = np.arange(side, dtype=np.float32) - side // 2
    grid = np.stack([np.tile(k, side), np.repeat(k, side), np.ones(side * side, np.float32)])
    x, y = (
        np.concatenate([steps[:, axis], centres[:, axis, None]], axis=1).astype(np.float32) @ grid for axis in (0, 1)
    )
    out = np.empty_like(x)
    bounds = np.flatnonzero(np.diff(which, prepend=-1, append=-1))
    for start, stop in pairwise(bounds):
        run = slice(start, stop)
        cv2.remap(images[which[start]], x[run], y[run], cv2.INTER_LINEAR, dst=out[run], borderMode=cv2.BORDER_REPLICATE)
    return out.reshape(-1, side, side)


def gradients(
    from_: Sequence[Source], centres: Float[np.ndarray, "N 2"], shapes: Float[np.ndarray, "N 2 2"], side: int
) -> Gradients:
    """Gradients of the patches of the regions centre + shape @ disc, given in pixels of the original, in order."""
    radius = side // 2
    steps = np.sqrt(np.abs(np.linalg.det(shapes))) / radius  # pixels of the original per pixel of the patch
    which = _coarsest(from_, steps)
    blur = np.array([source.blur for source in from_])[which] / steps
    missing = np.sqrt(np.maximum(PATCH_BLUR**2 - blur**2, 0))
    matrix = np.rint(missing / _BLUR_STEP).astype(np.int64)
    order = np.lexsort((matrix, which))
    pixel = np.array([source.pixel for source in from_])[which]
    patches = sampled(
        [source.image for source in from_],
        which[order],
        centres[order] / pixel[order, None],
        shapes[order] / (radius * pixel[order])[:, None, None],
        side,
    )
    out = Gradients(np.empty_like(patches), np.empty_like(patches))
    for value in np.unique(matrix):
        rows = matrix[order] == value
        smooth, derive = blur_matrices(side, value * _BLUR_STEP)
        chosen = patches[rows]
        out.x[order[rows]] = smooth @ (chosen @ derive.T)
        out.y[order[rows]] = derive @ (chosen @ smooth.T)
    return out


def blur_matrices(side: int, sigma: float) -> tuple[Float[np.ndarray, "n n"], Float[np.ndarray, "n n"]]:
    """G and DG: `G @ patch @ G.T` blurs a patch, `G @ patch @ DG.T` is the x derivative of that."""
    k = np.arange(side, dtype=np.float32)
    smooth = np.eye(side, dtype=np.float32)
    if sigma > 0:
        smooth = np.exp(-((k[:, None] - k) ** 2) / (2 * sigma**2))
        smooth /= smooth.sum(axis=1, keepdims=True)
    return smooth.astype(np.float32), np.asarray(np.gradient(smooth, axis=0), np.float32)


def disc_weights(side: int) -> Float[np.ndarray, "n n"]:
    """A Gaussian whose standard deviation is half the radius, limited to a disc."""
    k = np.arange(side, dtype=np.float32) - side // 2
    squared = k[:, None] ** 2 + k**2
    return np.exp(-squared / (2 * (side / 4) ** 2)) * (squared <= (side // 2) ** 2)


def _coarsest(from_: Sequence[Source], steps: Float[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """Index of the coarsest source whose blur is at most the patch's; 0 if all have more."""
    blurs = np.array([source.blur for source in from_])
    return np.maximum(np.searchsorted(blurs, PATCH_BLUR * steps, side="right") - 1, 0)
