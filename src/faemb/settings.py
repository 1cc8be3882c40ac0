"""Checks of settings, made when they are first used: what was given, what was expected."""

import math
import numbers
from typing import Any

from faemb.errors import InputError


def require_whole(name: str, value: Any, least: int, most: int | None = None) -> None:
    """A whole number in a range; True and False are none."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        upto = f" to {most}" if most is not None else " or more"
        raise InputError(f"{name} is {value!r}; expected a whole number, {least}{upto}")


def require_number(
    name: str, value: Any, *, above: float = -math.inf, least: float = -math.inf, most: float = math.inf
) -> None:
    """A finite number above or at least a bound, and at most another."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if not real or not above < value or not least <= value <= most:
        bounds = {f"more than {above}": above > -math.inf, f"at least {least}": least > -math.inf}
        bounds[f"at most {most}"] = most < math.inf
        wanted = ", ".join(text for text, given in bounds.items() if given)
        raise InputError(f"{name} is {value!r}; expected a number, {wanted or 'finite'}")


def require_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}; expected True or False")


def require_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"{name} is {value!r}; expected one of {', '.join(choices)}")


def require_kind(name: str, value: Any, kind: type, *, optional: bool = True) -> None:
    if not isinstance(value, kind) and not (optional and value is None):
        article = f"{kind.__name__}(...)" + (" or None" if optional else "")
        raise InputError(f"{name} is {value!r}; expected {article}")
