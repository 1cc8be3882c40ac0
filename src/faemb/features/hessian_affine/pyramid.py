"""Gaussian scale space: octaves, each half the size of the one before, of levels sigma_k = sigma * 2^(k / per_octave).

Level k of octave o has blur sigma_k in the octave's own pixels, which are 2^o pixels of the image wide. An octave has
two levels more than `per_octave`: an extremum over scale needs a level below and a level above.
"""

from collections.abc import Iterator
from typing import NamedTuple

import cv2
import numpy as np
from jaxtyping import Float

IMAGE_BLUR = 0.5
"""Assumed blur of a photograph, in its pixels [Lowe 2004, Sec. 3.3]."""
LEAST_SIDE = 13
"""Smallest side of an octave; a smaller one consists only of the border in which extrema are not searched."""


class Octave(NamedTuple):
    pixel: float
    """Pixels of the image per pixel of this octave: 1, 2, 4, ... (first 0.5 if the image was enlarged)."""
    levels: list[Float[np.ndarray, "_ _"]]


def octaves(
    grey: Float[np.ndarray, "H W"], *, sigma: float, per_octave: int, enlarge: bool = False
) -> Iterator[Octave]:
    """All octaves, finest first; none for an image with a side under 13 pixels."""
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
    """Twice the size, with pixel (r, c) at (2r, 2c): coordinates double and do not shift."""
    height, width = grey.shape
    half = np.array([[0.5, 0, 0], [0, 0.5, 0]])
    size = (2 * width - 1, 2 * height - 1)
    return cv2.warpAffine(grey, half, size, flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)


def blurred(image: Float[np.ndarray, "H W"], sigma: float) -> Float[np.ndarray, "H W"]:
    return cv2.GaussianBlur(image, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE)


def _step(sigma: float, k: int, per_octave: int) -> float:
    """The blur between level k and level k + 1, since variances add."""
    below, above = (sigma * 2.0 ** (level / per_octave) for level in (k, k + 1))
    return float((above**2 - below**2) ** 0.5)
