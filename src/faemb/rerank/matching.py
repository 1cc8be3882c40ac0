"""Correspondences between the local features of two images: mutual nearest neighbours that pass a ratio test.

Nearest neighbours are searched in a subspace that holds almost all energy of the first image's descriptors, about 50 of
128 dimensions for RootSIFT, since the products of all pairs are most of the work. The ratio test uses all dimensions.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from faemb.features import LocalFeatures
from faemb.normalise import unit_length
from faemb.rerank.transforms import determinants

RATIO = 0.9
"""A match is kept if its distance is less than this times the distance to the second nearest descriptor."""
MOST_FEATURES = 4000
"""Largest number of features of an image that are matched, the strongest ones: it bounds memory and time."""
MOST_MATCHES = 400
"""Largest number of matches, the nearest ones: the cost of verification grows with the square of their number."""
SUBSPACE = 0.98
"""Share of the energy (sum of squares) of the first image's descriptors that the subspace holds."""
_AT_ONCE = 1 << 20
"""Number of similarities in memory at once."""
_SMALL = 1e-20
"""Descriptors with squared lengths between this and its inverse are normalised in float32 without loss."""


@dataclass(frozen=True, eq=False)
class Matchable:
    """Local features of an image, prepared to be matched with those of many others."""

    descriptors: Float[np.ndarray, "N d"]
    """Descriptors of unit length."""
    centres: Float[np.ndarray, "N 2"]
    """Positions in pixels."""
    shapes: Float[np.ndarray, "N 2 2"]
    """Maps of the unit disc to the described regions, in pixels."""
    rows: Int[np.ndarray, " N"]
    """Row of each feature in the image's `LocalFeatures`, ascending."""
    size: tuple[float, float]
    """Width and height of the image."""

    @classmethod
    def of(cls, features: LocalFeatures) -> "Matchable":
        """Features without geometry, and descriptors that are not finite, are left out."""
        frames = features.frames.astype(np.float64)
        usable = np.isfinite(frames).all(1) & np.isfinite(features.descriptors).all(1)
        rows = np.flatnonzero(usable & (determinants(frames[:, 2:].reshape(-1, 2, 2)) != 0))
        if len(rows) > MOST_FEATURES:
            rows = np.sort(rows[np.argsort(-features.scores[rows], kind="stable")[:MOST_FEATURES]])
        chosen: slice | np.ndarray = rows if len(rows) < len(features) else slice(None)  # avoids a copy
        descriptors = _of_unit_length(features.descriptors[chosen].astype(np.float32, copy=False))
        frames = frames[chosen]
        return cls(descriptors, frames[:, :2], frames[:, 2:].reshape(-1, 2, 2), rows, _size(features, frames[:, :2]))

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Matchable({len(self)} features of an image of {self.size[0]:g} x {self.size[1]:g} pixels)"

    @cached_property
    def subspace(self) -> Float[np.ndarray, "d k"]:
        """Orthonormal basis of the principal directions that hold the share `SUBSPACE` of the descriptors' energy."""
        squares, directions = np.linalg.eigh(self.descriptors.T @ self.descriptors)
        enough = np.searchsorted(np.cumsum(squares[::-1]), SUBSPACE * squares.sum()) + 1
        return np.ascontiguousarray(directions[:, ::-1][:, :enough])

    @cached_property
    def shortened(self) -> Float[np.ndarray, "N k"]:
        """The descriptors' coordinates in the subspace."""
        return self.descriptors @ self.subspace

    @property
    def diagonal(self) -> float:
        return float(np.hypot(*self.size))


def matches(a: Matchable, b: Matchable, ratio: float = RATIO) -> Int[np.ndarray, "M 2"]:
    """Rows of `a` and `b` that are mutual nearest neighbours, each at most once, in order of distance."""
    if not len(a) or not len(b):
        return np.zeros((0, 2), np.int64)
    rows, first, second = _mutual(a.shortened, b.descriptors @ a.subspace)
    distance = _distance(a.descriptors[rows], b.descriptors[first])
    other = _distance(a.descriptors[rows], b.descriptors[second]) if len(b) > 1 else np.inf
    kept = np.flatnonzero(distance < ratio**2 * other)
    kept = kept[np.unique(first[kept], return_index=True)[1]]  # of equal descriptors, the first
    kept = kept[np.argsort(distance[kept], kind="stable")[:MOST_MATCHES]]
    return np.stack([rows[kept], first[kept]], axis=1)


def _mutual(
    a: Float[np.ndarray, "N k"], b: Float[np.ndarray, "M k"]
) -> tuple[Int[np.ndarray, " R"], Int[np.ndarray, " R"], Int[np.ndarray, " R"]]:
    """Rows of `a` with a mutual nearest neighbour in `b`, that neighbour, and the second nearest in `b`."""
    forth, second = np.empty((2, len(a)), np.int64)
    nearest, back = np.empty(len(a), np.float32), np.full(len(b), -np.inf, np.float32)
    step = max(1, _AT_ONCE // len(b))
    for start in range(0, len(a), step):
        part = slice(start, start + step)
        similarity = a[part] @ b.T
        best, rows = similarity.argmax(1), np.arange(len(similarity))
        forth[part], nearest[part] = best, similarity[rows, best]
        np.maximum(back, similarity.max(0), out=back)
        similarity[rows, best] = -np.inf
        second[part] = similarity.argmax(1)
    mutual = np.flatnonzero(nearest == back[forth])
    return mutual, forth[mutual], second[mutual]


def _distance(a: Float[np.ndarray, "N d"], b: Float[np.ndarray, "N d"]) -> Float[np.ndarray, " N"]:
    """Half the squared distances of unit vectors, at least 0: the product of equal ones may be rounded above 1."""
    return np.maximum(1 - np.einsum("nd,nd->n", a, b), 0)


def _of_unit_length(descriptors: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N d"]:
    squares = np.einsum("nd,nd->n", descriptors, descriptors)
    if ((squares > _SMALL) & (squares < 1 / _SMALL)).all():
        return descriptors / np.sqrt(squares)[:, None]
    return unit_length(descriptors)  # three times as slow, but exact for zero, tiny and huge values too


def _size(features: LocalFeatures, centres: Float[np.ndarray, "N 2"]) -> tuple[float, float]:
    """Width and height of the image; if unknown, of the rectangle that holds all features."""
    if all(features.image_size):
        return float(features.image_size[0]), float(features.image_size[1])
    width, height = centres.max(0, initial=1.0)
    return float(width), float(height)
