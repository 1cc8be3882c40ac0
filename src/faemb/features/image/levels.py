"""Levels: pixel values on one scale, from 0 for black to 255 for white.

    uint8               as it is                     uint8
    bool                0 or 255                     uint8
    uint16              value * 255 / 65535          float32
    float32, float64    value * 255, from 0..1       float32

An image is (H, W) for grey or (H, W, 3) for RGB, of height H and width W. Transparent pixels are blended with white.
"""

import cv2
import numpy as np
from jaxtyping import Float32, UInt8

from faemb.errors import InputError

Levels = UInt8[np.ndarray, "_ _ ..."] | Float32[np.ndarray, "_ _ ..."]

MOST_SIDE = 32_766
"""Largest side after reduction: OpenCV addresses pixels with 16 bits when it samples patches."""
TOLERANCE = 1e-3
"""Largest distance of a float from 0..1, as caused by resampling; it is clipped."""


def levels_from(array: np.ndarray, name: str) -> Levels:
    """Levels of an array; shares its memory if nothing has to be converted."""
    require_shape(array, name)
    levels = np.ascontiguousarray(to_levels(array, name))
    if levels.shape[2:] == (1,):
        return levels[:, :, 0]
    return over_white(levels) if levels.shape[2:] == (4,) else levels


def require_shape(array: np.ndarray, name: str) -> None:
    channels = array.shape[2:] in ((), (1,), (3,), (4,))
    if array.ndim < 2 or not channels or 0 in array.shape:
        raise InputError(
            f"{name} has the shape {array.shape}; expected (H, W) grey, (H, W, 3) RGB or (H, W, 4) RGBA, not empty"
        )


def to_levels(array: np.ndarray, name: str) -> np.ndarray:
    match array.dtype.kind, array.dtype.itemsize:
        case "u", 1:
            return array
        case "b", 1:
            return array * np.uint8(255)
        case "u", 2:
            return np.multiply(array, np.float32(255 / 65535), dtype=np.float32)
        case "f", 4 | 8:
            require_unit_interval(array, name)
            clipped = np.clip(array, 0, 1).astype(np.float32, copy=False)
            return np.multiply(clipped, np.float32(255), out=clipped)
    raise InputError(
        f"{name} holds {array.dtype}; expected uint8, uint16, bool, or float32 or float64 in 0..1: convert it to uint8"
    )


def require_unit_interval(array: np.ndarray, name: str) -> None:
    least, most = float(array.min()), float(array.max())
    if not np.isfinite([least, most]).all():
        raise InputError(f"{name} holds NaN or infinity; expected numbers in 0..1: replace those values")
    if least < -TOLERANCE or most > 1 + TOLERANCE:
        reached = most if most > 1 + TOLERANCE else least
        raise InputError(f"{name} reaches {reached:g}, but floats are taken as 0..1: divide by 255 or use uint8")


def over_white(levels: Levels) -> Levels:
    """RGBA blended with white, so that the stored colours of transparent pixels do not matter."""
    white, opacity = np.float32(255), levels[:, :, 3:] / np.float32(255)
    blended = white + (levels[:, :, :3] - white) * opacity
    return np.rint(blended).astype(np.uint8) if levels.dtype == np.uint8 else blended


def reduced_size(size: tuple[int, int], max_side: int | None) -> tuple[int, int]:
    """Width and height in the same proportion, the longer one at most `max_side`; never enlarged and never 0."""
    longest = max(size)
    if max_side is None or longest <= max_side:
        return size
    width, height = (max(1, round(side * max_side / longest)) for side in size)
    return width, height


def require_addressable(size: tuple[int, int], max_side: int | None, name: str) -> None:
    if max(reduced_size(size, max_side)) > MOST_SIDE:
        width, height = size
        raise InputError(
            f"{name} is {width} x {height} pixels; without max_side a side has at most {MOST_SIDE}: give max_side"
        )


def reduced(levels: Levels, size: tuple[int, int]) -> Levels:
    """Reduce by area averages, clipped at 255: OpenCV may round the mean of floats to a larger value."""
    height, width = levels.shape[:2]
    if size == (width, height):
        return levels
    return np.minimum(cv2.resize(levels, size, interpolation=cv2.INTER_AREA), levels.dtype.type(255))
