"""Reads lists, texts and NumPy arrays of numbers from a pickle, without executing code that a malicious file names.

Python's Unpickler is not used, even with an allow-list: hashing nested tuples takes exponential time, and memory cannot
be bounded.

A pickle is a program for a stack machine with a memo, and names the functions that build its objects. Here its
instructions are executed one by one: only those that plain data needs are implemented, and names refer only to a short
list of functions of this module. Keys of dictionaries must be texts. The time of an instruction is proportional
to its own bytes and the objects that it takes from the stack, and the memory of all objects is counted. Protocols 2 to
5.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from pickletools import opcodes

import numpy as np

from faemb.errors import InputError
from faemb.runtime.limits import item_memory, require_memory, require_plain_file

LARGEST = 64 << 20
"""Largest size of a file in bytes; the ground truth of Oxford and Paris takes a few million."""

_DTYPES = {"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"}
_NUMBER_BYTES, _OBJECT_BYTES, _TEXT_FACTOR = 48, 400, 4
"""Bytes of memory for a number, for any other object, and for each byte of a text, which may need four."""
_DAMAGE = (EOFError, ValueError, TypeError, LookupError, AttributeError, struct.error)


class _Refused(Exception):
    pass


def unpickled(path: Path) -> object:
    """The object in the file; arrays are instances of `Array`, whose values `numbers` returns."""
    if require_plain_file(path, "the ground truth of a benchmark").st_size > LARGEST:
        raise InputError(f"{path} is larger than {LARGEST:,} bytes; expected the ground truth of a benchmark")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    try:
        return _Machine(data, path).run()
    except InputError:
        raise
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


class _Type:
    """Represents a NumPy dtype."""

    __slots__ = ("dtype",)

    def __init__(self, code: object, *options: object) -> None:
        if not isinstance(code, str) or code not in _DTYPES:
            raise _Refused("an array of something else than numbers")
        self.dtype = np.dtype(code)

    def set_state(self, state: object) -> None:
        order = state[1] if isinstance(state, tuple) else None
        if not isinstance(order, str) or order not in ("<", ">", "|"):
            raise ValueError("a type without its byte order")
        self.dtype = self.dtype.newbyteorder(order)  # type: ignore[arg-type]


class Array:
    """Represents a NumPy array by the bytes of its numbers and their type; its shape is ignored."""

    __slots__ = ("_content", "_kind")

    def __init__(self, content: object, kind: object) -> None:
        if not (isinstance(kind, _Type) and isinstance(content, bytes | bytearray | str)):
            raise ValueError("an array without its bytes or their type")
        self._content, self._kind = content, kind

    def set_state(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise ValueError("an array without its state")
        self.__init__(state[4], state[2])  # type: ignore[misc]

    def __len__(self) -> int:
        return len(self._content) // self._kind.dtype.itemsize

    def values(self) -> list[int | float]:
        """The numbers, decoded only when needed, since a small file can hold many arrays that share their bytes."""
        content = self._content
        raw = content.encode("latin-1") if isinstance(content, str) else content
        return np.frombuffer(raw, self._kind.dtype).tolist()


class _Function:
    """A function that the file may name; it can only be called."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., object]) -> None:
        self.call = call


