"""The decoder of an image file, chosen by the file's first bytes, not by its name; other formats are an error."""

from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from faemb.errors import InputError, MissingExtraError
from faemb.features.image.exif import Jpeg

# Pillow's classes are used, not PIL.Image.open, whose limit on pixels can only be changed by a global variable.
DECODERS: dict[bytes, type[ImageFile]] = {
    b"\xff\xd8\xff": Jpeg,
    b"\x89PNG\r\n\x1a\n": PngImageFile,
    b"GIF87a": GifImageFile,
    b"GIF89a": GifImageFile,
    b"BM": BmpImageFile,
    b"II*\0": TiffImageFile,
    b"MM\0*": TiffImageFile,
    b"II+\0": TiffImageFile,
    b"MM\0+": TiffImageFile,
}
IN_PIECES = tuple(set(DECODERS.values()))
"""Decoders that read a file in pieces, as needed; those of WebP, AVIF and HEIC read the whole file first."""
AVIF_BRANDS = {b"avif", b"avis"}
HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"}


def decoder_for(head: bytes, name: str) -> type[ImageFile]:
    for signature, decoder in DECODERS.items():
        if head.startswith(signature):
            return decoder
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return WebPImageFile
    if brands_in(head) & AVIF_BRANDS:
        return avif_decoder(name)
    if brands_in(head) & HEIF_BRANDS:
        return heif_decoder(name)
    raise InputError(
        f"{name} is not an image of a known format; expected JPEG, PNG, WebP, TIFF, BMP, GIF, HEIC or AVIF"
    )


def brands_in(head: bytes) -> set[bytes]:
    """Brands of an ISO media file, which begins with: length, "ftyp", major brand, version, compatible brands."""
    if head[4:8] != b"ftyp":
        return set()
    end = min(int.from_bytes(head[:4]), len(head))
    return {head[8:12], *(head[start : start + 4] for start in range(16, end, 4))}


def avif_decoder(name: str) -> type[ImageFile]:
    try:
        from PIL.AvifImagePlugin import SUPPORTED, AvifImageFile
    except ImportError:
        SUPPORTED = False
    if not SUPPORTED:
        raise InputError(f"{name} is AVIF, which this Pillow cannot decode; pip install --upgrade pillow")
    return AvifImageFile


def heif_decoder(name: str) -> type[ImageFile]:
    try:
        from pillow_heif import HeifImageFile
    except ImportError:
        raise MissingExtraError(f"reading {name}, a HEIC image,", "heic") from None
    return HeifImageFile
