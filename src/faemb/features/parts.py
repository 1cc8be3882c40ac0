"""Overlapping parts of an image: n x n boxes, each with the features whose centres lie in it.

A side of a box is 1.2 / n of the image's side, so that neighbours overlap: what one box cuts, the next one shows.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float

from faemb.features.local_features import LocalFeatures

MOST_PER_SIDE = 5
"""Largest n."""
_OVERLAP = 1.2


def parts_of(features: LocalFeatures, per_side: int) -> list[LocalFeatures]:
    """The features of each of n x n parts, from the left to the right and then downwards; none for n = 0.

    They are all empty for features without geometry, which nothing can place.
    """
    places = features.centres / _extent(features)
    return [features.select(inside) for inside in _inside(places, per_side)]


def _inside(places: Float[np.ndarray, "N 2"], per_side: int) -> Iterator[Bool[np.ndarray, " N"]]:
    """Which features each part holds; places are in sides of the image."""
    side = min(1.0, _OVERLAP / max(per_side, 1))
    starts = np.linspace(0, 1 - side, per_side)
    for top in starts:
        for left in starts:
            corner = np.array([left, top])
            yield np.asarray(((places >= corner) & (places <= corner + side)).all(1))


def _extent(features: LocalFeatures) -> Float[np.ndarray, " 2"]:
    """Width and height; of an image of unknown size, those of the rectangle that holds all features."""
    if any(features.image_size):
        return np.array(features.image_size, np.float64)
    return np.maximum(features.centres.max(0, initial=1.0), 1.0).astype(np.float64)
