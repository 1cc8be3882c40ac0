"""Decoding of image files and Pillow images to levels: size limits, EXIF orientation, all faults raised as InputError.

Size, number of scans and memory are checked in the header, before anything is decoded. A JPEG is decoded at a half, a
quarter or an eighth of its size where that is still at least the reduced size. By Pillow's mode:

    1, L, LA                     grey, 8 bits
    I;16 (any byte order), I     grey, 16 bits; I with values beyond 16 bits is refused
    F                            grey, 0..1 as for float arrays; other values are refused
    all others                   RGB, 8 bits; of 16-bit colours Pillow keeps the upper 8 bits

Transparent pixels are blended with white. ICC profiles are ignored, and so is EXIF data that cannot be read.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import PIL.Image
from PIL.JpegImagePlugin import JpegImageFile
from PIL.TiffImagePlugin import TiffImageFile

from faemb.errors import FaembError, InputError, ReadError, is_of_the_system, reason
from faemb.features.image.decoders import IN_PIECES, decoder_for
from faemb.features.image.exif import orientation_of
from faemb.features.image.levels import Levels, levels_from, reduced, reduced_size, require_addressable
from faemb.features.image.memory import BAND, DEEP_MODES, GREY_MODES, bytes_needed
from faemb.features.image.scans import require_few_scans
from faemb.features.image.silence import silence
from faemb.features.image.stream import BoundedStream
from faemb.runtime.limits import require_input_file, require_memory
from faemb.runtime.paths_and_urls import fetched, shown
from faemb.runtime.storage import AnyPath

MAX_PIXELS = 250_000_000
"""Larger images are refused. For WebP and TIFF Pillow itself refuses more than 178,956,970."""


def decode(path: AnyPath, max_side: int | None) -> tuple[Levels, tuple[int, int]]:
    """Levels of the upright image, reduced to `max_side`, and its width and height before that."""
    file = fetched(path)
    name = shown(path)
    if not require_input_file(file, "an image file"):
        raise InputError(f"{name} is empty, 0 bytes; expected an image file: copy or download it again")
    with faults(name), silence(), BoundedStream(file) as stream:
        pixels, size, orientation = decoded(stream, max_side, name)
    return upright(pixels, orientation), size[::-1] if orientation >= 5 else size


def levels_of(image: PIL.Image.Image, max_side: int | None, name: str) -> tuple[Levels, tuple[int, int]]:
    """The same for a Pillow image, which is not changed, except that Pillow loads its pixels."""
    try:
        with silence():
            pixels, size, _ = turned(read_again(image), max_side, name)
            orientation = orientation_of(image)
    except (FaembError, MemoryError):
        raise
    except Exception as error:  # such as a closed or truncated file, or a mode that Pillow cannot convert
        raise InputError(
            f"{name} has pixels that cannot be read: {reason(error)}; open it again, or convert it to RGB"
        ) from error
    return upright(pixels, orientation), size[::-1] if orientation >= 5 else size


def read_again(image: PIL.Image.Image) -> PIL.Image.Image:
    """Open a JPEG again whose pixels are not loaded yet, so that it is decoded at reduced size, as a file would be.

    Decoding at full size and reducing afterwards would give slightly different pixels. Other images are returned as
    they are.
    """
    if not isinstance(image, JpegImageFile) or not image.tile or image.fp is None or image.tell():
        return image
    image.fp.seek(0)
    again = JpegImageFile(image.fp)
    return again if (again.size, again.mode) == (image.size, image.mode) else image  # else: draft() was called


def decoded(stream: BoundedStream, max_side: int | None, name: str) -> tuple[Levels, tuple[int, int], int]:
    """Levels and size as stored in the file, and its orientation; Pillow's copy is freed on return."""
    head = stream.read(256)
    stream.seek(0)
    decoder = decoder_for(head, name)
    if issubclass(decoder, TiffImageFile):
        stream.allow_large_header()
    elif not issubclass(decoder, IN_PIECES):
        require_memory(stream.held + 2 * stream.length, name)  # the file and a copy of it
        stream.allow_large_header()
    try:
        image = decoder(stream)  # a decoder reads the header only
        stream.begin_pixels()
        return turned(image, max_side, name, stream.header_bytes)
    except Exception:
        if stream.refusal is not None:
            raise stream.refusal from None
        raise


def turned(
    image: PIL.Image.Image, max_side: int | None, name: str, header_bytes: int = 0
) -> tuple[Levels, tuple[int, int], int]:
    """Levels and size as stored, and the EXIF orientation that is still to be applied."""
    require_bounded(image.size, max_side, name)
    pixels, size = loaded(image, max_side, name, header_bytes)
    return pixels, size, orientation_of(image)


