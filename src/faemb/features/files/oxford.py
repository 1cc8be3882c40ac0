"""Text of the Oxford (VGG) affine detectors, .hesaff.sift and its kin: the dimension d, the count N, then N rows

    x y a b c d_1 ... d_d           the ellipse is a (u - x)^2 + 2 b (u - x)(v - y) + c (v - y)^2 = 1

With M = [[a, b], [b, c]], every A with A A' = M^-1 takes the unit disc to that ellipse; which of them was used is not
in the file. We take the lower triangular one,

    A = [[ sqrt(c / det M),       0         ],
         [ -b / sqrt(c det M),    1 / sqrt(c) ]]

which keeps the vertical vertical ("up is up"), as the Hessian-affine detector behind these files does
[PCM09]. There are no scores, so all are 0, and no image size. (0, 0) is the first pixel's centre.

[PCM09] M. Perdoch, O. Chum, J. Matas: Efficient representation of local geometry for large scale object retrieval.
        CVPR 2009.
"""

import numpy as np
from jaxtyping import Bool, Float

from faemb.errors import FormatError
from faemb.features.files.reading import CURE, LARGEST_WIDTH, UNKNOWN_SIZE, AnyPath, file_bytes, require_finite
from faemb.features.local_features import LocalFeatures, frames_from

GEOMETRY = 5


def read_oxford(path: AnyPath) -> LocalFeatures:
    """The features in the file's order."""
    source = str(path)
    values = _parsed(file_bytes(path), source)
    width, count = _header(values, source)
    _require_all_rows(len(values) - 2, width, count, source)
    rows = values[2:].reshape(count, GEOMETRY + width)
    require_finite(rows, "rows", source)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        _require_ellipses(_is_ellipse(rows[:, 2:5]), source)
        frames = frames_from(rows[:, :2], _shapes(rows[:, 2:5]))
        descriptors = rows[:, GEOMETRY:].astype(np.float32)
    require_finite(frames, "geometry", source)
    require_finite(descriptors, "descriptors", source)
    return LocalFeatures(descriptors, frames, np.zeros(count, np.float32), UNKNOWN_SIZE)


def _parsed(text: bytes, source: str) -> Float[np.ndarray, " T"]:
    tokens = text.split()
    try:
        # SIFT has few distinct values: each text is converted once, which halves the time.
        value_of = {token: float(token) for token in set(tokens)}
        return np.fromiter(map(value_of.__getitem__, tokens), np.float64, len(tokens))
    except ValueError as error:
        raise FormatError(f"{source} is no text of numbers ({str(error)[:100]}); {CURE}") from error


def _header(values: Float[np.ndarray, " T"], source: str) -> tuple[int, int]:
    head = values[:2].tolist()
    whole = len(head) == 2 and all(number.is_integer() and number >= 0 for number in head)
    if not whole or not 1 <= head[0] <= LARGEST_WIDTH:
        raise FormatError(
            f"{source} begins with {head}; expected the dimension of the descriptors (1 to {LARGEST_WIDTH}) and their "
            f"number: {CURE}"
        )
    return int(head[0]), int(head[1])


def _require_all_rows(given: int, width: int, count: int, source: str) -> None:
    # The detectors write a dimension of 1.0 over regions that nobody has described yet.
    if width == 1 and given == count * GEOMETRY and count:
        raise FormatError(
            f"{source} holds {count} regions without descriptors; describe them first, or let faemb extract the image"
        )
    if given != count * (GEOMETRY + width):
        raise FormatError(
            f"{source} is cut short or damaged: {given} numbers follow its head, and {count} rows of "
            f"{GEOMETRY} + {width} would be {count * (GEOMETRY + width)}; {CURE}"
        )


def _is_ellipse(form: Float[np.ndarray, "N 3"]) -> Bool[np.ndarray, " N"]:
    a, b, c = form.T
    return (a > 0) & (c > 0) & (a * c - b * b > 0)


def _require_ellipses(fit: Bool[np.ndarray, " N"], source: str) -> None:
    if not fit.all():
        raise FormatError(
            f"{source} is damaged: the a, b, c of row {int(np.argmin(fit)) + 1} are those of no ellipse; "
            f"expected a > 0 and a c > b^2: {CURE}"
        )


def _shapes(form: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 2 2"]:
    a, b, c = form.T
    determinant = a * c - b * b
    root = np.sqrt(c * determinant)
    entries = [np.sqrt(c / determinant), np.zeros_like(a), -b / root, 1 / np.sqrt(c)]
    return np.stack(entries, axis=-1).reshape(-1, 2, 2)
