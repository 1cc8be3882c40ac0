"""Local features in few bytes: descriptors rounded to one byte per value, geometry as float32.

Descriptors are divided by the largest magnitude among them and rounded to 255 levels (127 and a sign where there are
negative ones). For RootSIFT that moves a descriptor by two or three thousandths of its length. Queries are rounded in
the same way, so that an image of the collection has similarity 1 to itself.

All of it is a zlib stream, compressed where that is worth the time: a search inflates the features of 100 candidates.
"""

import struct
import zlib
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Shaped

from faemb.errors import FormatError, InputError
from faemb.features.local_features import LocalFeatures
from faemb.runtime.limits import require_memory

_MARKS = struct.Struct("<4sI")
"""The format's mark, and the CRC32 of all bytes after this."""
_HEAD = struct.Struct("<IIIIf?")
_MARK = b"flf1"
_EFFORT, _NO_EFFORT = 1, 0
_WORTH_IT = 0.9
"""Largest share of their length to which arrays are compressed. RootSIFT comes to 0.93, and inflating it would take a
sixth of the time of a comparison; sparse descriptors of networks come to less."""


def pack(features: LocalFeatures) -> bytes:
    """Bytes for `unpack`; the extractor's fingerprint is not stored."""
    levels, scale = _quantised(features.descriptors)
    signed = levels.dtype == np.int8
    count, width = features.descriptors.shape
    head = _HEAD.pack(count, width, *features.image_size, scale, signed)
    body = [
        levels,
        features.frames.astype("<f4"),
        features.scores.astype("<f4"),
    ]
    content = head + _deflated(b"".join(part.tobytes() for part in body))
    return _MARKS.pack(_MARK, zlib.crc32(content)) + content


def rounded(features: LocalFeatures) -> LocalFeatures:
    """The same features with descriptors rounded as `pack` and `unpack` round them."""
    levels, scale = _quantised(features.descriptors)
    return replace(features, descriptors=levels * np.float32(scale))


def unpack(content: bytes) -> LocalFeatures:
    try:
        mark, crc = _MARKS.unpack_from(content)
        if mark != _MARK or zlib.crc32(memoryview(content)[_MARKS.size :]) != crc:
            raise ValueError("not packed features, or changed since")
        count, width, *size, scale, signed = _HEAD.unpack_from(content, _MARKS.size)
        require_memory(_needed(count, width), "an image")
        body = _inflated(memoryview(content)[_MARKS.size + _HEAD.size :], count * (width + 28))
    except InputError as error:
        raise FormatError(f"stored local features are too large: {error}") from error
    except (struct.error, zlib.error, ValueError) as error:
        raise FormatError(f"stored local features are damaged ({error})") from error
    levels = np.frombuffer(body, np.int8 if signed else np.uint8, count * width).reshape(count, width)
    rest = np.frombuffer(body, "<f4", count * 7, count * width)
    frames, scores = rest[: count * 6].reshape(count, 6), rest[count * 6 :]
    return LocalFeatures(levels * np.float32(scale), frames.copy(), scores.copy(), (size[0], size[1]))


def _needed(count: int, width: int) -> int:
    """Bytes of memory while `count` descriptors are unpacked: zlib's pieces, the whole of them, and the features."""
    return 2 * count * (width + 28) + 4 * count * (width + 7)


def _deflated(body: bytes) -> bytes:
    compressed = zlib.compress(body, _EFFORT)
    return compressed if len(compressed) <= _WORTH_IT * len(body) else zlib.compress(body, _NO_EFFORT)


def _inflated(content: memoryview, length: int) -> bytes:
    """Decompress to exactly `length` bytes; memory for more is never used, whatever the content is."""
    inflater = zlib.decompressobj()
    body = inflater.decompress(content, length + 1)
    if len(body) != length or not inflater.eof or inflater.unused_data:
        raise ValueError("the length is not the stated one")
    return body


def _quantised(descriptors: Float[np.ndarray, "N d"]) -> tuple[Shaped[np.ndarray, "N d"], float]:
    """Levels, as int8 if any descriptor is negative and else as uint8, and the size of one level."""
    signed = bool((descriptors < 0).any())
    scale = np.float32(np.abs(descriptors).max(initial=0) / (127 if signed else 255))
    levels = np.rint(descriptors / scale) if scale else descriptors
    return levels.astype(np.int8 if signed else np.uint8), float(scale)
