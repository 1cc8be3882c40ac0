"""Local features in few bytes: descriptors rounded to one byte per value, geometry as float32.

Descriptors are divided by the largest magnitude among them and rounded to 255 levels (127 and a sign where there are
negative ones). For RootSIFT that moves a descriptor by two or three thousandths of its length. Queries are rounded in
the same way, so that an image of the collection has similarity 1 to itself.

All of it is a zlib stream, compressed only where that saves enough: a search reads the features of 100 candidates.
"""

import struct
import zlib
from dataclasses import dataclass, replace

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
"""Arrays are stored compressed if that reduces them to at most this share of their length. RootSIFT is reduced to 0.93,
and decompression would take a sixth of the time of a comparison; sparse descriptors of networks are reduced to less."""


@dataclass(frozen=True, eq=False)
class Rounded:
    """Local features whose descriptors have one byte per value: a quarter of the size when sent between processes."""

    levels: Shaped[np.ndarray, "N d"]
    scale: float
    """The size of one level."""
    geometry: LocalFeatures
    """The features with 0 descriptor columns."""

    @classmethod
    def of(cls, features: LocalFeatures) -> "Rounded":
        levels, scale = _quantised(features.descriptors)
        return cls(levels, scale, replace(features, descriptors=features.descriptors[:, :0]))

    def features(self) -> LocalFeatures:
        return replace(self.geometry, descriptors=self.levels * np.float32(self.scale))


def pack(features: LocalFeatures) -> bytes:
    """Bytes for `unpack`; the extractor's fingerprint is not stored."""
    levels, scale = _quantised(features.descriptors)
    signed = levels.dtype == np.int8
    count, dimension = features.descriptors.shape
    head = _HEAD.pack(count, dimension, *features.image_size, scale, signed)
    body = [
        levels,
        features.frames.astype("<f4"),
        features.scores.astype("<f4"),
    ]
    content = head + _deflated(b"".join(part.tobytes() for part in body))
    return _MARKS.pack(_MARK, zlib.crc32(content)) + content


def rounded(features: LocalFeatures) -> LocalFeatures:
    """The same features with descriptors rounded as `pack` and `unpack` round them."""
    return Rounded.of(features).features()


def unpack(content: bytes) -> LocalFeatures:
    try:
        mark, crc = _MARKS.unpack_from(content)
        if mark != _MARK or zlib.crc32(memoryview(content)[_MARKS.size :]) != crc:
            raise ValueError("not packed features, or changed since")
        count, dimension, *size, scale, signed = _HEAD.unpack_from(content, _MARKS.size)
        require_memory(_needed(count, dimension), "an image")
        body = _inflated(memoryview(content)[_MARKS.size + _HEAD.size :], count * (dimension + 28))
    except InputError as error:
        raise FormatError(f"stored local features are too large: {error}") from error
    except (struct.error, zlib.error, ValueError) as error:
        raise FormatError(f"stored local features are damaged ({error})") from error
    levels = np.frombuffer(body, np.int8 if signed else np.uint8, count * dimension).reshape(count, dimension)
    rest = np.frombuffer(body, "<f4", count * 7, count * dimension)
    frames, scores = rest[: count * 6].reshape(count, 6), rest[count * 6 :]
    return LocalFeatures(levels * np.float32(scale), frames.copy(), scores.copy(), (size[0], size[1]))


def _needed(count: int, dimension: int) -> int:
    """Bytes of memory while `count` descriptors are unpacked: zlib's chunks, their concatenation, and the features."""
    return 2 * count * (dimension + 28) + 4 * count * (dimension + 7)


def _deflated(body: bytes) -> bytes:
    compressed = zlib.compress(body, _EFFORT)
    return compressed if len(compressed) <= _WORTH_IT * len(body) else zlib.compress(body, _NO_EFFORT)


def _inflated(content: memoryview, length: int) -> bytes:
    """Decompress to exactly `length` bytes; never uses memory for more, whatever the content is."""
    inflater = zlib.decompressobj()
    body = inflater.decompress(content, length + 1)
    if len(body) != length or not inflater.eof or inflater.unused_data:
        raise ValueError("the length is not the stated one")
    return body


def _quantised(descriptors: Float[np.ndarray, "N d"]) -> tuple[Shaped[np.ndarray, "N d"], float]:
    """Levels, as int8 if any value is negative and as uint8 otherwise, and the size of one level."""
    signed = bool((descriptors < 0).any())
    scale = np.float32(np.abs(descriptors).max(initial=0) / (127 if signed else 255))
    levels = np.rint(descriptors / scale) if scale else descriptors
    return levels.astype(np.int8 if signed else np.uint8), float(scale)
