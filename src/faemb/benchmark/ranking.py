"""Results of several runs in lists, each of them on the very same data: images, ground truth and distractors.

Data are the same if their checksums are. Names alone say little: two folders called holidays may differ.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from faemb.benchmark.formatting import is_cost, main_measure, telling
from faemb.benchmark.run import Row, Run


@dataclass(frozen=True)
class Source:
    """A run, and where it lies."""

    number: int
    run: Run
    folder: Path


@dataclass(frozen=True)
class Place:
    row: Row
    """With the settings of its run among its own."""
    source: Source


@dataclass(frozen=True)
class Board:
    measure: str
    """What it is sorted by."""
    sources: tuple[Source, ...]
    places: tuple[Place, ...]

    @property
    def run(self) -> Run:
        """One of those whose data are the same."""
        return self.sources[0].run

    @property
    def telling(self) -> list[str]:
        return telling([place.row for place in self.places])


def load_sources(places: Iterable[Path]) -> list[Source]:
    """Run folders, each counted once."""
    folders = dict.fromkeys((place if place.is_dir() else place.parent).resolve() for place in places)
    return [Source(number, Run.load(folder), folder) for number, folder in enumerate(folders, 1)]


def boards(sources: Sequence[Source]) -> list[Board]:
    """In the order of the runs; a run is in one of them, by its main measure."""
    grouped: dict[tuple[object, ...], list[Source]] = {}
    for source in sources:
        grouped.setdefault(_same(source.run), []).append(source)
    return [_board(tuple(members)) for members in grouped.values()]


def _same(run: Run) -> tuple[object, ...]:
    more = tuple((used.name, used.checksum) for used in run.distractors)
    return run.dataset.name, run.dataset.checksum, run.labels, more, main_measure(run)


def _board(sources: tuple[Source, ...]) -> Board:
    measure = main_measure(sources[0].run)
    places = [_place(row, source) for source in sources for row in source.run.rows]
    return Board(measure, sources, tuple(sorted(places, key=lambda place: _order(place.row, measure))))


def _place(row: Row, source: Source) -> Place:
    """Settings of the row come first, as they tell more."""
    return Place(replace(row, settings={**row.settings, **source.run.settings, **row.settings}), source)


def _order(row: Row, measure: str) -> float:
    """Best first; what has no value is last."""
    value = row.measures.get(measure, math.nan)
    if not math.isfinite(value):
        return math.inf
    return value if is_cost(measure) else -value
