"""The baselines SPoC and R-MAC: one vector from a feature map, without an embedding.

A map is (d, h, w): d channels, h rows, w columns. Vectors have unit length; a map of zeros gives zeros.

[BL15] Babenko, Lempitsky: Aggregating deep convolutional features for image retrieval, ICCV 2015.
[TSJ16] Tolias, Sicre, Jegou: Particular object retrieval with integral max-pooling of CNN activations, ICLR 2016.
"""

import numpy as np
from jaxtyping import Float

from faemb.arrays import Array, as_float, require_finite
from faemb.errors import InputError
from faemb.normalise import unit_length
from faemb.settings import require_whole

_OVERLAP = 0.4


def spoc(map: Array, *, centre_prior: bool = False) -> Float[np.ndarray, " d"]:
    """The sum over all locations [BL15]; with `centre_prior`, weighted by a Gaussian around the centre."""
    checked = _checked(map)
    weights = _centre_weights(*checked.shape[1:]) if centre_prior else np.ones(checked.shape[1:])
    return unit_length(np.einsum("dhw,hw->d", checked, weights.astype(checked.dtype)))


def rmac(map: Array, *, levels: int = 3) -> Float[np.ndarray, " d"]:
    """The sum of the regions' vectors [TSJ16], without the PCA-whitening of each."""
    return unit_length(rmac_regions(map, levels=levels).sum(axis=0))


def rmac_regions(map: Array, *, levels: int = 3) -> Float[np.ndarray, "R d"]:
    """One vector of unit length per region: the maximum of each channel in it."""
    checked = _checked(map)
    require_whole("levels", levels, 1)
    _, h, w = checked.shape
    regions = regions_of(h, w, levels)
    return unit_length(np.stack([checked[:, y : y + side, x : x + side].max(axis=(1, 2)) for y, x, side in regions]))


def regions_of(h: int, w: int, levels: int) -> list[tuple[int, int, int]]:
    """Squares y, x, side on a map of h rows and w columns [TSJ16].

    Level l has l squares of side 2 min(h, w) / (l + 1), rounded down, along the shorter axis and l + m - 1 along the
    longer one; m is chosen so that neighbours at level 1 overlap by nearly 40 %. On a small map squares have at least
    one cell, and may coincide.
    """
    extra = _squares_along(max(h, w), min(h, w)) - 1
    regions = []
    for level in range(1, levels + 1):
        side = max(1, 2 * min(h, w) // (level + 1))
        rows = _starts(h, side, level + extra * (h > w))
        columns = _starts(w, side, level + extra * (w > h))
        regions += [(y, x, side) for y in rows for x in columns]
    return regions


def _squares_along(longer: int, shorter: int) -> int:
    """m: 1 for a square map, otherwise at least 2, so that the squares reach both ends."""
    if longer == shorter:
        return 1
    steps = range(1, longer + 1)
    return 1 + min(steps, key=lambda step: abs(1 - (longer - shorter) / (step * shorter) - _OVERLAP))


def _starts(length: int, side: int, count: int) -> list[int]:
    """First cells of `count` squares, evenly spaced from end to end; a single one starts at 0."""
    return [index * (length - side) // max(1, count - 1) for index in range(count)]


def _centre_weights(h: int, w: int) -> Float[np.ndarray, "h w"]:
    """A Gaussian whose sigma is a third of the way from the centre to the nearest edge [BL15]."""
    sigma = min(h, w) / 2 / 3
    y, x = np.arange(h)[:, None] - (h - 1) / 2, np.arange(w) - (w - 1) / 2
    return np.exp(-(y**2 + x**2) / (2 * sigma**2))


def _checked(map: Array) -> Float[np.ndarray, "d h w"]:
    array = np.asarray(as_float(map, "the map's values"))
    if array.ndim != 3 or 0 in array.shape:
        raise InputError(f"a map has shape {array.shape}; expected (channels, rows, columns), none of them empty")
    require_finite(array, "the map's values")
    return array
