"""Correspondences between the local features of two images: mutual nearest neighbours that pass a ratio test."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from faemb.features import LocalFeatures
from faemb.normalise import unit_length
from faemb.rerank.transforms import determinants

RATIO = 0.9
"""A match is kept if its distance is less than this times the distance to the second nearest descriptor."""
MOST_FEATURES = 4000
"""Of an image with more features, the strongest of them are compared, so that memory and time are bounded."""
MOST_MATCHES = 400
"""Of more matches, the nearest are kept: the work of verification grows with their square."""
_AT_ONCE = 1 << 20
"""Similarities that are in memory at once."""
_SMALL = 1e-20
"""Squared length of a descriptor that float32 holds with full precision."""


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
        frames = features.frames.astype(np.float64)
        rows = np.flatnonzero(np.isfinite(frames).all(1) & (determinants(frames[:, 2:].reshape(-1, 2, 2)) != 0))
        if len(rows) > MOST_FEATURES:
            rows = np.sort(rows[np.argsort(-features.scores[rows], kind="stable")[:MOST_FEATURES]])
        chosen: slice | np.ndarray = rows if len(rows) < len(features) else slice(None)  # no copy of all of them
        descriptors = _of_unit_length(features.descriptors[chosen].astype(np.float32, copy=False))
        frames = frames[chosen]
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
    nearest, second = np.empty((2, len(a)), np.float32)
    forth, back = np.empty(len(a), np.int64), np.full(len(b), -np.inf, np.float32)
    step = max(1, _AT_ONCE // len(b))
    for start in range(0, len(a), step):
        part = slice(start, start + step)
        similarity = a.descriptors[part] @ b.descriptors.T
        best, rows = similarity.argmax(1), np.arange(len(similarity))
        forth[part], nearest[part] = best, similarity[rows, best]
        np.maximum(back, similarity.max(0), out=back)
        similarity[rows, best] = -1
        second[part] = similarity.max(1)
    # Squared distances of unit vectors, halved; products of equal ones are sometimes rounded to more than 1.
    distance, other = np.maximum(1 - nearest, 0), np.maximum(1 - second, 0)
    kept = np.flatnonzero((nearest == back[forth]) & (distance < ratio**2 * other))
    kept = kept[np.unique(forth[kept], return_index=True)[1]]  # equal descriptors: the first of them
    kept = kept[np.argsort(-nearest[kept], kind="stable")[:MOST_MATCHES]]
    return np.stack([kept, forth[kept]], axis=1)


def _of_unit_length(descriptors: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N d"]:
    squares = np.einsum("nd,nd->n", descriptors, descriptors)
    if ((squares > _SMALL) & (squares < 1 / _SMALL)).all():
        return descriptors / np.sqrt(squares)[:, None]
    return unit_length(descriptors)  # three times as slow, and right for zeros, tiny and huge values too


def _size(features: LocalFeatures, centres: Float[np.ndarray, "N 2"]) -> tuple[float, float]:
    """Width and height; of an unknown image, those of the rectangle that holds all features."""
    if any(features.image_size):
        return float(features.image_size[0]), float(features.image_size[1])
    width, height = centres.max(0, initial=1.0)
    return float(width), float(height)
