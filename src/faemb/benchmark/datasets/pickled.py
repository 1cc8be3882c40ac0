"""Reads lists, texts and NumPy arrays of numbers from a pickle, without running code that a hostile file names.

A pickle names the functions that build its objects. Here every name is looked up in a short list of functions
of this module: nothing of NumPy or of Python is called on behalf of the file. Before that, the file is scanned
for operations that plain data does not use: some reach objects without naming them, or reserve memory that the file
does not fill. Protocols 2 to 5.
"""

import io
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Never

import numpy as np

from faemb.errors import InputError

LARGEST = 64 << 20
"""Largest size of a file in bytes; the ground truth of Oxford and Paris has a few million."""

_DTYPES = {"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"}
_REFUSED = {
    *("PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "PUT"),
    *("NEXT_BUFFER", "READONLY_BUFFER"),
}
_DAMAGE = (pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError, AttributeError, MemoryError)


class _Refused(Exception):
    pass


def unpickled(path: Path) -> object:
    """The object in the file; arrays as `Array`, which `numbers` reads."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > LARGEST:
        raise InputError(f"{path} is larger than {LARGEST:,} bytes; expected the ground truth of a benchmark")
    try:
        _scan(data)
        return _Unpickler(io.BytesIO(data), encoding="latin-1").load()
    except _Refused as refusal:
        raise InputError(f"{path} is refused, since it requests {refusal}; get it again from its authors") from None
    except _DAMAGE as error:
        raise InputError(f"{path} is not a pickle, or is damaged; get it again from its authors") from error


def numbers(value: object) -> list[int | float]:
    """The numbers of a list or an array, flat; ValueError for anything else."""
    if isinstance(value, Array):
        return value.values()
    if not isinstance(value, list | tuple):
        raise ValueError(f"{type(value).__name__} instead of a list")
    return [_number(item) for item in value]


def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{type(value).__name__} instead of a number")
    return value


def _scan(data: bytes) -> None:
    """Refuse operations that plain data does not use; every announced length is compared with the file's."""
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in _REFUSED:
            raise _Refused(f"the operation {opcode.name}, which plain data does not use")
        if opcode.name == "LONG_BINPUT" and (argument or 0) > len(data):  # the unpickler would reserve as many places
            raise _Refused(f"{argument:,} places for objects")


class _Type:
    """Stands for a NumPy dtype."""

    def __init__(self, code: object, *options: object) -> None:
        if not isinstance(code, str) or code not in _DTYPES:
            raise _Refused("an array of something else than numbers")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[object, ...]) -> None:
        order = state[1]
        if not isinstance(order, str) or order not in ("<", ">", "|"):
            raise ValueError("a type without its byte order")
        self.dtype = self.dtype.newbyteorder(order)  # type: ignore[arg-type]


class Array:
    """Stands for a NumPy array: the bytes of its numbers and their type, whatever its shape."""

    def __init__(self, content: bytes | bytearray | str, kind: _Type) -> None:
        self._content, self._kind = content, kind

    def __setstate__(self, state: tuple[object, ...]) -> None:
        _, _, kind, _, content = state
        if not (isinstance(kind, _Type) and isinstance(content, bytes | bytearray | str)):
            raise ValueError("an array without its bytes or their type")
        self._kind, self._content = kind, content

    def values(self) -> list[int | float]:
        """Decoded only when needed, since a small file can hold many arrays of the same bytes."""
        content = self._content
        raw = content.encode("latin-1") if isinstance(content, str) else content
        return np.frombuffer(raw, self._kind.dtype).tolist()


class _Unpickler(pickle.Unpickler):
    """Errors never show objects: nested references can make their text exponentially long."""

    def find_class(self, module: str, name: str) -> Callable[..., object]:
        if (module, name) not in _ALLOWED:
            raise _Refused(f"the function {f'{module}.{name}'[:80]}")
        make = _ALLOWED[module, name]
        return lambda *arguments: make(*arguments)  # a new function, since a pickle can set its attributes


def _scalar(kind: _Type, content: bytes | bytearray | str) -> int | float:
    (value,) = Array(content, kind).values()
    return value


def _encoded(text: str, encoding: str) -> str:
    """Protocol 2 writes bytes as text, one character for each; `Array` reads them from it."""
    if encoding != "latin1":
        raise _Refused("another encoding than latin1")
    return text


def _ndarray(*arguments: object) -> Never:
    raise _Refused("an array that is made in another way than NumPy makes it")


_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric")
"""Names of the modules in NumPy 1 and NumPy 2."""
_ALLOWED: dict[tuple[str, str], Callable[..., object]] = {
    **{(module, "_reconstruct"): lambda *_: Array(b"", _Type("u1")) for module in _MODULES},  # its state follows
    **{(module, "_frombuffer"): lambda content, kind, *_: Array(content, kind) for module in _MODULES},
    **{(module, "scalar"): _scalar for module in _MODULES},
    ("numpy", "dtype"): _Type,
    ("numpy", "ndarray"): _ndarray,  # an argument of _reconstruct, never called
    ("_codecs", "encode"): _encoded,
    ("__builtin__", "bytes"): lambda: b"",
    ("builtins", "bytes"): lambda: b"",
}
