"""An image as the extractors take it: read from a file or an array, upright, on one scale, reduced.

Files are shown as a viewer shows them: the first picture of the file, EXIF orientation applied, transparency over
white, palettes and colour spaces turned to RGB. ICC profiles are ignored. `levels` says how numbers become levels,
`decoding` how files do.
"""

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from jaxtyping import Float32

from faemb.errors import InputError
from faemb.features.image.decoding import decode
from faemb.features.image.levels import (
    MOST_SIDE,
    Levels,
    levels_from,
    reduced,
    reduced_size,
    require_addressable,
)
from faemb.settings import require_whole

DEFAULT_MAX_SIDE = 1024
LEAST_SIDE = 16


@dataclass(frozen=True, eq=False)
class Image:
    """Pixels in row-major order; not to be written to, since an array that needed no change is shared."""

    pixels: Levels
    """(H, W) grey or (H, W, 3) RGB; uint8, or float32 in 0..255 for files of 16 bits and float arrays."""
    size: tuple[int, int]
    """Width and height of the original image as a viewer shows it, before any reduction."""
    name: str
    """The file's path, or "the array"; for messages."""

    def grey(self) -> Float32[np.ndarray, "H W"]:
        """Levels 0..255, weights 0.299 0.587 0.114, rounded to whole levels where the pixels are uint8."""
        grey = self.pixels if self.pixels.ndim == 2 else cv2.cvtColor(self.pixels, cv2.COLOR_RGB2GRAY)
        return grey.astype(np.float32)

    def rgb(self) -> Levels:
        """(H, W, 3), of the same type as the pixels."""
        return cv2.cvtColor(self.pixels, cv2.COLOR_GRAY2RGB) if self.pixels.ndim == 2 else self.pixels


if TYPE_CHECKING:
    ImageLike = str | os.PathLike[str] | np.ndarray | Image
else:
    ImageLike = Any  # so that what is none of these is answered below, in tests as in use


def read_image(path: Any, max_side: Any = DEFAULT_MAX_SIDE) -> Image:
    """Read an image file; one larger than `max_side` is reduced to it, antialiased, and None is no limit.

    JPEG, PNG, WebP, TIFF, BMP, GIF, AVIF, and HEIC with the extra 'heic'; known by content, not by name.
    """
    require_max_side(max_side)
    require_path(path)
    pixels, size = decode(path, max_side)
    return Image(pixels, size, os.fspath(path))


def as_image(source: ImageLike, max_side: Any) -> Image:
    """A path is read; an array, or an Image, is taken as it is and reduced where it is larger than `max_side`."""
    require_max_side(max_side)
    if isinstance(source, Image):
        return at_most(source, max_side)
    if isinstance(source, np.ndarray):
        return at_most(image_from(source), max_side)
    return read_image(source, max_side)


def image_from(array: np.ndarray) -> Image:
    name = "the array"
    pixels = levels_from(np.asarray(array), name)
    height, width = pixels.shape[:2]
    return Image(pixels, (width, height), name)


def at_most(image: Image, max_side: int | None) -> Image:
    height, width = image.pixels.shape[:2]
    require_addressable((width, height), max_side, image.name)
    return replace(image, pixels=reduced(image.pixels, reduced_size((width, height), max_side)))


def require_max_side(max_side: Any) -> None:
    if max_side is not None:
        require_whole("max_side", max_side, LEAST_SIDE, MOST_SIDE)


def require_path(path: Any) -> None:
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise InputError(f"an image is given as {type(path).__name__}; expected a path, a NumPy array or an Image")
