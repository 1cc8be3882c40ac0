"""Reads plain data from a pickle without running it.

A pickle is a program, and a hostile one can do anything. Here its steps are followed on a stack of our own: numbers,
texts, lists, tuples and dictionaries are made, and a function is only a name, never looked up or called. Names other
than those that NumPy's arrays of numbers need are refused, and so is every step that data of this kind never takes.
Protocols 2 to 5.
"""

import pickletools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faemb.errors import InputError

LARGEST = 64 << 20
"""Bytes; the ground truth of Oxford and Paris has a few million at most."""

_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric")
_NAMES = {
    *(f"{module} {function}" for module in _MODULES for function in ("_reconstruct", "scalar", "_frombuffer")),
    *("numpy ndarray", "numpy dtype", "_codecs encode", "__builtin__ bytes", "builtins bytes"),
}
_LITERALS = {
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINSTRING", "SHORT_BINSTRING"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
"""Steps that put their own argument on the stack."""
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}


@dataclass
class Call:
    """A function's name, what it would have been called with, and what would have been set on its result."""

    function: str
    arguments: Any
    state: Any = None


@dataclass(frozen=True)
class _Name:
    text: str


class _Refused(Exception):
    pass


def unpickled(path: Path) -> Any:
    """What the file holds, with calls left as `Call`."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > LARGEST:
        raise InputError(f"{path} is larger than {LARGEST:,} bytes; expected the ground truth of a benchmark")
    try:
        return _Machine().run(data)
    except _Refused as refusal:
        raise InputError(f"{path} is refused, since it asks for {refusal}; get it again from its authors") from None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise InputError(f"{path} is not a pickle, or is damaged; get it again from its authors") from error


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in _LITERALS:
                self.stack.append(argument)
            elif opcode.name in _CONSTANTS:
                self.stack.append(_CONSTANTS[opcode.name])
            else:
                self._step(opcode.name, argument)
        (result,) = self.stack
        return result

    def _step(self, step: str, argument: Any) -> None:
        stack = self.stack
        match step:
            case "PROTO" | "FRAME" | "STOP":
                pass
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_DICT":
                stack.append({})
            case "MARK":
                self.marks.append(len(stack))
            case "TUPLE":
                stack.append(tuple(self._since(self.marks.pop())))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(self._since(len(stack) - int(step[-1]))))
            case "APPEND" | "APPENDS":
                items = self._since(len(stack) - 1 if step == "APPEND" else self.marks.pop())
                stack[-1].extend(items)
            case "SETITEM" | "SETITEMS":
                self._set_items(self._since(len(stack) - 2 if step == "SETITEM" else self.marks.pop()))
            case "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = stack[-1]
            case "MEMOIZE":
                self.memo[len(self.memo)] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(self.memo[argument])
            case "GLOBAL":
                stack.append(_allowed(argument))
            case "STACK_GLOBAL":
                stack.append(_allowed(" ".join(self._since(len(stack) - 2))))
            case "REDUCE":
                function, arguments = self._since(len(stack) - 2)
                stack.append(Call(function.text, arguments))
            case "BUILD":
                (state,) = self._since(len(stack) - 1)
                stack[-1].state = state
            case _:
                raise _Refused(f"the step {step}, which data has no need of")

    def _since(self, start: int) -> list[Any]:
        """Takes what lies on the stack from there on."""
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def _set_items(self, items: list[Any]) -> None:
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str):  # the hash of nested tuples can take for ever
                raise _Refused("a dictionary with keys that are not texts")
            self.stack[-1][key] = value


def _allowed(name: str) -> _Name:
    if name not in _NAMES:
        raise _Refused(f"the function {'.'.join(name[:80].split())}")
    return _Name(name)
