"""Memory that an image will take at most at one time, counted from its header before anything is decoded.

Bytes per pixel, where Pillow stores 1 for 1, L, P; 2 for I;16; 4 for all other modes:

    decoding      stored pixels + what the decoder holds: coefficients of a JPEG with several scans, a strip or tile of
                  a TIFF and as much for its compressed bytes, later its turned copy; for WebP, AVIF and HEIC their own
                  copies of the pixels
    conversion    stored pixels + a copy in L or RGB if the mode is another; transparency: in LA or RGBA and the result.
                  16 bits, float: an array of the values and one of float32
    reduction     the result after its first direction, that is of the new width, and after both
    afterwards    the pixels, their grey levels and these as float32

Stages follow each other; the decoder's copies of WebP, AVIF and HEIC stay until the last but one has ended.
"""

from typing import NamedTuple

import PIL.Image
from PIL.BmpImagePlugin import BmpImageFile
from PIL.ExifTags import Base as Tag
from PIL.JpegImagePlugin import JpegImageFile
from PIL.TiffImagePlugin import BITSPERSAMPLE, ROWSPERSTRIP, TILELENGTH, TILEWIDTH, TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

DEEP_MODES = ("I;16", "I;16L", "I;16B", "I;16N", "I", "F")
GREY_MODES = ("1", "L", "LA", "La")

BAND = 256
"""Rows that are copied from Pillow to NumPy at a time."""

OVERHEAD = 6_000_000
"""Small buffers, and memory that was freed and not given back to the system yet."""

Size = tuple[int, int]


class _Held(NamedTuple):
    """Bytes that a decoder holds beside the stored pixels: while it decodes, and until the image is closed."""

    decoding: int = 0
    after: int = 0


def bytes_needed(image: PIL.Image.Image, target: Size, coefficients: int) -> int:
    """`target`: size after the reduction; `coefficients`: pixels of a JPEG with several scans in its header, or 0."""
    result = _area(target)
    stored = _area(image.size) * _stored(image.mode)
    held = _held_by_decoder(image, coefficients)
    copies = _deep_copies(image, target) if image.mode in DEEP_MODES else _copies(image, target)
    channels = 1 if image.mode in (*DEEP_MODES, *GREY_MODES) else 3
    return OVERHEAD + max(stored + held.decoding, stored + held.after + copies, (channels + 6) * result)


def _deep_copies(image: PIL.Image.Image, target: Size) -> int:
    """Values, float32 levels (of F also its clipped values), and the reduced levels, also before they are clipped."""
    values = _area(image.size) * (8 if image.mode == "F" else 6)
    return values + (8 * _area(target) if image.size != target else 0)


def _copies(image: PIL.Image.Image, target: Size) -> int:
    """What `opaque`, `resized` and `array_from` make."""
    channels, cell = (1, 1) if image.mode in GREY_MODES else (3, 4)
    opaque = _area(image.size) * _conversion(image, cell)
    resized = cell * (target[0] * image.size[1] + _area(target)) if image.size != target else 0
    band = 2 * cell * min(BAND, target[1]) * target[0]
    return opaque + resized + channels * _area(target) + band


def _conversion(image: PIL.Image.Image, cell: int) -> int:
    """Bytes per pixel of the copies that `opaque` makes; `cell`: of its result."""
    if image.has_transparency_data:
        return cell + (0 if image.mode in ("LA", "RGBA") else 4)
    return 0 if image.mode in ("L", "RGB") else cell


def _held_by_decoder(image: PIL.Image.Image, coefficients: int) -> _Held:
    if not getattr(image, "tile", None) and image.format not in ("WEBP", "HEIF"):  # these two never have tiles
        return _Held()  # the pixels were decoded before
    pixels, channels = _area(image.size), len(image.getbands())
    if isinstance(image, JpegImageFile):
        return _Held(_coefficients(image, coefficients))
    if isinstance(image, TiffImageFile):
        turned = 0 if image.tag_v2.get(Tag.Orientation, 1) == 1 else pixels * _stored(image.mode)
        return _Held(max(2 * _strip(image) if image.tile[0].codec_name == "libtiff" else 0, turned))
    if isinstance(image, BmpImageFile):
        return _Held(2 * pixels if image.tile[0].codec_name == "bmp_rle" else 0)
    if isinstance(image, WebPImageFile):
        return _Held(12 * pixels, 12 * pixels)  # two canvases and the first picture, 4 bytes each
    if image.format in ("AVIF", "HEIF"):
        copies = (3 if image.format == "AVIF" else 2) * channels * pixels  # planes of up to 16 bits, and the picture
        return _Held(copies, copies)
    return _Held()


def _coefficients(image: JpegImageFile, pixels: int) -> int:
    """2 bytes for each sample of each component; a component may have a fraction of the full resolution."""
    samples = [(max(1, down), max(1, across)) for _, down, across, _ in image.layer]
    full = max(down for down, _ in samples) * max(across for _, across in samples)
    return 2 * pixels * sum(down * across for down, across in samples) // full


def _strip(image: TiffImageFile) -> int:
    """Bytes of the part of the image that libtiff decodes at a time, as stored in the file or as Pillow stores it."""
    width, height = image.size
    tags = image.tag_v2
    rows = tags.get(TILELENGTH) or min(height, tags.get(ROWSPERSTRIP) or height)
    bits = sum(tags.get(BITSPERSAMPLE, (8,)))
    return (tags.get(TILEWIDTH) or width) * rows * max(_stored(image.mode), -(-bits // 8))


def _stored(mode: str) -> int:
    return 2 if mode.startswith("I;16") else 1 if mode in ("1", "L", "P") else 4


def _area(size: Size) -> int:
    return size[0] * size[1]
