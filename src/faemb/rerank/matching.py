"""Correspondences between the local features of two images: mutual nearest neighbours that pass a ratio test."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from faemb.features import LocalFeatures
from faemb.normalise import unit_length

RATIO = 0.9
"""A match is kept if its distance is less than this times the distance to the second nearest descriptor."""
MOST_FEATURES = 4000
"""Of an image with more features, the strongest of them are compared, so that memory and time are bounded."""
MOST_MATCHES = 400
"""Of more matches, the nearest are kept: the work of verification grows with their square."""


@dataclass(frozen=True, eq=False)
class Matchable:
    """Local features of an image, prepared to be matched with those of many others."""

    descriptors: Float[np.ndarray, "N d"]
    """Of unit length."""
    centres: Float[np.ndarray, "N 2"]
    """In pixels."""
    shapes: Float[np.ndarray, "N 2 2"]
    """Maps of the unit disc to the described regions, in pixels."""
    rows: Int[np.ndarray, " N"]
    """Number of each feature in the features of the image."""
    size: tuple[float, float]
    """Width and height of the image."""

    @classmethod
    def of(cls, features: LocalFeatures) -> "Matchable":
        """Features without geometry, which nothing can be said about, are left out."""
        usable = np.isfinite(features.frames).all(1) & (np.abs(np.linalg.det(features.shapes)) > 0)
        rows = np.flatnonzero(usable)
        if len(rows) > MOST_FEATURES:
            rows = np.sort(rows[np.argsort(-features.scores[rows], kind="stable")[:MOST_FEATURES]])
        chosen = features.select(rows)
        descriptors = unit_length(chosen.descriptors.astype(np.float32, copy=False))
        frames = chosen.frames.astype(np.float64)
        return cls(descriptors, frames[:, :2], frames[:, 2:].reshape(-1, 2, 2), rows, _size(features, frames[:, :2]))

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Matchable({len(self)} features of an image of {self.size[0]:g} x {self.size[1]:g} pixels)"

    @property
    def diagonal(self) -> float:
        return float(np.hypot(*self.size))


def matches(a: Matchable, b: Matchable, ratio: float = RATIO) -> Int[np.ndarray, "M 2"]:
    """Rows of `a` and `b` that are each other's nearest, each row at most once, the nearest pairs first."""
    if not len(a) or not len(b):
        return np.zeros((0, 2), np.int64)
    similarity = a.descriptors @ b.descriptors.T
    forth = similarity.argmax(1)
    nearest = similarity[np.arange(len(a)), forth]
    mutual = np.flatnonzero(nearest == similarity.max(0)[forth])
    mutual = mutual[np.unique(forth[mutual], return_index=True)[1]]  # equal descriptors: the first of them
    nearest, forth = nearest[mutual], forth[mutual]
    # Only the rows of mutual matches need their second nearest.
    others = similarity[mutual]
    others[np.arange(len(mutual)), forth] = -1
    kept = 1 - nearest < ratio**2 * (1 - others.max(1))  # squared distances of unit vectors, halved
    order = np.argsort(-nearest[kept], kind="stable")[:MOST_MATCHES]
    return np.stack([mutual[kept][order], forth[kept][order]], axis=1)


def _size(features: LocalFeatures, centres: Float[np.ndarray, "N 2"]) -> tuple[float, float]:
    """Width and height; of an unknown image, those of the rectangle that holds all features."""
    if any(features.image_size):
        return float(features.image_size[0]), float(features.image_size[1])
    width, height = centres.max(0, initial=1.0)
    return float(width), float(height)
