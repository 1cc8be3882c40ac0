"""Lines of text and boxes, which several kinds of ground truth contain."""

import math
from collections.abc import Sequence
from pathlib import Path

from faemb.errors import InputError
from faemb.features.region import Box


def lines_of(path: Path) -> list[str]:
    """Lines of a file, without line ends and without the byte order mark that some editors write."""
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
    except (TypeError, ValueError):
        values = []
    if len(values) != 4 or not all(map(math.isfinite, values)) or values[0] >= values[2] or values[1] >= values[3]:
        given = " ".join(map(str, corners))
        raise InputError(f"{source} holds the box {given!r}; expected x1, y1, x2, y2, with x1 < x2 and y1 < y2")
    return Box(*values)
