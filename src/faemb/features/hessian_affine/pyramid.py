"""Gaussian scale space: octaves of half the size, each with levels sigma_k = sigma * 2^(k / per_octave).

Level k of octave o has blur sigma_k in the octave's own pixels, each of which covers 2^o pixels of the image. An octave
has two levels more than `per_octave`, so that extrema over scale can be told at every scale in between.
"""

from collections.abc import Iterator
from typing import NamedTuple

import cv2
import numpy as np
from jaxtyping import Float

IMAGE_BLUR = 0.5
"""What a camera is taken to have blurred already, in its pixels [Lowe 2004, Sec. 3.3]."""
LEAST_SIDE = 13
"""An octave with a smaller side has no pixel beyond the border within which extrema are not sought."""


class Octave(NamedTuple):
    pixel: float
    """Pixels of the image per pixel of this octave: 1, 2, 4, ... (first 0.5 if the image was enlarged)."""
    levels: list[Float[np.ndarray, "_ _"]]


def octaves(
    grey: Float[np.ndarray, "H W"], *, sigma: float, per_octave: int, enlarge: bool = False
) -> Iterator[Octave]:
    """All octaves, finest first; an image under 13 pixels has none."""
    pixel, base, blur = 1.0, grey, IMAGE_BLUR
    if enlarge and min(grey.shape) >= LEAST_SIDE:
        pixel, base, blur = 0.5, enlarged(grey), 2 * IMAGE_BLUR
    if min(base.shape) < LEAST_SIDE:
        return
    base = blurred(base, (sigma**2 - blur**2) ** 0.5)
    while min(base.shape) >= LEAST_SIDE:
        levels = [base]
        for k in range(per_octave + 1):
            levels.append(blurred(levels[-1], _step(sigma, k, per_octave)))
        yield Octave(pixel, levels)
        base = np.ascontiguousarray(levels[per_octave][::2, ::2])
        pixel *= 2


def enlarged(grey: Float[np.ndarray, "H W"]) -> Float[np.ndarray, "H2 W2"]:
    """Twice the size, with pixel (2r, 2c) where (r, c) was: coordinates double, they do not shift."""
    height, width = grey.shape
    half = np.array([[0.5, 0, 0], [0, 0.5, 0]])
    size = (2 * width - 1, 2 * height - 1)
    return cv2.warpAffine(grey, half, size, flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)


def blurred(image: Float[np.ndarray, "H W"], sigma: float) -> Float[np.ndarray, "H W"]:
    return cv2.GaussianBlur(image, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE)


def _step(sigma: float, k: int, per_octave: int) -> float:
    """The blur that takes level k to level k + 1: variances add."""
    below, above = (sigma * 2.0 ** (level / per_octave) for level in (k, k + 1))
    return float((above**2 - below**2) ** 0.5)
