"""Peak memory of decoding an image, computed from its header before anything is decoded.

Bytes per pixel, where Pillow stores 1 for 1, L, P; 2 for I;16; 4 for all other modes:

    decoding      stored pixels + buffers of the decoder: coefficients of a JPEG with several scans; a strip or tile of
                  a TIFF and as much for its compressed bytes, later a rotated copy of the image; for WebP, AVIF and
                  HEIC their own copies of the pixels
    conversion    stored pixels + a copy in L or RGB if the mode differs; with transparency, a copy in LA or RGBA and
                  the result; for 16 bits and float, an array of the values and one of float32
    reduction     the image resized in width only, and the result
    afterwards    the pixels, their grey levels, and these as float32

Only one stage is in memory at a time, but the buffers of WebP, AVIF and HEIC stay until the end of the reduction.
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
"""Number of rows that are copied from Pillow to NumPy at a time."""

OVERHEAD = 6_000_000
"""Bytes of small buffers, and of memory that was freed but not returned to the system yet."""

Size = tuple[int, int]


class _Held(NamedTuple):
    """Bytes of a decoder's buffers, without the stored pixels: while it decodes, and until the image is closed."""

    decoding: int = 0
    after: int = 0


def bytes_needed(image: PIL.Image.Image, target: Size, coefficients: int) -> int:
    """Peak memory; `target`: size after reduction; `coefficients`: pixels of a JPEG with several scans, else 0."""
    result = _area(target)
    stored = _area(image.size) * _stored(image.mode)
    held = _held_by_decoder(image, coefficients)
    copies = _deep_copies(image, target) if image.mode in DEEP_MODES else _copies(image, target)
    channels = 1 if image.mode in (*DEEP_MODES, *GREY_MODES) else 3
    return OVERHEAD + max(stored + held.decoding, stored + held.after + copies, (channels + 6) * result)


def _deep_copies(image: PIL.Image.Image, target: Size) -> int:
    """Bytes of the values, the float32 levels (for F also clipped values), and the reduced levels before and after
    clipping."""
    values = _area(image.size) * (8 if image.mode == "F" else 6)
    return values + (8 * _area(target) if image.size != target else 0)


def _copies(image: PIL.Image.Image, target: Size) -> int:
    """Bytes of the copies made by `opaque`, `resized` and `array_from`."""
    channels, cell = (1, 1) if image.mode in GREY_MODES else (3, 4)
    opaque = _area(image.size) * _conversion(image, cell)
    resized = cell * (target[0] * image.size[1] + _area(target)) if image.size != target else 0
    band = 2 * cell * min(BAND, target[1]) * target[0]
    return opaque + resized + channels * _area(target) + band


def _conversion(image: PIL.Image.Image, cell: int) -> int:
    """Bytes per pixel of the copies that `opaque` makes; `cell`: bytes per pixel of its result."""
    if image.has_transparency_data:
        return cell + (0 if image.mode in ("LA", "RGBA") else 4)
    return 0 if image.mode in ("L", "RGB") else cell


def _held_by_decoder(image: PIL.Image.Image, coefficients: int) -> _Held:
    if not getattr(image, "tile", None) and image.format not in ("WEBP", "HEIF"):  # these two never have tiles
        return _Held()  # the pixels are decoded already
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
    """2 bytes per sample of each component; a component may be subsampled."""
    samples = [(max(1, down), max(1, across)) for _, down, across, _ in image.layer]
    full = max(down for down, _ in samples) * max(across for _, across in samples)
    return 2 * pixels * sum(down * across for down, across in samples) // full


def _strip(image: TiffImageFile) -> int:
    """Bytes of the strip or tile that libtiff decodes at a time, in the file or in Pillow, whichever is larger."""
    width, height = image.size
    tags = image.tag_v2
    rows = tags.get(TILELENGTH) or min(height, tags.get(ROWSPERSTRIP) or height)
    bits = sum(tags.get(BITSPERSAMPLE, (8,)))
    return (tags.get(TILEWIDTH) or width) * rows * max(_stored(image.mode), -(-bits // 8))


def _stored(mode: str) -> int:
    return 2 if mode.startswith("I;16") else 1 if mode in ("1", "L", "P") else 4


def _area(size: Size) -> int:
    return size[0] * size[1]
