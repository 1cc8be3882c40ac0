"""Several runs as one HTML page: a list for each set of data, best results first, with what was used for each."""

import base64
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import NamedTuple

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
from faemb.benchmark.ranking import Board, Place, Source, boards, load_sources
from faemb.benchmark.run import Row
from faemb.pages.document import counted, document, text
from faemb.pages.leaderboard_style import STYLE

TITLE = "Leaderboard"
_METHOD = "method"
_ABOUT = "A list holds results on the same images and ground truth, by checksum; the best come first."
_PNG = b"\x89PNG\r\n\x1a\n"


class _Cell(NamedTuple):
    name: str
    """Of the column; shown in each cell where there is no room for columns."""
    html: str
    kind: str = ""


def leaderboard(folders: Iterable[Path], *, title: str = TITLE) -> str:
    """The page; folders are those of runs, with run.json and perhaps plots."""
    sources = load_sources(folders)
    results = sum(len(source.run.rows) for source in sources)
    about = f"{counted(results, 'result', 'results')} of {counted(len(sources), 'run', 'runs')}. {_ABOUT}"
    return document(title, about, "", map(_board, boards(sources)), style=STYLE)


def _board(board: Board) -> str:
    run = board.run
    name = " + ".join([run.dataset.name, *(used.name for used in run.distractors)])
    order = f"{board.measure}, less is better" if is_cost(board.measure) else board.measure
    cautions = {caution(source.run) for source in board.sources} - {""}
    said = "".join(f'<p class="caution">{text(sentence)}</p>' for sentence in sorted(cautions))
    return (
        f"<section><h2><bdi>{text(name)}</bdi> <small>by {text(order)}</small></h2>"
        f'<p class="soft">{text(_data(board))}</p>{said}{_table(board)}'
        f"{''.join(map(_details, board.sources))}</section>\n"
    )


def _data(board: Board) -> str:
    run = board.run
    counts = f"{counted(run.dataset.images, 'image', 'images')}, {counted(run.queries, 'query', 'queries')}"
    sums = f"checksums {run.dataset.checksum[:12] or 'unknown'} and {run.labels[:12] or 'unknown'}"
    return f"{counts}; {sums}"


def _table(board: Board) -> str:
    rows = [_cells(place, board) for place in board.places]
    names = "".join(f'<th scope="col" class="number">{text(cell.name)}</th>' for cell in rows[0]) if rows else ""
    head = f'<tr><th></th><th scope="col">{_METHOD}</th>{names}</tr>'
    ranked = enumerate(zip(board.places, rows, strict=True), 1)
    body = "".join(_row(rank, _what(place, board), cells) for rank, (place, cells) in ranked)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def _row(rank: int, what: str, cells: list[_Cell]) -> str:
    numbers = "".join(f'<td class="number {kind}" data-name="{text(name)}">{html}</td>' for name, html, kind in cells)
    return (
        f'<tr><td class="rank">{rank}</td><th scope="row" class="what" data-rank="{rank}">{what}</th>{numbers}</tr>\n'
    )


def _cells(place: Place, board: Board) -> list[_Cell]:
    """One for each column of numbers."""
    row, measure = place.row, board.measure
    others = [name for name in measure_names([each.row for each in board.places]) if name != measure]
    main = f"<b>{measured(row, measure)}</b>{_bar(place, board)}"
    return [
        _Cell(measure, main, "main"),
        *(_compared(row, measure) if any(measure in each.row.published for each in board.places) else []),
        *(_Cell(name, measured(row, name)) for name in others),
        _Cell(TIME, duration(total_seconds(row)) if row.seconds else NOTHING),
        _Cell("run", f'<a href="#run-{place.source.number}">{place.source.number}</a>'),
    ]


def _compared(row: Row, measure: str) -> list[_Cell]:
    difference = gap(row, measure)
    return [
        _Cell(PAPER, number(row.published.get(measure), measure)),
        _Cell(GAP, number(difference, measure, "+"), _direction(difference, measure)),
    ]


def _what(place: Place, board: Board) -> str:
    """The method, and settings that tell it from the others in the list."""
    settings = place.row.settings
    told = [f"{name} {setting(settings[name])}" for name in board.telling if name != _METHOD and name in settings]
    method = settings.get(_METHOD, board.run.title)
    return f"<bdi>{text(setting(method))}</bdi><small>{text(', '.join(told))}</small>"


def _bar(place: Place, board: Board) -> str:
    """As long as its part of the largest value."""
    values = [each.row.measures.get(board.measure, 0.0) for each in board.places]
    largest, value = max(filter(isfinite, values), default=0.0), place.row.measures.get(board.measure, 0.0)
    part = round(100 * value / largest) if 0 < value <= largest else 0
    return f'<span class="bar"><i style="width:{part}%"></i></span>'


def _direction(difference: float | None, measure: str) -> str:
    if difference is None or number(difference, measure) == number(0.0, measure):
        return ""
    return "worse" if (difference > 0) == is_cost(measure) else "better"


def _details(source: Source) -> str:
    said = "".join(f"<dt>{text(name)}</dt><dd>{text(content)}</dd>" for name, content in facts(source.run))
    plots = "".join(_picture(path, source.run.title) for path in sorted(source.folder.glob("*.png")))
    return (
        f'<details><summary id="run-{source.number}">Run {source.number}: <bdi>{text(source.run.title)}</bdi> '
        f"<small>{text(source.run.started)}</small></summary><dl>{said}</dl>{plots}</details>"
    )


def _picture(path: Path, title: str) -> str:
    """Other files of such a name are left out."""
    content = path.read_bytes()
    if not content.startswith(_PNG):
        return ""
    data = base64.b64encode(content).decode("ascii")
    return f'<img src="data:image/png;base64,{data}" alt="plot of {text(title)}">'