@contextmanager
def faults(name: str) -> Iterator[None]:
    """Convert every error to an InputError: decoders raise almost any exception for damaged files."""
    try:
        yield
    except (FaembError, MemoryError):
        raise
    except PermissionError:
        raise ReadError(f"{name} may not be read: permission denied; change its permissions") from None
    except PIL.Image.DecompressionBombError as error:
        raise InputError(f"{name} is too large: {reason(error)}; save a smaller copy of it") from error
    except Exception as error:
        if is_of_the_system(error):
            raise ReadError(f"{name} cannot be read: {reason(error)}") from error
        raise InputError(
            f"{name} cannot be decoded: {reason(error)}; it is damaged, truncated or of a rare kind: copy or download "
            "it again, or save it as PNG"
        ) from error


def require_bounded(size: tuple[int, int], max_side: int | None, name: str) -> None:
    width, height = size
    if not width * height:
        raise InputError(f"{name} is {width} x {height} pixels; expected an image that is not empty")
    if width * height > MAX_PIXELS:
        raise InputError(
            f"{name} is {width} x {height} pixels; expected at most {MAX_PIXELS:,} in all: save a smaller copy of it"
        )
    require_addressable(size, max_side, name)


def loaded(
    image: PIL.Image.Image, max_side: int | None, name: str, header_bytes: int
) -> tuple[Levels, tuple[int, int]]:
    """Levels, reduced to `max_side`, and the size before that."""
    size, box, coefficients = image.size, None, 0
    target = reduced_size(size, max_side)
    if isinstance(image, JpegImageFile) and image.tile:  # without tiles its pixels are loaded already
        coefficients = size[0] * size[1] if require_few_scans(image, size, name) else 0
        drafted = image.draft(None, target)
        box = drafted[1] if drafted else None
    require_memory(header_bytes + bytes_needed(image, target, coefficients), name)
    image.load()
    if box is None and image.size != size:  # a HEIC may decode to another size than its header gives
        size, target = image.size, reduced_size(image.size, max_side)
        require_bounded(size, max_side, name)
        require_memory(header_bytes + bytes_needed(image, target, coefficients), name)
    if image.mode in DEEP_MODES:
        return reduced(levels_from(deep_values(image, name), name), target), size
    return array_from(resized(opaque(image), target, box)), size


def deep_values(image: PIL.Image.Image, name: str) -> np.ndarray:
    """uint16 or float32; the value that marks transparent pixels becomes white."""
    values = array_from(image)
    if image.mode == "I":
        if values.min() < 0 or values.max() > 65535:
            raise InputError(
                f"{name} has values from {values.min()} to {values.max()}; expected 0 to 65535: save it with 16 bits"
            )
        values = values.astype(np.uint16)
    if image.mode != "F" and isinstance(image.info.get("transparency"), int):
        values = np.where(values == image.info["transparency"], np.uint16(65535), values)
    return values


def opaque(image: PIL.Image.Image) -> PIL.Image.Image:
    """The image in mode L or RGB; transparent pixels are blended with white."""
    mode, layered_mode = ("L", "LA") if image.mode in GREY_MODES else ("RGB", "RGBA")
    if image.has_transparency_data:
        layered = image if image.mode == layered_mode else image.convert(layered_mode)
        background = PIL.Image.new(mode, image.size, "white")
        background.paste(layered, None, layered)
        return background
    return image if image.mode == mode else image.convert(mode)


def resized(
    image: PIL.Image.Image, size: tuple[int, int], box: tuple[float, float, float, float] | None
) -> PIL.Image.Image:
    """`box` is the part to use: if a JPEG's side is not a multiple of 8, its draft's last pixel is partly padding."""
    if image.size == size:
        return image
    return image.resize(size, PIL.Image.Resampling.LANCZOS, box=box, reducing_gap=3.0)


def array_from(image: PIL.Image.Image) -> np.ndarray:
    """The pixels, converted in bands of rows: np.asarray of a large image needs three times its memory and is slow."""
    width, height = image.size
    pixel = np.asarray(image.crop((0, 0, 1, 1)))
    pixels = np.empty((height, width, *pixel.shape[2:]), pixel.dtype)
    for top in range(0, height, BAND):
        bottom = min(top + BAND, height)
        pixels[top:bottom] = np.asarray(image.crop((0, top, width, bottom)))
    return pixels


def upright(pixels: Levels, orientation: int) -> Levels:
    """Apply an EXIF orientation: 5 to 8 swap rows and columns first, then either axis may be reversed."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)
