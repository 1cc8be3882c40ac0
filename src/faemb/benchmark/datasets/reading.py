"""Lines of text and boxes, which several kinds of ground truth contain."""

import math
from collections.abc import Sequence
from pathlib import Path

from faemb.errors import InputError
from faemb.features.region import Box
from faemb.runtime.limits import require_memory, require_plain_file

_TEXT_FACTOR = 64
"""Bytes of memory per byte of a text: short lines become lists of strings, one for each name."""
_SHOWN = 30


def lines_of(path: Path) -> list[str]:
    """Lines of a file, without line ends and without the byte order mark that some editors write."""
    require_memory(_TEXT_FACTOR * require_plain_file(path, "a file of ground truth").st_size, path)
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8; save it in this encoding") from error


def box_of(corners: Sequence[str | float], source: str) -> Box:
    """A box from four numbers, or their texts: x1, y1, x2, y2 in pixels."""
    try:
        values = [float(corner) for corner in corners]
    except (TypeError, ValueError, OverflowError):
        values = []
    if len(values) != 4 or not all(map(math.isfinite, values)) or values[0] >= values[2] or values[1] >= values[3]:
        given = " ".join(_in_short(corner) for corner in corners[:5])
        raise InputError(f"{source} holds the box {given!r}; expected x1, y1, x2, y2, with x1 < x2 and y1 < y2")
    return Box(*values)


def _in_short(corner: str | float) -> str:
    """The text of a corner, cut if it is long; numbers with hundreds of digits are not printed."""
    text = corner if isinstance(corner, str) else repr(corner) if abs(corner) < 1e300 else "a number beyond 1e300"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
