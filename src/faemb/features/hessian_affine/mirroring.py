"""Features of the mirrored image, computed from those of the image: no pixels are needed.

An image mirrored from left to right shows each region mirrored. With M = diag(-1, 1), the region p = c + A u becomes
M c + (M A N) (N u), where N mirrors the patch as well, so that regions keep their orientation: from left to right if up
stays up in the patch, from top to bottom if the patch's x axis is its dominant gradient, whose x component M inverts.
The histogram of a mirrored patch has the same values in other places.
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
    """An angle t becomes half a turn minus t."""
    return _bins()[:, ::-1][..., (ORIENTATIONS // 2 - np.arange(ORIENTATIONS)) % ORIENTATIONS].ravel()


def _from_top_to_bottom() -> Int[np.ndarray, " 128"]:
    """An angle t becomes minus t."""
    return _bins()[::-1][..., -np.arange(ORIENTATIONS) % ORIENTATIONS].ravel()


def _bins() -> Int[np.ndarray, "4 4 8"]:
    """Numbers of a descriptor's values, by cell row, cell column and orientation."""
    return np.arange(CELLS * CELLS * ORIENTATIONS).reshape(CELLS, CELLS, ORIENTATIONS)
