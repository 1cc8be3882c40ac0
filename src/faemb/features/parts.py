"""Overlapping parts of an image: n x n boxes, each with the features whose centres lie in it.

The sides of a box are 1.2 / n of the image's sides, so that neighbours overlap: an object on the border of one box can
lie inside the next.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float

from faemb.features.local_features import LocalFeatures

MOST_PER_SIDE = 5
"""Largest n."""
_OVERLAP = 1.2


def parts_of(features: LocalFeatures, per_side: int) -> list[LocalFeatures]:
    """The features of each of n x n parts, row by row from the top left; an empty list for n = 0.

    All parts are empty for features without geometry.
    """
    places = features.centres / _extent(features)
    return [features.select(inside) for inside in _inside(places, per_side)]


def _inside(places: Float[np.ndarray, "N 2"], per_side: int) -> Iterator[Bool[np.ndarray, " N"]]:
    """Mask of the features of each part; `places` are relative to the sides of the image."""
    side = min(1.0, _OVERLAP / max(per_side, 1))
    starts = np.linspace(0, 1 - side, per_side)
    for top in starts:
        for left in starts:
            corner = np.array([left, top])
            yield np.asarray(((places >= corner) & (places <= corner + side)).all(1))


def _extent(features: LocalFeatures) -> Float[np.ndarray, " 2"]:
    """Width and height; for an image of unknown size, those of the bounding box of all features."""
    if any(features.image_size):
        return np.array(features.image_size, np.float64)
    return np.maximum(features.centres.max(0, initial=1.0), 1.0).astype(np.float64)
