"""Annotations are checked while tests run: types, and the shapes of arrays where an annotation has some.

An int is welcome where a float is asked for, as everywhere in Python. A check of shapes compares the axes of all arrays
of one call, which takes far longer than a check of types: functions without shapes are spared it.
"""

from collections.abc import Callable
from functools import partial, wraps
from inspect import isfunction
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
_with_shapes = jaxtyping.jaxtyped


def install(package: str) -> None:
    """From here on a wrong type or shape in a module of this package is an error at the call that made it."""
    vars(jaxtyping)["jaxtyped"] = _checked  # which the hook puts before each function and each class
    jaxtyping.install_import_hook(package, "typechecking.check")


def _checked(function: Any = None, *, typechecker: Any) -> Any:
    if function is None:
        return partial(_checked, typechecker=typechecker)
    if isfunction(function) and _has_types_only(function):
        return _with_types(function)
    return _with_shapes(function, typechecker=typechecker)


def _has_types_only(function: Callable[..., Any]) -> bool:
    try:
        return not any(map(_is_shape, get_type_hints(function).values()))
    except NameError:  # of a class that is defined later: jaxtyping passes over it
        return False


def _is_shape(hint: Any) -> bool:
    is_one = isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray)
    return is_one or any(map(_is_shape, get_args(hint)))


def _with_types(function: Callable[..., Any]) -> Callable[..., Any]:
    checked = check(function)

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        return (function if jaxtyping.config.jaxtyping_disable else checked)(*arguments, **keywords)

    return call
