"""Checks of settings on first use; messages state what was given and what was expected."""

import math
import numbers

from faemb.errors import InputError

LARGEST = 2**63 - 1
"""Largest whole number that arrays and files can hold."""
_LARGEST_SEED = 2**32 - 1
"""Largest seed of NumPy's older generators, which scikit-learn uses."""
_LONGEST = 80


def require_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Require a whole number from `least` to `most`, not a boolean."""
    whole = int(value) if isinstance(value, numbers.Integral) and not isinstance(value, bool) else None
    if whole is None or not least <= whole <= (LARGEST if most is None else most):
        upto = f" to {LARGEST if most is None else most}" if most is not None or (whole or 0) > LARGEST else " or more"
        raise InputError(f"{name} is {shown(value)}; expected a whole number, {least}{upto}")


def require_seed(value: object) -> None:
    """Require a seed that scikit-learn accepts, with which anchors are learned."""
    require_whole("seed", value, 0, _LARGEST_SEED)


def require_number(
    name: str, value: object, *, above: float = -math.inf, least: float = -math.inf, most: float = math.inf
) -> None:
    """Require a finite number that is above `above`, at least `least` and at most `most`."""
    number = _as_float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    if not math.isfinite(number) or not above < number or not least <= number <= most:
        bounds = {f"more than {above}": above > -math.inf, f"at least {least}": least > -math.inf}
        bounds[f"at most {most}"] = most < math.inf
        wanted = ", ".join(text for text, given in bounds.items() if given)
        raise InputError(f"{name} is {shown(value)}; expected a number, {wanted or 'finite'}")


def require_flag(name: str, value: object) -> None:
    """Require True or False."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is {shown(value)}; expected True or False")


def require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Require one of these names."""
    if value not in choices:
        raise InputError(f"{name} is {shown(value)}; expected one of {', '.join(choices)}")


def require_kind(name: str, value: object, kind: type, *, optional: bool = True) -> None:
    """Require an instance of this class, or None if `optional`."""
    if not isinstance(value, kind) and not (optional and value is None):
        article = f"{kind.__name__}(...)" + (" or None" if optional else "")
        raise InputError(f"{name} is {shown(value)}; expected {article}")


def shown(value: object) -> str:
    """The repr of a value for a message, cut if it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print whole numbers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _as_float(value: numbers.Real) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number that no float can hold
        return math.inf
