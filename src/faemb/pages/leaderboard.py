"""Several runs as one HTML page: a ranked list for each dataset, and the data and settings of each run."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from faemb.benchmark.formatting import (
    GAP,
    NOTHING,
    PAPER,
    TIME,
    duration,
    gap,
    is_cost,
    measure_names,
    measured,
    number,
    setting,
    total_seconds,
)
from faemb.benchmark.provenance import caution, facts
from faemb.benchmark.ranking import Board, Place, Source, boards
from faemb.benchmark.run import Row
from faemb.pages.document import render

TITLE = "Leaderboard"
_METHOD = "method"
_LARGEST_PLOT = 10_000_000
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Cell:
    column: str
    text: str
    kind: str = ""
    """CSS class of the cell."""


@dataclass(frozen=True)
class ShownRow:
    method: str
    settings: str
    value: str
    part: float
    """Fraction of the largest value in the list, for the bar."""
    cells: list[Cell]
    run: int


@dataclass(frozen=True)
class ShownRun:
    number: int
    title: str
    started: str
    facts: list[tuple[str, str]]
    plots: list[str]
    """PNG files in base64."""


@dataclass(frozen=True)
class ShownBoard:
    name: str
    measure: str
    is_cost: bool
    images: int
    queries: int
    checksums: tuple[str, str]
    """Checksums of images and ground truth."""
    cautions: list[str]
    rows: list[ShownRow]
    runs: list[ShownRun]


def leaderboard(sources: Sequence[Source], *, title: str = TITLE) -> str:
    """The page; the folder of each run may hold its plots."""
    results = sum(len(source.run.rows) for source in sources)
    shown = map(_board, boards(sources))
    return render("leaderboard.html", title=title, note="", results=results, runs=len(sources), boards=shown)


def _board(board: Board) -> ShownBoard:
    run = board.run
    return ShownBoard(
        name=" + ".join(used.name for used in (run.dataset, *run.distractors)),
        measure=board.measure,
        is_cost=is_cost(board.measure),
        images=run.dataset.images,
        queries=run.queries,
        checksums=(run.dataset.checksum, run.labels),
        cautions=sorted({caution(source.run) for source in board.sources} - {""}),
        rows=[_row(place, board) for place in board.places],
        runs=[_run(source) for source in board.sources],
    )


def _row(place: Place, board: Board) -> ShownRow:
    """The method, the settings that distinguish it from others in the list, and its numbers."""
    settings = place.row.settings
    names = [name for name in board.distinguishing if name != _METHOD and name in settings]
    return ShownRow(
        method=setting(settings.get(_METHOD, board.run.title)),
        settings=", ".join(f"{name} {setting(settings[name])}" for name in names),
        value=measured(place.row, board.measure),
        part=_part(place, board),
        cells=_cells(place.row, board),
        run=place.source.number,
    )


def _part(place: Place, board: Board) -> float:
    values = [each.row.measures.get(board.measure, 0.0) for each in board.places]
    largest, value = max(filter(isfinite, values), default=0.0), place.row.measures.get(board.measure, 0.0)
    return value / largest if 0 < value <= largest else 0.0


def _cells(row: Row, board: Board) -> list[Cell]:
    """The paper's number and the gap, if any row of the list has them; the other measures; the time."""
    rows, measure = [place.row for place in board.places], board.measure
    cells = [Cell(name, measured(row, name)) for name in measure_names(rows) if name != measure]
    cells.append(Cell(TIME, duration(total_seconds(row)) if row.seconds else NOTHING))
    if not any(measure in each.published for each in rows):
        return cells
    difference = gap(row, measure)
    paper = Cell(PAPER, number(row.published.get(measure), measure))
    return [paper, Cell(GAP, number(difference, measure, "+"), _direction(difference, measure)), *cells]


def _direction(difference: float | None, measure: str) -> str:
    if difference is None or number(difference, measure) == number(0.0, measure):
        return ""
    return "worse" if (difference > 0) == is_cost(measure) else "better"


def _run(source: Source) -> ShownRun:
    """The run with its plots; files named .png with other content are left out."""
    run, files = source.run, [path.read_bytes() for path in sorted(source.folder.glob("*.png")) if _is_small(path)]
    plots = [base64.b64encode(content).decode("ascii") for content in files if content.startswith(_PNG)]
    return ShownRun(source.number, run.title, run.started, facts(run), plots)


def _is_small(path: Path) -> bool:
    """Whether it is a plain file, small enough to be a plot; reading a pipe would block."""
    return path.is_file() and path.stat().st_size <= _LARGEST_PLOT
