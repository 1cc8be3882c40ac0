"""Features of an image turned by quarter turns, in the coordinates of the image as it was given.

Upright features of a picture and of the same picture lying on its side do not match. Those of the turned picture,
with the regions where they are in the picture itself, do.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from faemb.features.extractor import Extractor
from faemb.features.image import Image, ImageLike, as_image
from faemb.features.local_features import LocalFeatures, frames_from

_BACK = np.array([[0.0, -1.0], [1.0, 0.0]])
"""A quarter turn clockwise, as displayed."""


def when_turned(extractor: Extractor, image: ImageLike) -> Iterator[LocalFeatures]:
    """The features of the image turned by 90, 180 and 270 degrees counterclockwise, turned back."""
    given = as_image(image, extractor.max_side)
    for quarters in (1, 2, 3):
        pixels = np.ascontiguousarray(np.rot90(given.pixels, quarters))
        size = given.size[::-1] if quarters % 2 else given.size
        yield turned_back(extractor.extract(Image(pixels, size, given.name)), quarters)


def turned_back(features: LocalFeatures, quarters: int) -> LocalFeatures:
    """Features of an image that was turned counterclockwise, where they are in the image before that."""
    for _ in range(quarters):
        width, height = features.image_size[::-1]  # before this quarter turn
        x, y = features.centres.T
        frames = frames_from(np.stack([width - 1 - y, x], axis=1), _BACK @ features.shapes)
        features = replace(features, frames=frames, image_size=(width, height), grids=None)
    return features
