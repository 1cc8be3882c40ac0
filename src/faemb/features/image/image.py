"""The input of extractors: an image from a file, Pillow or an array; upright, levels 0..255, reduced in size.

A file or a Pillow image is read as a viewer shows it: its first image, EXIF orientation applied, transparency over
white, palettes and colour spaces converted to RGB. ICC profiles are ignored. Both are decoded in `decoding`; arrays and
other number types are converted in `levels`.
"""

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import PIL.Image
from jaxtyping import Float32

from faemb.errors import InputError
from faemb.features.image.decoding import decode, levels_of
from faemb.features.image.levels import MOST_SIDE, Levels, levels_from, reduced, reduced_size, require_addressable
from faemb.runtime.paths_and_urls import shown
from faemb.runtime.storage import AnyPath
from faemb.settings import require_whole

DEFAULT_MAX_SIDE = 1024
LEAST_SIDE = 16


@dataclass(frozen=True, eq=False)
class Image:
    """Pixels in row-major order. Do not write to them: they may share memory with the array that was given."""

    pixels: Levels
    """(H, W) grey or (H, W, 3) RGB; uint8, or float32 in 0..255 for 16-bit files and arrays and for float arrays."""
    size: tuple[int, int]
    """Width and height of the original image as a viewer shows it, before any reduction."""
    name: str
    """The file's path, "the image" or "the array"; used in messages."""

    def __repr__(self) -> str:
        (height, width), (original_width, original_height) = self.pixels.shape[:2], self.size
        return f"Image({self.name!r}, {original_width} x {original_height} pixels, read as {width} x {height})"

    def grey(self) -> Float32[np.ndarray, "H W"]:
        """0.299 R + 0.587 G + 0.114 B, from 0 to 255, rounded to whole numbers if the pixels are uint8."""
        grey = self.pixels if self.pixels.ndim == 2 else cv2.cvtColor(self.pixels, cv2.COLOR_RGB2GRAY)
        return grey.astype(np.float32)

    def rgb(self) -> Levels:
        """(H, W, 3), in the pixels' dtype."""
        return cv2.cvtColor(self.pixels, cv2.COLOR_GRAY2RGB) if self.pixels.ndim == 2 else self.pixels


if TYPE_CHECKING:
    ImageLike = AnyPath | PIL.Image.Image | np.ndarray | Image
else:
    ImageLike = Any  # tests check types at run time; other sources must reach the error message in as_image


def read_image(path: AnyPath, max_side: int | None = DEFAULT_MAX_SIDE) -> Image:
    """Read an image file; if its longer side exceeds `max_side`, reduce it with antialiasing. None: no limit.

    JPEG, PNG, WebP, TIFF, BMP, GIF, AVIF, and HEIC with the extra 'heic'; recognised by content, not by name.
    """
    return as_image(path, max_side)


def as_image(source: ImageLike, max_side: int | None) -> Image:
    """Read a file or a Pillow image, or take an array or an Image; reduced if a side is longer than `max_side`."""
    require_max_side(max_side)
    if isinstance(source, Image):
        return at_most(source, max_side)
    if isinstance(source, np.ndarray):
        pixels = levels_from(np.asarray(source), name_of(source))
        return at_most(Image(pixels, (pixels.shape[1], pixels.shape[0]), name_of(source)), max_side)
    if isinstance(source, PIL.Image.Image):
        return Image(*levels_of(source, max_side, name_of(source)), name_of(source))
    if not isinstance(source, str | os.PathLike) or not isinstance(os.fspath(source), str):
        raise InputError(
            f"an image is given as {type(source).__name__}; expected a path, a Pillow image, a NumPy array or an Image"
        )
    return Image(*decode(source, max_side), name_of(source))


def name_of(source: ImageLike) -> str:
    """Name for messages: the path of an image file, also of one opened by Pillow; else "the image" or "the array"."""
    if isinstance(source, Image):
        return source.name
    if isinstance(source, PIL.Image.Image):
        return os.fsdecode(getattr(source, "filename", "")) or "the image"
    return shown(source) if isinstance(source, str | os.PathLike) else "the array"


def at_most(image: Image, max_side: int | None) -> Image:
    height, width = image.pixels.shape[:2]
    require_addressable((width, height), max_side, image.name)
    return replace(image, pixels=reduced(image.pixels, reduced_size((width, height), max_side)))


def require_max_side(max_side: object) -> None:
    if max_side is not None:
        require_whole("max_side", max_side, LEAST_SIDE, MOST_SIDE)
