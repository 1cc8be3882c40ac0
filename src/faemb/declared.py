"""Checks of a loaded component against the type annotations of its class.

Types of settings are the annotations of the constructor. Learned attributes are annotated in the class: parts with
their class, arrays with their shape, such as Float[Array, "n_anchors d"]. An axis named after a setting must have the
length of that setting; axes of the same name must have the same length in all arrays of the component.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from faemb.component import Component
from faemb.errors import InputError
from faemb.settings import LARGEST, shown

Hint = Any
"""An annotation."""

_BLOCK = 1 << 20
_TYPES = ("float32", "float64", "uint8")
"""Types of learned arrays; descriptors of other types are converted before `fit`."""
_WORDS = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a text", NoneType: "null"}


def setting_hints(kind: Any) -> Mapping[str, Hint]:
    """The annotations of the constructor, by setting."""
    return _hints(kind.__init__)


def learned_hints(kind: Any) -> Mapping[str, Hint]:
    """The annotations of learned attributes, by name."""
    return {name: hint for name, hint in _hints(kind).items() if name in kind.learned}


@cache  # evaluating annotations takes longer than reading a small model
def _hints(annotated: Any) -> Mapping[str, Hint]:
    return get_type_hints(annotated)


def require_declared(name: str, value: object, hint: Hint) -> None:
    """Raise an error for a value that does not have the annotated type; numbers must be finite."""
    if not _fits(value, hint):
        raise InputError(f"{name} is {shown(value)}; expected {' or '.join(map(_in_words, _choices(hint)))}")


def require_part(name: str, kind: type[Component], hint: Hint) -> None:
    """Raise an error if the annotation does not allow a component of this class."""
    if hint is not Any and not any(isinstance(each, type) and issubclass(kind, each) for each in _choices(hint)):
        raise InputError(f"{name} is {kind.__name__}; expected {' or '.join(map(_in_words, _choices(hint)))}")


def require_declared_arrays(component: Component) -> None:
    """Raise an error if learned arrays are missing, or do not have the annotated types and shapes."""
    kind, arrays = type(component), component.learned_arrays()
    hints = ((name, each) for name, hint in learned_hints(kind).items() for each in _choices(hint))
    declared = {name: hint for name, hint in hints if hasattr(hint, "dim_str")}
    missing = [name for name in declared if name not in arrays and name not in kind.baseline]
    if missing and not declared.keys().isdisjoint(arrays):
        raise InputError(f"the array {missing[0]} is missing")
    settings = component.settings().items()
    lengths = {name: value for name, value in settings if isinstance(value, int) and not isinstance(value, bool)}
    for name, array in arrays.items():
        hint = learned_hints(kind).get(name, Any)
        if name in declared:
            _require_shape(name, array, declared[name], lengths, may_be_empty=name in kind.may_be_empty)
        elif any(isinstance(each, type) and issubclass(each, Component) for each in _choices(hint)):
            raise InputError(f"{name} is an array; expected {' or '.join(map(_in_words, _choices(hint)))}")


def _require_shape(name: str, array: np.ndarray, hint: Hint, lengths: dict[str, int], *, may_be_empty: bool) -> None:
    """Check one array; `lengths` are the known lengths of axes, to which those of new axes are added."""
    types = [each for each in _TYPES if each in hint.dtypes]
    if str(array.dtype) not in types:
        raise InputError(f"the array {name} has type {array.dtype}; expected {' or '.join(types)}")
    axes = hint.dim_str.split()
    wanted = tuple(lengths.get(axis, axis) for axis in axes)
    found = zip(axes, array.shape, strict=False)
    if array.ndim != len(axes) or any(lengths.setdefault(axis, length) != length for axis, length in found):
        raise InputError(f"the array {name} has shape {array.shape}; expected ({', '.join(map(str, wanted))})")
    if array.size == 0 and not may_be_empty:
        raise InputError(f"the array {name} is empty")
    if not all(np.isfinite(part).all() for part in _blocks(array)):
        raise InputError(f"the array {name} has NaN or infinite values")


def _blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """The elements in blocks: there may be no memory for a second array of this size."""
    flat = array.reshape(-1)
    return (flat[start : start + _BLOCK] for start in range(0, flat.size, _BLOCK))


def _fits(value: object, hint: Hint) -> bool:
    return hint is Any or any(_is(value, each) for each in _choices(hint))


def _is(value: object, kind: Hint) -> bool:
    """Whether a value has this type, which is not a union."""
    if kind in (int, float):
        return _is_number(value, kind)
    if _is_list(kind):
        return isinstance(value, list | tuple) and all(_fits(each, get_args(kind)[0]) for each in value)
    return isinstance(value, kind)


def _is_number(value: object, kind: type) -> bool:
    if isinstance(value, bool) or not isinstance(value, int if kind is int else int | float):
        return False
    return abs(value) <= (LARGEST if kind is int else sys.float_info.max)  # false for NaN


def _choices(hint: Hint) -> Iterable[Hint]:
    origin: Any = get_origin(hint)
    return get_args(hint) if origin in (Union, UnionType) else (hint,)


def _is_list(hint: Hint) -> bool:
    origin: Any = get_origin(hint)
    return origin is Sequence


def _in_words(hint: Hint) -> str:
    if _is_list(hint):
        return f"a list, each {_in_words(get_args(hint)[0])}"
    return _WORDS.get(hint) or (f"an array ({hint.dim_str})" if hasattr(hint, "dim_str") else hint.__name__)
