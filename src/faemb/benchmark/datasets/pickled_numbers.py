"""Lists and NumPy arrays of numbers, as they stand in a pickle, become lists of numbers: flat, whatever their shape."""

from typing import Any

import numpy as np

from faemb.benchmark.datasets.pickled import Call

_TYPES = {"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"}


def numbers(value: Any) -> list[int | float]:
    """Raises ValueError on anything else."""
    if isinstance(value, Call):
        return _array(value)
    if not isinstance(value, list | tuple):
        raise ValueError(f"{type(value).__name__} instead of a list")
    return [_number(item) for item in value]


def _number(value: Any) -> int | float:
    if isinstance(value, Call):
        (value,) = _array(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{type(value).__name__} instead of a number")
    return value


def _array(call: Call) -> list[int | float]:
    """Three ways in which NumPy writes: an empty array that is filled, one over a buffer, a single number."""
    match call.function.split()[-1], call.arguments, call.state:
        case "_reconstruct", _, (_, _, Call() as kind, _, raw):
            pass
        case ("_frombuffer", (raw, Call() as kind, _, _), None) | ("scalar", (Call() as kind, raw), None):
            pass
        case _:
            raise ValueError(f"{call.function} instead of numbers")
    dtype = _type(kind)
    return np.frombuffer(_bytes(raw), dtype).tolist()


def _type(call: Call) -> np.dtype:
    match call.arguments, call.state:
        case (str(code), *_), (_, "<" | ">" | "|" as order, *_) if code in _TYPES:
            return np.dtype(code).newbyteorder(order)
    raise ValueError("an array of something else than numbers")


def _bytes(raw: Any) -> bytes:
    """Older protocols have no bytes: they are written as text, one character for each."""
    match raw:
        case bytes() | bytearray():
            return bytes(raw)
        case str():
            return raw.encode("latin-1")
        case Call(function="_codecs encode", arguments=(str(text), "latin1")):
            return text.encode("latin-1")
        case Call(function="__builtin__ bytes" | "builtins bytes", arguments=()):
            return b""
    raise ValueError("an array without its bytes")
