"""Number of nodes of an ONNX program after its functions are expanded, which onnxruntime does when it starts.

A program of two kilobytes, with functions thirty levels deep that each call the next one twice, has a billion
nodes.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from faemb.features.cnn.protobuf import BYTES, fields

MOST_NODES = 100_000
"""Largest number of nodes, which bounds the time that a session takes to start; a large network has ten thousand."""
DEEPEST_CALLS = 100
"""Largest depth of nested calls of functions."""

_NODE, _FUNCTION = (7, 4, 8), (10, 1, 13)
"""Numbers of the fields with the domain, the name and the variant ("overload") of a function."""


class Bodies:
    """Counts the nodes of the main graph and of each function, nested graphs included, while the program is read."""

    def __init__(self) -> None:
        self._main = self._current = Counter[bytes]()
        self._functions: dict[bytes, Counter[bytes]] = {}
        self._expanded: dict[bytes, _Size] = {}

    def start_function(self, function: memoryview) -> None:
        """Count the nodes that follow as part of this FunctionProto."""
        # A function that is defined twice gets the nodes of both, since either may be the one that onnxruntime uses.
        self._current = self._functions.setdefault(_name(function, _FUNCTION), Counter())

    def end_function(self) -> None:
        self._current = self._main

    def add(self, node: memoryview) -> None:
        """Count a NodeProto; it is a call if a function has its name."""
        self._current[_name(node, _NODE)] += 1

    def require_few(self) -> None:
        """Raise a ValueError if the expanded program is too large, or its functions are recursive or nested deep."""
        self._size(self._main, 0)
        for name in self._functions:  # onnxruntime also expands functions that are never called
            self._size_of(name, 0)

    def _size(self, body: Mapping[bytes, int], depth: int) -> "_Size":
        called = [(count, self._size_of(name, depth + 1)) for name, count in body.items()]
        nodes = sum(count * (1 + each.nodes) for count, each in called)
        if nodes > MOST_NODES:
            raise ValueError(f"more than {MOST_NODES:,} nodes when its functions are expanded")
        return _Size(nodes, 1 + max((each.levels for _, each in called), default=0))

    def _size_of(self, name: bytes, depth: int) -> "_Size":
        """Size of the function of this name; 0 for an operator."""
        body = self._functions.get(name)
        if body is None:
            return _Size(0, 0)
        if name not in self._expanded and depth <= DEEPEST_CALLS:
            self._expanded[name] = self._size(body, depth)
        if depth > DEEPEST_CALLS or self._expanded[name].levels > DEEPEST_CALLS:
            raise ValueError(f"more than {DEEPEST_CALLS} functions that call each other")
        return self._expanded[name]


class _Size(NamedTuple):
    nodes: int
    levels: int
    """Depth of nested functions."""


def _name(message: memoryview, numbers: tuple[int, int, int]) -> bytes:
    """The qualified name, as onnxruntime builds it; if a field occurs twice, the last one is used."""
    found = {
        field.number: bytes(field.content)
        for field in fields(message)
        if field.kind == BYTES and field.number in numbers
    }
    domain, name, variant = (found.get(number, b"") for number in numbers)
    parts = [b"" if domain == b"ai.onnx" else domain, name]
    return b":".join([*parts, variant] if variant else parts)
