"""Checks of settings, made when they are first used; messages state what was given and what was expected."""

import math
import numbers

from faemb.errors import InputError


def require_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """A whole number from `least` to `most`; booleans are refused."""
    whole = int(value) if isinstance(value, numbers.Integral) and not isinstance(value, bool) else None
    if whole is None or whole < least or (most is not None and whole > most):
        upto = f" to {most}" if most is not None else " or more"
        raise InputError(f"{name} is {value!r}; expected a whole number, {least}{upto}")


def require_number(
    name: str, value: object, *, above: float = -math.inf, least: float = -math.inf, most: float = math.inf
) -> None:
    """A finite number above or at least a bound, and at most another."""
    number = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    if not math.isfinite(number) or not above < number or not least <= number <= most:
        bounds = {f"more than {above}": above > -math.inf, f"at least {least}": least > -math.inf}
        bounds[f"at most {most}"] = most < math.inf
        wanted = ", ".join(text for text, given in bounds.items() if given)
        raise InputError(f"{name} is {value!r}; expected a number, {wanted or 'finite'}")


def require_flag(name: str, value: object) -> None:
    """True or False."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}; expected True or False")


def require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """One of these names."""
    if value not in choices:
        raise InputError(f"{name} is {value!r}; expected one of {', '.join(choices)}")


def require_kind(name: str, value: object, kind: type, *, optional: bool = True) -> None:
    """An instance of this class, or None if that is allowed."""
    if not isinstance(value, kind) and not (optional and value is None):
        article = f"{kind.__name__}(...)" + (" or None" if optional else "")
        raise InputError(f"{name} is {value!r}; expected {article}")
