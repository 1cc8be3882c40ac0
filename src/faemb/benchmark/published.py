"""Numbers published in the paper [DC17], to be compared with measured ones; published.toml holds them by table.

published("sota", method="F-FAemb +RN", dataset="holidays", n=16)         78.6
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

POOLING = "sinkhorn"
"""The pooling of all vectors whose mAP the paper published."""

Condition = str | int


@dataclass(frozen=True)
class Result:
    value: float
    conditions: Mapping[str, Condition]
    """The method and, depending on the table, dataset, n, D, bits."""


def published(table: str, **conditions: Condition) -> float | None:
    """The number of a table that meets all conditions; None if there is none, or more than one."""
    found = [result.value for result in tables()[table] if conditions.items() <= result.conditions.items()]
    return found[0] if len(found) == 1 else None


@cache
def tables() -> Mapping[str, tuple[Result, ...]]:
    text = files("faemb.benchmark").joinpath("published.toml").read_text(encoding="utf-8")
    return {name: tuple(_results(**content)) for name, content in tomllib.loads(text).items()}


def _results(rows: list[dict], columns: str = "") -> Iterator[Result]:
    """One result for each row, or for each of its `values`, whose keys are values of the condition `columns`."""
    for row in rows:
        conditions = {name: value for name, value in row.items() if name not in ("value", "values")}
        if "value" in row:
            yield Result(row["value"], conditions)
        for column, value in row.get("values", {}).items():
            yield Result(value, {**conditions, columns: int(column) if column.isdigit() else column})
