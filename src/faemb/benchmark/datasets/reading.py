"""Pieces that files of ground truth share: lines of text, and boxes."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from faemb.errors import InputError
from faemb.features.region import Box


def lines_of(path: Path) -> list[str]:
    """Without their ends; a mark of byte order, which some editors put in front, is no part of them."""
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text in UTF-8; save it as one") from error


def box_of(corners: Sequence[Any], source: str) -> Box:
    """A box from four numbers, or texts of numbers: x1, y1, x2, y2 in pixels."""
    try:
        values = [float(corner) for corner in corners]
    except (TypeError, ValueError):
        values = []
    if len(values) != 4 or not all(map(math.isfinite, values)) or values[0] >= values[2] or values[1] >= values[3]:
        given = " ".join(map(str, corners))
        raise InputError(f"{source} holds the box {given!r}; expected x1, y1, x2, y2, with x1 < x2 and y1 < y2")
    return Box(*values)
