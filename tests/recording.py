"""Functions that record how they are called."""

from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


def recording(record: Callable[..., object], inner: Callable[..., Result]) -> Callable[..., Result]:
    """`inner`, with a call of `record` with the same arguments before each of its own."""

    def recorded(*arguments: Any, **named: Any) -> Result:
        record(*arguments, **named)
        return inner(*arguments, **named)

    return recorded
