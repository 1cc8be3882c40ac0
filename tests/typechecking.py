"""Annotations are checked while tests run: types, and the shapes of arrays where an annotation has some.

An int is welcome where a float is asked for, as everywhere in Python. A check of shapes compares the axes of all arrays
of one call, which takes far longer than a check of types: functions without shapes are spared it. The check of a
function is made when it is called for the first time: making one for every function of the package takes seconds. In
each test the first CALLS calls of a function are checked: some are called ten thousand times, by the same line.
"""

from collections.abc import Callable
from functools import partial, wraps
from inspect import isfunction
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
CALLS = 20
_with_shapes = jaxtyping.jaxtyped
_test = 0
"""Number of the test that is running."""


def install(package: str) -> None:
    """From here on a wrong type or shape in a module of this package is an error at the call that made it."""
    vars(jaxtyping)["jaxtyped"] = _checked  # which the hook puts before each function and each class
    jaxtyping.install_import_hook(package, "typechecking.check")


def next_test() -> None:
    global _test
    _test += 1


def _checked(function: Any = None, *, typechecker: Any) -> Any:
    if function is None:
        return partial(_checked, typechecker=typechecker)
    if isfunction(function):
        return _when_called(function, typechecker)
    return _with_shapes(function, typechecker=typechecker)


def _when_called(function: Callable[..., Any], typechecker: Any) -> Callable[..., Any]:
    checked: Callable[..., Any] | None = None
    test, left = _test, CALLS

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        nonlocal checked, test, left
        if test != _test:
            test, left = _test, CALLS
        if not left or jaxtyping.config.jaxtyping_disable:
            return function(*arguments, **keywords)
        left -= 1
        if checked is None:
            types_only = _has_types_only(function)
            checked = check(function) if types_only else _with_shapes(function, typechecker=typechecker)
        return checked(*arguments, **keywords)

    return call


def _has_types_only(function: Callable[..., Any]) -> bool:
    try:
        return not any(map(_is_shape, get_type_hints(function).values()))
    except NameError:  # of a class that is defined later: jaxtyping passes over it
        return False


def _is_shape(hint: Any) -> bool:
    is_one = isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray)
    return is_one or any(map(_is_shape, get_args(hint)))
