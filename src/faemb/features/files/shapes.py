"""Matrices A (unit disc to pixels) from what other tools store: angles turn x towards y, clockwise on the screen."""

import numpy as np
from jaxtyping import Float


def rotations(radians: Float[np.ndarray, " N"]) -> Float[np.ndarray, "N 2 2"]:
    cosine, sine = np.cos(radians), np.sin(radians)
    return np.stack([cosine, -sine, sine, cosine], axis=-1).reshape(-1, 2, 2)


def discs(radii: Float[np.ndarray, " N"], radians: Float[np.ndarray, " N"]) -> Float[np.ndarray, "N 2 2"]:
    return radii[:, None, None] * rotations(radians)


def points(count: int) -> Float[np.ndarray, "count 2 2"]:
    """Keypoints of unknown extent: a disc of one pixel's radius stands for "here"."""
    return np.tile(np.eye(2, dtype=np.float32), (count, 1, 1))


def without_geometry(count: int) -> Float[np.ndarray, "count 6"]:
    """Frames of descriptors that came alone: NaN, so that nothing can mistake them for a place."""
    return np.full((count, 6), np.nan, np.float32)
