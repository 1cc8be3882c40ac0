"""The orientation in an image's EXIF data, read with a limit on memory.

EXIF data is a list of tags with offsets of their values. Pillow copies the values of all tags when it reads one of
them, and in a few kilobytes thousands of tags can each claim the whole data as their value.
"""

import struct
from contextlib import suppress

import PIL.Image
from PIL.ExifTags import Base as Tag
from PIL.JpegImagePlugin import JpegImageFile

MAX_TAGS_BYTES = 16_000_000
"""Largest number of bytes of all values together; a valid EXIF block of a JPEG has at most 65,533."""

_UNITS = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8}
"""Number of bytes of one value, by its EXIF type."""


class Jpeg(JpegImageFile):
    """Checks the EXIF data before Pillow reads it, which it does as soon as a JPEG is opened."""

    def getexif(self) -> PIL.Image.Exif:
        require_modest(self)
        return super().getexif()


def orientation_of(image: PIL.Image.Image) -> int:
    """1 to 8, as in EXIF. For TIFF and HEIC, Pillow and pillow-heif have applied it already and report 1."""
    with suppress(Exception):
        require_modest(image)
        orientation = int(image.getexif()[Tag.Orientation])
        return orientation if 1 <= orientation <= 8 else 1
    return 1


def require_modest(image: PIL.Image.Image) -> None:
    """Raise an error, which Pillow treats as damaged data, if the values of all tags exceed MAX_TAGS_BYTES."""
    data = image.info.get("exif")
    if isinstance(data, bytes) and bytes_of_values(data.removeprefix(b"Exif\0\0")) > MAX_TAGS_BYTES:
        raise SyntaxError("EXIF data whose values are larger than itself")


def bytes_of_values(data: bytes, start: int | None = None) -> int:
    """Number of bytes that Pillow would copy to read the list of tags at `start`, by default the first list."""
    order = "<" if data[:2] == b"II" else ">"
    with suppress(struct.error):  # truncated: Pillow reads the tags that are there
        if start is None:
            (start,) = struct.unpack_from(f"{order}I", data, 4)
        (tags,) = struct.unpack_from(f"{order}H", data, start)
        listed = data[start + 2 : start + 2 + 12 * tags]
        entries = struct.iter_unpack(f"{order}HHI4x", listed[: len(listed) // 12 * 12])
        return sum(min(_UNITS.get(kind, 0) * count, len(data)) for _, kind, count in entries)
    return 0
