"""Results of several runs in ranked lists, one for each set of data: images, ground truth and distractors.

Data are the same if their names and checksums are equal.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from faemb.benchmark.formatting import distinguishing, is_cost, main_measure
from faemb.benchmark.run import FILE, Row, Run
from faemb.errors import FaembError, Fault, InputError, about


@dataclass(frozen=True)
class Source:
    """A run and its folder."""

    number: int
    run: Run
    folder: Path


@dataclass(frozen=True)
class Place:
    row: Row
    """Its settings include those of its run."""
    source: Source


@dataclass(frozen=True)
class Board:
    measure: str
    """The measure by which it is sorted."""
    sources: tuple[Source, ...]
    places: tuple[Place, ...]

    @property
    def run(self) -> Run:
        """The first of its runs; the data of all are the same."""
        return self.sources[0].run

    @property
    def distinguishing(self) -> list[str]:
        return distinguishing([place.row for place in self.places])


def runs_among(places: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The places that hold a run, and the others, such as caches and unfinished runs.

    Raises an error if a place does not exist, or if none holds a run.
    """
    for place in places:
        if not place.exists():
            raise InputError(f"there is no file or folder {place}; give folders that faemb benchmark made")
    runs = [place for place in places if place.name == FILE or (place / FILE).is_file()]
    if not runs:
        raise InputError(f"there is no {FILE} in {', '.join(map(str, places))}; give folders that faemb benchmark made")
    return runs, [place for place in places if place not in runs]


def load_sources(places: Iterable[Path]) -> tuple[list[Source], list[Fault]]:
    """The runs of these folders, each once, and the faults of those that cannot be read."""
    sources: list[Source] = []
    faults: list[Fault] = []
    for folder in dict.fromkeys((place if place.is_dir() else place.parent).resolve() for place in places):
        try:
            sources.append(Source(len(sources) + 1, Run.load(folder), folder))
        except FaembError as error:
            faults.append(about(folder, error))
    return sources, faults


def boards(sources: Sequence[Source]) -> list[Board]:
    """One list for each set of data and main measure, in the order of the runs."""
    grouped: dict[tuple[object, ...], list[Source]] = {}
    for source in sources:
        grouped.setdefault(_data(source.run), []).append(source)
    return [_board(tuple(members)) for members in grouped.values()]


def _data(run: Run) -> tuple[object, ...]:
    more = tuple((used.name, used.checksum) for used in run.distractors)
    return run.dataset.name, run.dataset.checksum, run.labels, more, main_measure(run)


def _board(sources: tuple[Source, ...]) -> Board:
    measure = main_measure(sources[0].run)
    places = [_place(row, source) for source in sources for row in source.run.rows]
    return Board(measure, sources, tuple(sorted(places, key=lambda place: _order(place.row, measure))))


def _place(row: Row, source: Source) -> Place:
    """The row with the settings of its run added; its own come first and override those of the run."""
    return Place(replace(row, settings={**row.settings, **source.run.settings, **row.settings}), source)


def _order(row: Row, measure: str) -> float:
    """Sort key: the best first, and rows without a value last."""
    value = row.measures.get(measure, math.nan)
    if not math.isfinite(value):
        return math.inf
    return value if is_cost(measure) else -value
