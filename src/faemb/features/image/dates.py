"""The date when a photograph was taken, from its EXIF data. No pixels are decoded."""

from datetime import datetime

import PIL.Image

from faemb.features.image.decoders import IN_PIECES, decoder_for
from faemb.features.image.exif import MAX_TAGS_BYTES, bytes_of_values, require_modest
from faemb.features.image.silence import silence
from faemb.features.image.stream import BoundedStream
from faemb.runtime.limits import require_input_file, require_memory
from faemb.runtime.paths_and_urls import fetched, shown
from faemb.runtime.storage import AnyPath

_EXIF, _TAKEN, _DIGITISED = 0x8769, 0x9003, 0x9004
"""EXIF tags: the sub-directory with the camera's data, and two dates in it."""


def date_taken(path: AnyPath) -> datetime | None:
    """Local time without a time zone; None if the file has no readable date."""
    try:
        file = fetched(path)
        require_input_file(file, "an image file")
        with silence(), BoundedStream(file) as stream:
            head = stream.read(256)
            stream.seek(0)
            decoder = decoder_for(head, shown(path))
            if not issubclass(decoder, IN_PIECES):
                require_memory(stream.held + 2 * stream.length, file)  # the file and a copy of it
                stream.allow_large_header()
            return _date_in(decoder(stream))
    except Exception:  # damaged metadata raises errors of many kinds, and a missing date is no fault
        return None


def _date_in(image: PIL.Image.Image) -> datetime:
    require_modest(image)
    data, exif = image.info["exif"].removeprefix(b"Exif\0\0"), PIL.Image.Exif()
    exif.load(data)
    if bytes_of_values(data, exif[_EXIF]) > MAX_TAGS_BYTES:
        raise SyntaxError("EXIF data whose values are larger than itself")
    camera = exif.get_ifd(_EXIF)
    return datetime.strptime(str(camera.get(_TAKEN) or camera[_DIGITISED]).strip("\0 "), "%Y:%m:%d %H:%M:%S")
