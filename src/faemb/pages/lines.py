"""Which rows of a run make one line of its plot."""

from collections.abc import Sequence
from dataclasses import dataclass

from faemb.benchmark.formatting import setting, telling
from faemb.benchmark.run import Row, Run, Value

Point = tuple[Value, float]


@dataclass(frozen=True)
class Line:
    label: str
    measured: tuple[Point, ...]
    published: tuple[Point, ...]


def lines_of(run: Run) -> list[Line]:
    """One for each value of the setting that `plot` names, in the order of the rows; points by x."""
    x, y = run.plot.get("x", ""), run.plot.get("y", "")
    rows = [row for row in run.rows if x in row.settings and y in row.measures]
    by = _distinguishing(rows, x, run.plot.get("lines", ""))
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(label_of(row, by), []).append(row)
    return [_line(label, members, x, y) for label, members in grouped.items()]


def label_of(row: Row, names: Sequence[str]) -> str:
    """Values alone where they are words, with their names where they are numbers."""
    parts = [_named(name, row.settings[name]) for name in names if name in row.settings]
    return ", ".join(parts)


def ordered(values: Sequence[Value]) -> list[Value]:
    """Each once: numbers by size, words as they come."""
    once = list(dict.fromkeys(values))
    return sorted(once, key=float) if are_numbers(once) else once


def are_numbers(values: Sequence[Value]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _distinguishing(rows: Sequence[Row], x: str, lines: str) -> list[str]:
    """The setting that was named, and others until no line has two points above one x."""
    others = [name for name in telling(rows) if name not in (x, lines)] if rows else []
    chosen = [lines] if lines else []
    for name in others:
        if _crowding(rows, [*chosen, x]) > _crowding(rows, [*chosen, name, x]):
            chosen.append(name)
    return chosen


def _crowding(rows: Sequence[Row], names: Sequence[str]) -> int:
    return len(rows) - len({tuple(row.settings.get(name) for name in names) for row in rows})


def _line(label: str, rows: Sequence[Row], x: str, y: str) -> Line:
    measured = [(row.settings[x], row.measures[y]) for row in rows]
    published = [(row.settings[x], row.published[y]) for row in rows if y in row.published]
    return Line(label, _sorted(measured), _sorted(published))


def _sorted(points: Sequence[Point]) -> tuple[Point, ...]:
    """Repeated measurements stay side by side."""
    order = {value: place for place, value in enumerate(ordered([x for x, _ in points]))}
    return tuple(sorted(points, key=lambda point: order[point[0]]))


def _named(name: str, value: Value) -> str:
    return value if isinstance(value, str) else f"{name} {setting(value)}"
