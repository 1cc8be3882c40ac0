"""Text files of the Oxford (VGG) affine detectors, such as .hesaff.sift: the dimension d, the count N, then N rows

    x y a b c d_1 ... d_d           the ellipse is a (u - x)^2 + 2 b (u - x)(v - y) + c (v - y)^2 = 1

With M = [[a, b], [b, c]], every A with A A' = M^-1 maps the unit disc to that ellipse; the file does not say which one
was used. The lower triangular one is chosen,

    A = [[ sqrt(c / det M),       0         ],
         [ -b / sqrt(c det M),    1 / sqrt(c) ]]

which keeps vertical lines vertical ("up is up"), as the Hessian-affine detector that writes these files does [PCM09].
The files have no scores, so all are 0, and no image size. (0, 0) is the centre of the first pixel.

[PCM09] M. Perdoch, O. Chum, J. Matas: Efficient representation of local geometry for large scale object retrieval.
        CVPR 2009.
"""

from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO

import numpy as np
from jaxtyping import Float

from faemb.errors import FormatError
from faemb.features.files.reading import (
    CURE,
    FEATURE_BYTES,
    MOST_COLUMNS,
    UNKNOWN_SIZE,
    VALUE_BYTES,
    damage_explained,
    require_finite,
)
from faemb.features.local_features import LocalFeatures, frames_from
from faemb.runtime.limits import require_memory
from faemb.runtime.storage import AnyPath

GEOMETRY = 5
_BLOCK = 1 << 18
_LONGEST = 1000
"""Largest number of characters of a number."""


def read_oxford(path: AnyPath) -> LocalFeatures:
    """The features in the file's order."""
    source = str(path)
    with damage_explained(path) as target, target.open("rb") as file:
        rows = _rows(_parsed(file, source), target.stat().st_size, source)
    require_finite(rows, "rows", source)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        _require_ellipses(rows[:, 2:5], source)
        frames = frames_from(rows[:, :2], _shapes(rows[:, 2:5]))
        descriptors = rows[:, GEOMETRY:].astype(np.float32)
    require_finite(frames, "geometry", source)
    require_finite(descriptors, "descriptors", source)
    return LocalFeatures(descriptors, frames, np.zeros(len(rows), np.float32), UNKNOWN_SIZE)


def _rows(parts: Iterator[Float[np.ndarray, " T"]], size: int, source: str) -> Float[np.ndarray, "N columns"]:
    """The rows in a text of `size` bytes; no more numbers are allocated than a text of that size can hold."""
    first = np.zeros(0)
    while len(first) < 2 and (part := next(parts, None)) is not None:
        first = np.concatenate([first, part])
    dimension, count = _header(first, source)
    wanted = count * (GEOMETRY + dimension)
    held = min(wanted, size // 2 + 1)  # a number takes at least two bytes, with the space after it
    require_memory(held * (8 + VALUE_BYTES) + min(count, held) * FEATURE_BYTES, source)
    values, given = np.empty(held), 0
    for part in chain([first[2:]], parts):
        values[given : given + len(part)] = part[: max(0, held - given)]
        given += len(part)
    _require_all_rows(given, dimension, count, source)
    return values.reshape(count, GEOMETRY + dimension)


def _parsed(file: BinaryIO, source: str) -> Iterator[Float[np.ndarray, " T"]]:
    """The numbers of a text, block by block."""
    rest = b""
    while block := file.read(_BLOCK):
        # The last word may continue in the next block.
        *whole, rest = (rest + block).rsplit(None, 1) if not block[-1:].isspace() else (rest + block, b"")
        if len(rest) > _LONGEST:
            raise FormatError(f"{source} is not a text of numbers ({rest[:40]!r}...); {CURE}")
        if whole:
            yield _converted(whole[0].split(), source)
    yield _converted(rest.split(), source)


def _converted(words: list[bytes], source: str) -> Float[np.ndarray, " T"]:
    try:
        # SIFT has few distinct values: each word is converted once, which halves the time.
        value_of = {word: float(word) for word in set(words)}
        return np.fromiter(map(value_of.__getitem__, words), np.float64, len(words))
    except ValueError as error:
        raise FormatError(f"{source} is not a text of numbers ({str(error)[:100]}); {CURE}") from error


def _header(values: Float[np.ndarray, " T"], source: str) -> tuple[int, int]:
    head = values[:2].tolist()
    whole = len(head) == 2 and all(number.is_integer() and number >= 0 for number in head)
    if not whole or not 1 <= head[0] <= MOST_COLUMNS:
        raise FormatError(
            f"{source} begins with {head}; expected the dimension of the descriptors (1 to {MOST_COLUMNS}) and their "
            f"number: {CURE}"
        )
    return int(head[0]), int(head[1])


def _require_all_rows(given: int, dimension: int, count: int, source: str) -> None:
    # The detectors write the dimension 1.0 for regions that have no descriptors yet.
    if dimension == 1 and given == count * GEOMETRY and count:
        raise FormatError(
            f"{source} holds {count} regions without descriptors; describe them first, or extract the image with faemb"
        )
    if given != count * (GEOMETRY + dimension):
        raise FormatError(
            f"{source} is truncated or damaged: {given} numbers follow its header; expected {count} rows of "
            f"{GEOMETRY} + {dimension}, {count * (GEOMETRY + dimension)} numbers: {CURE}"
        )


def _require_ellipses(form: Float[np.ndarray, "N 3"], source: str) -> None:
    a, b, c = form.T
    fit = (a > 0) & (c > 0) & (a * c - b * b > 0)
    if not fit.all():
        raise FormatError(
            f"{source} is damaged: the a, b, c of row {int(np.argmin(fit)) + 1} do not give an ellipse; "
            f"expected a > 0 and a c > b^2: {CURE}"
        )


def _shapes(form: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 2 2"]:
    a, b, c = form.T
    determinant = a * c - b * b
    root = np.sqrt(c * determinant)
    entries = [np.sqrt(c / determinant), np.zeros_like(a), -b / root, 1 / np.sqrt(c)]
    return np.stack(entries, axis=-1).reshape(-1, 2, 2)
