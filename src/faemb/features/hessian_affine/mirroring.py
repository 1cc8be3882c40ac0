"""Features of the mirrored image, computed from those of the image: no pixels are needed.

With M = diag(-1, 1), the region p = c + A u of an image becomes M c + (M A N) (N u) in the image mirrored from left to
right. N mirrors the patch as well, so that M A N has a positive determinant as A has: from left to right if patches are
upright, from top to bottom if the patch's x axis is its dominant gradient, whose x component M inverts. The descriptor
of a mirrored patch is a permutation of the original one.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Int

from faemb.features.hessian_affine.sift import CELLS, ORIENTATIONS
from faemb.features.local_features import LocalFeatures, frames_from

_SIDEWAYS = np.array([-1.0, 1.0])


def mirrored(features: LocalFeatures, *, rotation_invariant: bool) -> LocalFeatures:
    """The features of the image mirrored from left to right, in the same order."""
    patch = -_SIDEWAYS if rotation_invariant else _SIDEWAYS
    centres = features.centres.copy()
    centres[:, 0] = features.image_size[0] - 1 - centres[:, 0]
    shapes = _SIDEWAYS[:, None] * features.shapes * patch
    columns = _from_top_to_bottom() if rotation_invariant else _from_left_to_right()
    return replace(features, frames=frames_from(centres, shapes), descriptors=features.descriptors[:, columns])


def _from_left_to_right() -> Int[np.ndarray, " 128"]:
    """The permutation of bins in which an angle t becomes pi - t."""
    return _bins()[:, ::-1][..., (ORIENTATIONS // 2 - np.arange(ORIENTATIONS)) % ORIENTATIONS].ravel()


def _from_top_to_bottom() -> Int[np.ndarray, " 128"]:
    """The permutation of bins in which an angle t becomes -t."""
    return _bins()[::-1][..., -np.arange(ORIENTATIONS) % ORIENTATIONS].ravel()


def _bins() -> Int[np.ndarray, "4 4 8"]:
    """Indices of a descriptor's values, by cell row, cell column and orientation."""
    return np.arange(CELLS * CELLS * ORIENTATIONS).reshape(CELLS, CELLS, ORIENTATIONS)
