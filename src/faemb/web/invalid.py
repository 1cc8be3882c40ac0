"""What is wrong with a field of a request, in a sentence: what was given, and what is expected."""

from collections.abc import Mapping
from typing import Any

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a number",
    "bool": "true or false",
    "string": "text",
    "date": "a day such as 2024-12-31",
    "json": "JSON",
    "list": "a list",
    "model": "a JSON object",
    "dict": "a JSON object",
}
"""By the beginning of Pydantic's name of the error, such as int_parsing."""
_LIMITS = {
    "greater_than_equal": "{ge:g} or more",
    "less_than_equal": "{le:g} or less",
    "literal_error": "{expected}",
    "too_short": "at least {min_length}",
    "value_error": "{error}",
}


def in_words(error: Mapping[str, Any]) -> str:
    """An error of Pydantic."""
    place = ".".join(str(part) for part in error["loc"][1:]) or "the request"
    if error["type"] == "missing":
        return f"{place} is missing."
    if error["type"] == "json_invalid":
        return "The body of the request is not JSON."
    if isinstance(error.get("ctx", {}).get("error"), ValueError) and "UploadFile" in error["msg"]:
        return f"{place} is text; expected a file."
    expected = _expected(error["type"], error.get("ctx", {}))
    if expected is None:
        return f"{place} cannot be used: {error['msg']}."
    return f"{place} is {_shown(error.get('input'))}; expected {expected}."


def _expected(kind: str, limits: Mapping[str, Any]) -> str | None:
    if kind in _LIMITS:
        return _LIMITS[kind].format(**limits)
    return _KINDS.get(kind.split("_")[0])


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 80 else text[:77] + "..."
