"""Captions, dates and logos that are written over different pictures in the same place: they match exactly, but say
nothing about what the pictures show.

Matches that agree are a caption's if they span a small part of both pictures, most features of both lie outside it,
and each lies in the same place of both: at the same distance from a corner, an edge or the middle, in pixels or in
proportion to the pictures. A small thing that two photographs show is hardly ever in the same place of both.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from faemb.rerank.matching import Matchable

LEAST_EXTENT = 0.1
"""Captions span up to 0.05 of a picture's area."""
_BORDERS = (2, 98)
"""Percentiles of the coordinates that bound the extent, so that a few wrong matches do not enlarge it."""
_MOST = 0.5
"""Largest share of a picture's features inside the span of a caption."""
_STILL, _SHARE = 0.005, 0.9
"""In the same place: within this distance, in diagonals; and the share of the matches for which that holds."""
_ANCHORS = np.array([(across, down) for across in (0, 0.5, 1) for down in (0, 0.5, 1)])
"""Shares of the width and the height, from where the place is measured."""


def outside_caption(
    first: Matchable, second: Matchable, pairs: Int[np.ndarray, "M 2"], agreeing: Bool[np.ndarray, " M"]
) -> Bool[np.ndarray, " M"]:
    """The matches that are not of a caption, given those that agree with one transform; all if there is none."""
    everything, inside, of_caption = np.ones(len(pairs), bool), np.ones(len(pairs), bool), agreeing.copy()
    of_caption[agreeing] = _in_the_same_place(first, second, pairs[agreeing])
    if of_caption.sum() < _SHARE * agreeing.sum():
        return everything
    for image, rows in ((first, pairs[:, 0]), (second, pairs[:, 1])):
        box = span(image, rows[of_caption])
        if extent(image, box) >= LEAST_EXTENT or _inside(box, image.centres).mean() > _MOST:
            return everything
        inside &= _inside(box, image.centres[rows])
    return ~(agreeing | inside)


def span(image: Matchable, rows: Int[np.ndarray, " M"]) -> Float[np.ndarray, "2 2"]:
    """Smallest and largest coordinates of features."""
    return np.percentile(image.centres[rows], _BORDERS, axis=0)


def extent(image: Matchable, box: Float[np.ndarray, "2 2"]) -> float:
    """Share of the picture's area."""
    return float(np.prod(box[1] - box[0]) / (image.size[0] * image.size[1]))


def _inside(box: Float[np.ndarray, "2 2"], centres: Float[np.ndarray, "n 2"]) -> Bool[np.ndarray, " n"]:
    return ((centres >= box[0]) & (centres <= box[1])).all(1)


def _in_the_same_place(first: Matchable, second: Matchable, pairs: Int[np.ndarray, "M 2"]) -> Bool[np.ndarray, " M"]:
    """Matches for which it is so, from the anchor and at the scale for which there are most."""
    x, y = first.centres[pairs[:, 0]], second.centres[pairs[:, 1]]
    a, b = np.array(first.size), np.array(second.size)
    scales = np.array([1.0, *(b / a)])[:, None, None]
    missed = (y - scales * x)[:, None] - (_ANCHORS * (b - scales * a))[:, :, None]
    still = np.hypot(*np.moveaxis(missed, -1, 0)) < _STILL * second.diagonal
    return np.asarray(still.reshape(-1, len(x))[still.sum(2).argmax()])
