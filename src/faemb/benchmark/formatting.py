"""A run as a table of text: settings in which rows differ, measures, the paper's numbers and the difference."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from faemb.benchmark.run import Row, Run, Value

PAPER = "paper"
GAP = "gap"
TIME = "time"
NOTHING = "-"
_PERCENT = ("mAP", "mP@")
_FINE = "objective"
_COSTS = ("µs", "ms", "s", "seconds", "objective", "error", "bytes", "MB")


class Column(NamedTuple):
    name: str
    cells: tuple[str, ...]
    is_number: bool = True


def columns(run: Run) -> list[Column]:
    """Columns of the table, with the paper's number and the gap beside each measure that has one."""
    settings = [_setting(name, run.rows) for name in distinguishing(run.rows)]
    measures = [column for name in measure_names(run.rows) for column in _measure(name, run.rows)]
    times = tuple(duration(total) if (total := total_seconds(row)) else NOTHING for row in run.rows)
    return [*settings, *measures, *([Column(TIME, times)] if any(row.seconds for row in run.rows) else [])]


def distinguishing(rows: Sequence[Row]) -> list[str]:
    """Settings that differ between rows; all settings if none differs, as in a table of one row."""
    names = _names(row.settings for row in rows)
    return [name for name in names if len({repr(row.settings.get(name)) for row in rows}) > 1] or names


def common(rows: Sequence[Row]) -> dict[str, Value]:
    """Settings that are the same in all rows."""
    different = distinguishing(rows)
    return {name: value for row in rows[:1] for name, value in row.settings.items() if name not in different}


def measure_names(rows: Sequence[Row]) -> list[str]:
    return _names(row.measures for row in rows)


def main_measure(run: Run) -> str:
    """The measure by which rows are ranked: the plotted one, or else the first."""
    names = measure_names(run.rows)
    plotted = run.plot.get("y", "")
    return plotted if plotted in names else next(iter(names), "")


def is_cost(measure: str) -> bool:
    """Whether smaller values are better."""
    return " per " in measure or measure.split(" ")[0] in _COSTS


def gap(row: Row, measure: str) -> float | None:
    """The measured value minus the paper's."""
    if measure not in row.measures or measure not in row.published:
        return None
    return row.measures[measure] - row.published[measure]


def number(value: float | None, measure: str, sign: str = "") -> str:
    """Percentages with one decimal, objectives with four, others with two; `sign` "+" always shows the sign."""
    if value is None or not math.isfinite(value):
        return NOTHING
    decimals = 1 if measure.startswith(_PERCENT) else 4 if measure.startswith(_FINE) else 2
    fits = value == 0 or 10**-decimals / 2 <= abs(value) < 1e6 or sign
    return f"{value:{sign}z,.{decimals}f}" if fits else f"{value:.2e}"


def measured(row: Row, measure: str) -> str:
    """The number, with its standard deviation if there were several seeds."""
    value = number(row.measures.get(measure), measure)
    return f"{value} ± {number(row.spread[measure], measure)}" if measure in row.spread else value


def setting(value: Value | None) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def total_seconds(row: Row) -> float:
    return sum(row.seconds.values())


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def _setting(name: str, rows: Sequence[Row]) -> Column:
    values = [row.settings.get(name) for row in rows]
    is_number = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return Column(name, tuple(map(setting, values)), is_number)


def _measure(name: str, rows: Sequence[Row]) -> list[Column]:
    ours = Column(name, tuple(measured(row, name) for row in rows))
    if not any(name in row.published for row in rows):
        return [ours]
    paper = tuple(number(row.published.get(name), name) for row in rows)
    return [ours, Column(PAPER, paper), Column(GAP, tuple(number(gap(row, name), name, "+") for row in rows))]


def _names(mappings: Iterable[Iterable[str]]) -> list[str]:
    """All keys, in the order of their first use."""
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))
