"""The report of a run: a table for the terminal, the same as Markdown with everything that was used, their files."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from faemb.benchmark.formatting import Column, columns
from faemb.benchmark.provenance import caution, facts
from faemb.benchmark.run import Run
from faemb.errors import MissingExtraError
from faemb.pages.plots import save_plots
from faemb.runtime.storage import replacing

FILE = "report.md"

_SPECIAL = re.compile(r"[\\`*\[\]<>|&~$]|(?<!\w)_|_(?!\w)")
"""What Markdown would take for more than itself; an underscore within a word is none of it."""


def terminal_table(run: Run) -> Table:
    """For rich to print; nothing in it is taken for markup."""
    shown = columns(run)
    table = Table(title=_plain(run.title), title_justify="left", box=SIMPLE_HEAD)
    table.caption, table.caption_justify = caution(run) or None, "left"
    for column in shown:
        table.add_column(_plain(column.name), justify="right" if column.is_number else "left")
    for cells in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*map(_plain, cells))
    return table


def markdown(run: Run, plots: Sequence[str] = ()) -> str:
    """`plots` are names of files beside the report."""
    said = caution(run)
    parts = [
        f"# {_escaped(run.title)}",
        _table(columns(run)) if run.rows else "No results.",
        *([f"**{said}**"] if said else []),
        *(f"![{_escaped(run.title)}]({name})" for name in plots),
        "## What was used",
        _table(_as_columns(facts(run))),
    ]
    return "\n\n".join(parts) + "\n"


def write_report(run: Run, folder: Path, plots: Iterable[Path] = ()) -> list[Path]:
    """run.json and report.md, in a folder that is made if need be; `plots` were drawn into it before."""
    folder.mkdir(parents=True, exist_ok=True)
    text = markdown(run, [plot.name for plot in plots])
    with replacing(folder / FILE) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return [run.save(folder), folder / FILE]


def write_run(run: Run, folder: Path) -> list[Path]:
    """run.json, report.md and, where matplotlib is installed, the plots; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        plots = save_plots(run, folder)
    except MissingExtraError:
        plots = []
    return [*write_report(run, folder, plots), *plots]


def _as_columns(pairs: list[tuple[str, str]]) -> list[Column]:
    names, texts = zip(*pairs, strict=True)
    return [Column("what", names, is_number=False), Column("which", texts, is_number=False)]


def _table(shown: list[Column]) -> str:
    head = [column.name for column in shown]
    rule = ["---:" if column.is_number else "---" for column in shown]
    rows = zip(*(column.cells for column in shown), strict=True)
    lines = [map(_escaped, head), rule, *(map(_escaped, cells) for cells in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> Text:
    return Text(_one_line(text))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", _one_line(text))


def _one_line(text: str) -> str:
    """Without what moves the cursor or recolours a terminal."""
    return "".join(each if each.isprintable() else " " if each.isspace() else "?" for each in text)