class _Machine:
    """Executes the instructions of a pickle; texts of protocol 2 are read as latin-1."""

    def __init__(self, data: bytes, source: Path) -> None:
        self._data, self._place, self._source = data, 0, source
        self._stack: list[object] = []
        self._marks: list[int] = []
        self._memo: dict[int, object] = {}
        self._spent, self._allowed = len(data), item_memory()

    def run(self) -> object:
        """The object that is on the stack at the end."""
        if self._data[:1] != _PROTOCOL:
            raise ValueError("no protocol")
        data, stack = self._data, self._stack
        while True:
            code = data[self._place]
            self._place += 1
            if code == _SHORT:  # the most frequent instruction of a ground truth
                stack.append(data[self._place] | data[self._place + 1] << 8)
                self._place += 2
                self._spent += _NUMBER_BYTES
            elif code == _STOP:
                return stack.pop()
            elif step := _STEPS.get(code):
                step(self)
            else:
                raise _Refused(f"the operation {_NAMES[chr(code)]}, which plain data does not use")
            if self._spent > self._allowed:
                require_memory(self._spent, self._source)

    def _take(self, count: int) -> bytes:
        taken = self._data[self._place : self._place + count]
        if len(taken) != count:
            raise EOFError
        self._place += count
        return taken

    def _length(self, width: int) -> int:
        return int.from_bytes(self._take(width), "little")

    def _line(self) -> str:
        end = self._data.index(b"\n", self._place)
        return self._take(end + 1 - self._place)[:-1].decode()

    def _push(self, made: object, cost: int = _OBJECT_BYTES) -> None:
        self._spent += cost
        self._stack.append(made)

    def _pop(self) -> object:
        if self._marks and len(self._stack) == self._marks[-1]:
            raise ValueError("a value is missing on the stack")
        return self._stack.pop()

    def _since_mark(self) -> list[object]:
        mark = self._marks.pop()
        taken = self._stack[mark:]
        del self._stack[mark:]
        return taken

    def _top(self, kind: type) -> object:
        if not self._stack or type(self._stack[-1]) is not kind:
            raise ValueError("an object of an unexpected type")
        return self._stack[-1]

    # Numbers and constants

    def whole(self, width: int, *, signed: bool = False) -> None:
        self._push(int.from_bytes(self._take(width), "little", signed=signed), _NUMBER_BYTES + 2 * width)

    def real(self) -> None:
        self._push(struct.unpack(">d", self._take(8))[0], _NUMBER_BYTES)

    def constant(self, value: object) -> None:
        self._push(value, 8)

    # Texts and bytes

    def text(self, width: int, encoding: str = "utf-8") -> None:
        raw = self._take(self._length(width))
        self._push(raw.decode(encoding, "surrogatepass" if encoding == "utf-8" else "strict"), _cost(raw))

    def raw(self, width: int) -> None:
        raw = self._take(self._length(width))
        self._push(raw, _cost(raw))

    # Containers

    def new(self, kind: type) -> None:
        self._push(kind())

    def tuple_of(self, count: int) -> None:
        items = [self._pop() for _ in range(count)]
        self._push(tuple(reversed(items)))

    def tuple_since_mark(self) -> None:
        self._push(tuple(self._since_mark()))

    def list_since_mark(self) -> None:
        self._push(self._since_mark())

    def append(self) -> None:
        item = self._pop()
        self._top(list).append(item)  # type: ignore[attr-defined]

    def extend(self) -> None:
        items = self._since_mark()
        self._top(list).extend(items)  # type: ignore[attr-defined]

    def set_item(self) -> None:
        value, key = self._pop(), self._pop()
        self._set([key, value])

    def set_items(self) -> None:
        self._set(self._since_mark())

    def dict_since_mark(self) -> None:
        items = self._since_mark()
        self._push({})
        self._set(items)

    def _set(self, items: list[object]) -> None:
        keys, values = items[::2], items[1::2]
        if not all(type(key) is str for key in keys):
            raise ValueError("a key that is not a text")
        self._spent += _OBJECT_BYTES * len(keys)
        self._top(dict).update(zip(keys, values, strict=True))  # type: ignore[attr-defined]

    # The stack and the memo

    def mark(self) -> None:
        self._marks.append(len(self._stack))

    def pop(self) -> None:
        if self._marks and len(self._stack) == self._marks[-1]:
            self._marks.pop()
        else:
            self._stack.pop()

    def pop_mark(self) -> None:
        self._since_mark()

    def again(self) -> None:
        self._push(self._stack[-1], 8)

    def keep(self, width: int) -> None:
        self._keep(self._length(width))

    def keep_next(self) -> None:
        self._keep(len(self._memo))

    def _keep(self, number: int) -> None:
        self._spent += 100
        self._memo[number] = self._stack[-1]

    def recall(self, width: int) -> None:
        self._push(self._memo[self._length(width)], 8)

    # Functions

    def function(self) -> None:
        self._find(self._line(), self._line())

    def function_on_stack(self) -> None:
        name, module = self._pop(), self._pop()
        if not (isinstance(name, str) and isinstance(module, str)):
            raise ValueError("a name that is not a text")
        self._find(module, name)

    def _find(self, module: str, name: str) -> None:
        if (module, name) not in _ALLOWED:
            raise _Refused(f"the function {f'{module}.{name}'[:80]}")
        self._push(_Function(_ALLOWED[module, name]))

    def call(self) -> None:
        arguments, function = self._pop(), self._pop()
        if not isinstance(function, _Function) or not isinstance(arguments, tuple):
            raise ValueError("a call of an object that is not a function")
        self._push(function.call(*arguments))

    def build(self) -> None:
        state = self._pop()
        made = self._stack[-1]
        if not isinstance(made, _Type | Array):
            raise ValueError("a state for an object that has none")
        made.set_state(state)


