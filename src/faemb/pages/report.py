"""Reports of a run: a table for the terminal; as files, run.json, Markdown with the data and settings, and plots."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from faemb.benchmark.formatting import columns
from faemb.benchmark.provenance import caution, facts
from faemb.benchmark.run import Run
from faemb.errors import MissingExtraError
from faemb.runtime.storage import replacing

FILE = "report.md"

_SPECIAL = re.compile(r"[\\`*\[\]<>|&~$]|(?<!\w)_|_(?!\w)")
"""Characters with a meaning in Markdown; an underscore inside a word has none."""


def terminal_table(run: Run) -> Table:
    """A table for rich to print; text in it is never interpreted as markup."""
    shown = columns(run)
    table = Table(title=_plain(run.title), title_justify="left", box=SIMPLE_HEAD)
    table.caption, table.caption_justify = _plain(caution(run)) or None, "left"
    for column in shown:
        table.add_column(_plain(column.name), justify="right" if column.is_number else "left")
    for cells in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*map(_plain, cells))
    return table


def markdown(run: Run, plots: Sequence[str] = ()) -> str:
    """The report; `plots` are names of files in its folder."""
    shown = columns(run)
    cells = zip(*(column.cells for column in shown), strict=True)
    results = _table([column.name for column in shown], cells, ["---:" if each.is_number else "---" for each in shown])
    parts = [
        f"# {_escaped(run.title)}",
        results if run.rows else "No results.",
        caution(run) and f"**{caution(run)}**",
        *(f"![{_escaped(run.title)}]({name})" for name in plots),
        "## Data and settings",
        _table(["name", "value"], facts(run), ["---", "---"]),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def write_run(run: Run, folder: Path) -> list[Path]:
    """Write run.json, report.md and, if matplotlib is installed, the plots; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    plots = []
    with suppress(MissingExtraError):
        from faemb.pages.plots import save_plots

        plots = save_plots(run, folder)
    with replacing(folder / FILE) as temporary:
        temporary.write_text(markdown(run, [plot.name for plot in plots]), encoding="utf-8")
    return [run.save(folder), folder / FILE, *plots]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], rule: Sequence[str]) -> str:
    lines = [map(_escaped, head), rule, *(map(_escaped, cells) for cells in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> Text:
    return Text(_one_line(text))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", _one_line(text))


def _one_line(text: str) -> str:
    """The text with spaces for line breaks, and question marks for control characters of a terminal."""
    return "".join(each if each.isprintable() else " " if each.isspace() else "?" for each in text)
