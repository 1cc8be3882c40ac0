"""The wire format of protocol buffers, read strictly: the fields of a message, without a description of its types.

A message is a sequence of fields, each a tag (8 number + wire type, as a varint) and its content:

    0  a varint       1  eight bytes       2  a length as a varint, and as many bytes       5  four bytes

Lenient readers interpret unusual encodings, such as varints with leading zeros, in different ways, so that one may read
a field that another skips. All such encodings are errors here, and so are groups (wire types 3 and 4), which ONNX never
uses.
"""

from collections.abc import Iterator
from typing import NamedTuple

VARINT, BYTES = 0, 2
_FIXED = {1: 8, 5: 4}


class Field(NamedTuple):
    number: int
    kind: int
    """Wire type."""
    value: int
    """Value of a varint; 0 for other kinds."""
    content: memoryview
    """Bytes of a field of kind 2, not copied; empty for other kinds."""


_NOTHING = memoryview(b"")


def fields(message: memoryview) -> Iterator[Field]:
    """The fields in the order of the message; raises a ValueError for any non-canonical encoding."""
    place, end = 0, len(message)
    while place < end:
        tag, place = _varint(message, place)
        number, kind = tag >> 3, tag & 7
        if not number or tag >= 1 << 32:
            raise ValueError("a field without a valid number")
        if kind == VARINT:
            value, place = _varint(message, place)
            yield Field(number, kind, value, _NOTHING)
        elif kind == BYTES:
            length, start = _varint(message, place)
            place = start + length
            _require_inside(place, end)
            yield Field(number, kind, 0, message[start:place])
        elif kind in _FIXED:
            place += _FIXED[kind]
            _require_inside(place, end)
            yield Field(number, kind, 0, _NOTHING)
        else:
            raise ValueError(f"a field of wire type {kind}")


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """The varint at `place`, at most 64 bits in its shortest form, and the position after it."""
    value = 0
    for index, byte in enumerate(message[place : place + 10]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if (index and not byte) or value >= 1 << 64:
                raise ValueError("a number that is not in its shortest form")
            return value, place + index + 1
    raise ValueError("a number without an end")


def _require_inside(place: int, end: int) -> None:
    if place > end:
        raise ValueError("a field that is longer than its message")
