"""The numbers that the paper [DC17] published, to set measured ones beside them.

    published("sota", method="F-FAemb +RN", dataset="holidays", n=16)         78.6
    results("binary", dataset="oxford5k", bits=1024)                          one for each method

They stand in published.toml as the tables print them. Besides the tables: `gains` and `statements`, from the text.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from faemb.errors import InputError

PAPER = "this paper"
"""The source of what its authors measured themselves."""

Condition = str | int | bool


@dataclass(frozen=True)
class Result:
    value: float
    conditions: Mapping[str, Condition]
    """method, source, and as the table has it dataset, n, D, bits and so on."""


@dataclass(frozen=True)
class Table:
    title: str
    unit: str
    label: str
    """In the paper's source; empty for what stands in its text."""
    results: tuple[Result, ...]


def published(table: str, **conditions: Condition) -> float:
    """The one number of a table that meets all conditions."""
    found = results(table, **conditions)
    if len(found) != 1:
        wanted = ", ".join(f"{name}={value!r}" for name, value in conditions.items())
        cure = "ask for more" if found else f"its methods are {', '.join(_methods(table))}"
        raise InputError(f"the table {table!r} has {len(found)} results with {wanted or 'any conditions'}; {cure}")
    return found[0].value


def results(table: str, **conditions: Condition) -> tuple[Result, ...]:
    """Every number of a table that meets all conditions, in the order printed."""
    if table not in tables():
        raise InputError(f"the paper has no table {table!r}; there are {', '.join(tables())}")
    return tuple(
        result
        for result in tables()[table].results
        if all(result.conditions.get(name) == value for name, value in conditions.items())
    )


@cache
def tables() -> Mapping[str, Table]:
    text = files("faemb.benchmark").joinpath("published.toml").read_text(encoding="utf-8")
    return {name: _table(content) for name, content in tomllib.loads(text).items()}


def _table(content: dict[str, Any]) -> Table:
    numbers = tuple(result for row in content["rows"] for result in _row(row, content.get("columns", "")))
    return Table(content["title"], content["unit"], content.get("label", ""), numbers)


def _row(row: dict[str, Any], columns: str) -> Iterator[Result]:
    """One result for each column; `columns` is what distinguishes them."""
    conditions = {"source": PAPER, **{name: value for name, value in row.items() if name not in ("value", "values")}}
    if "value" in row:
        yield Result(float(row["value"]), conditions)
    for column, value in row.get("values", {}).items():
        yield Result(value, {**conditions, columns: int(column) if column.isdigit() else column})


def _methods(table: str) -> list[str]:
    return list(dict.fromkeys(str(result.conditions["method"]) for result in tables()[table].results))
