"""Checks shared by all readers: of files, which may be missing or damaged, and of the arrays in them.

A reader returns LocalFeatures, or raises one FormatError that names the file, the fault and the cure.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from jaxtyping import Float

from faemb.errors import FaembError, FormatError, ReadError, is_of_the_system, reason
from faemb.runtime.limits import require_memory, require_plain_file
from faemb.runtime.storage import AnyPath

UNKNOWN_SIZE = (0, 0)
"""The image size of features whose file does not give it."""

MOST_COLUMNS = 65_536
"""Largest dimension of a descriptor."""
VALUE_BYTES = 5
"""Bytes of memory per value, in addition to the stored one: as float32, and one byte for its check."""
FEATURE_BYTES = 400
"""Bytes of memory per feature to compute its frame in double precision."""

CURE = "restore it or extract again"


@contextmanager
def damage_explained(path: AnyPath, source: str = "") -> Iterator[Path]:
    """Convert all errors that libraries raise for a damaged file to a FormatError; yields the path of a plain file."""
    source = source or str(path)
    require_plain_file(path, "a file of local features")
    try:
        yield Path(path)
    except (FaembError, MemoryError):
        raise
    except OSError as error:
        if is_of_the_system(error):
            raise ReadError(f"{source} cannot be read: {reason(error)}") from error
        raise FormatError(f"{source} cannot be read ({reason(error)}); {CURE}") from error
    except Exception as error:
        raise FormatError(f"{source} is damaged ({type(error).__name__}: {reason(error)}); {CURE}") from error


def file_bytes(path: AnyPath) -> bytes:
    """The content of a file, which must not exceed the memory limit of one item."""
    with damage_explained(path) as target:
        require_memory(target.stat().st_size, path)
        return target.read_bytes()


def numbers(array: np.ndarray, name: str, source: str) -> Float[np.ndarray, "..."]:
    """A row-major float32 copy; values must be finite numbers."""
    converted = float32(array, name, source)
    require_finite(converted, name, source)
    return converted


def float32(array: np.ndarray, name: str, source: str) -> Float[np.ndarray, "..."]:
    require_numeric(array.dtype, name, source)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(array, dtype=np.float32, order="C")


def require_numeric(dtype: np.dtype, name: str, source: str) -> None:
    if dtype.kind not in "fiu":
        raise FormatError(f"{source} holds {name} of type {dtype}; expected plain real numbers: convert them first")


def require_finite(array: np.ndarray, name: str, source: str) -> None:
    bad = int(array.size - np.isfinite(array).sum())
    if bad:
        raise FormatError(f"{source} holds {bad} NaN or infinite values in its {name}; {CURE}")


def require_shape(array: np.ndarray, expected: tuple[int | None, ...], name: str, source: str) -> None:
    """None in `expected` allows any number."""
    fits = len(expected) == array.ndim and all(n in (None, m) for n, m in zip(expected, array.shape, strict=True))
    if not fits:
        wanted = ", ".join("any" if n is None else str(n) for n in expected)
        raise FormatError(f"{source} holds {name} of shape {array.shape}; expected ({wanted}): {CURE}")
