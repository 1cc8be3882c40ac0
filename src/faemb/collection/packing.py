"""Local features in few bytes: descriptors as bytes, geometry as it is, compressed.

Descriptors are divided by the largest magnitude among them and rounded to 255 levels (127 and a sign where there are
negative ones). For RootSIFT that moves a descriptor by about a thousandth of its length.
"""

import struct
import zlib

import numpy as np
from jaxtyping import Float

from faemb.errors import FormatError
from faemb.features.local_features import LocalFeatures

_HEAD = struct.Struct("<4sIIIIf?")
_MARK = b"flf1"
_EFFORT = 1
_MOST = 1 << 32


def pack(features: LocalFeatures) -> bytes:
    """What `unpack` reads; the extractor's fingerprint is not part of it."""
    signed = bool((features.descriptors < 0).any())
    levels, scale = _quantised(features.descriptors, 127 if signed else 255)
    count, width = features.descriptors.shape
    head = _HEAD.pack(_MARK, count, width, *features.image_size, scale, signed)
    body = [
        levels.astype(np.int8 if signed else np.uint8),
        features.frames.astype("<f4"),
        features.scores.astype("<f4"),
    ]
    return head + zlib.compress(b"".join(part.tobytes() for part in body), _EFFORT)


def unpack(content: bytes) -> LocalFeatures:
    try:
        mark, count, width, *size, scale, signed = _HEAD.unpack_from(content)
        length = count * (width + 28)
        if mark != _MARK or length > _MOST:
            raise ValueError("not packed features")
        inflater = zlib.decompressobj()
        body = inflater.decompress(content[_HEAD.size :], max(length, 1))
        if len(body) != length or (not inflater.eof and inflater.decompress(inflater.unconsumed_tail, 1)):
            raise ValueError("of another length than said")
    except (struct.error, zlib.error, ValueError) as error:
        raise FormatError(f"stored local features are damaged ({error}); run: faemb check --repair") from error
    levels = np.frombuffer(body, np.int8 if signed else np.uint8, count * width).reshape(count, width)
    rest = np.frombuffer(body, "<f4", count * 7, count * width)
    frames, scores = rest[: count * 6].reshape(count, 6), rest[count * 6 :]
    return LocalFeatures(levels * np.float32(scale), frames.copy(), scores.copy(), (size[0], size[1]))


def _quantised(descriptors: Float[np.ndarray, "N d"], most: int) -> tuple[Float[np.ndarray, "N d"], float]:
    scale = float(np.abs(descriptors).max(initial=0)) / most
    return (np.rint(descriptors / np.float32(scale)) if scale else descriptors), scale