def _cost(raw: bytes) -> int:
    return _OBJECT_BYTES + _TEXT_FACTOR * len(raw)


def _scalar(kind: object, content: object) -> int | float:
    array = Array(content, kind)
    if len(array) != 1:
        raise ValueError("several numbers instead of one")
    return array.values()[0]


def _encoded(text: object, encoding: object) -> object:
    """The text itself: protocol 2 stores bytes as text, one character per byte, and `Array` decodes them."""
    if encoding != "latin1":
        raise _Refused("another encoding than latin1")
    return text


def _ndarray(*arguments: object) -> object:
    raise _Refused("an array that NumPy did not write")


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

_NAMES = {known.code: known.name for known in opcodes}
_PROTOCOL = b"\x80"
_STOP, _SHORT = ord("."), ord("M")
_STEPS: dict[int, Callable[[_Machine], object]] = {
    _PROTOCOL[0]: lambda machine: machine._take(1),
    0x95: lambda machine: machine._take(8),  # the length of a frame, which is not needed
    ord("K"): lambda machine: machine.whole(1),
    ord("J"): lambda machine: machine.whole(4, signed=True),
    0x8A: lambda machine: machine.whole(machine._length(1), signed=True),
    0x8B: lambda machine: machine.whole(machine._length(4), signed=True),
    ord("G"): _Machine.real,
    ord("N"): lambda machine: machine.constant(None),
    0x88: lambda machine: machine.constant(True),
    0x89: lambda machine: machine.constant(False),
    ord("X"): lambda machine: machine.text(4),
    0x8C: lambda machine: machine.text(1),
    0x8D: lambda machine: machine.text(8),
    ord("T"): lambda machine: machine.text(4, "latin-1"),
    ord("U"): lambda machine: machine.text(1, "latin-1"),
    ord("B"): lambda machine: machine.raw(4),
    ord("C"): lambda machine: machine.raw(1),
    0x8E: lambda machine: machine.raw(8),
    0x96: lambda machine: machine.raw(8),
    ord("]"): lambda machine: machine.new(list),
    ord("}"): lambda machine: machine.new(dict),
    ord(")"): lambda machine: machine.new(tuple),
    0x85: lambda machine: machine.tuple_of(1),
    0x86: lambda machine: machine.tuple_of(2),
    0x87: lambda machine: machine.tuple_of(3),
    ord("t"): _Machine.tuple_since_mark,
    ord("l"): _Machine.list_since_mark,
    ord("a"): _Machine.append,
    ord("e"): _Machine.extend,
    ord("d"): _Machine.dict_since_mark,
    ord("s"): _Machine.set_item,
    ord("u"): _Machine.set_items,
    ord("("): _Machine.mark,
    ord("0"): _Machine.pop,
    ord("1"): _Machine.pop_mark,
    ord("2"): _Machine.again,
    ord("q"): lambda machine: machine.keep(1),
    ord("r"): lambda machine: machine.keep(4),
    0x94: _Machine.keep_next,
    ord("h"): lambda machine: machine.recall(1),
    ord("j"): lambda machine: machine.recall(4),
    ord("c"): _Machine.function,
    0x93: _Machine.function_on_stack,
    ord("R"): _Machine.call,
    ord("b"): _Machine.build,
}
"""The operations of plain data by their codes, as in the documentation of pickletools."""
