"""All printing of the command line: results to standard output, progress and warnings to standard error."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import TaskID
    from rich.table import Table

WIDE = 160
"""Columns of a table that is not printed to a terminal."""


def result(text: str) -> None:
    _write(text)


def warning(text: str) -> None:
    _write(f"faemb: {text}", to_stderr=True)


def print_json(value: object) -> None:
    import json

    try:
        text = json.dumps(value, ensure_ascii=False, indent=2)
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    _write(text)


def _write(text: str, *, to_stderr: bool = False) -> None:
    """Characters that the stream cannot encode, as in file names that are not valid text, are written as escapes."""
    stream = sys.stderr if to_stderr else sys.stdout
    encoding = stream.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)


def table_text(table: "Table") -> str:
    """A table as wide as the terminal, or WIDE columns without one."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False, soft_wrap=False)
    with console.capture() as captured:
        console.print(table)
    return captured.get().rstrip("\n")


class Live:
    """Progress bars on a terminal, one line per stage with the rate and the remaining time; hidden elsewhere.

    An instance is the `progress` callback of a long call: live(stage, done, total).
    """

    def __init__(self, quiet: bool) -> None:
        self._hidden = quiet or not sys.stderr.isatty()
        self._stages: dict[str, TaskID] = {}

    def __enter__(self) -> "Live":
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=self._hidden,
        )
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage not in self._stages:
            self._stages[stage] = self._bars.add_task(stage, total=total, rate="")
        bar = self._stages[stage]
        speed = self._bars.tasks[bar].speed
        self._bars.update(bar, completed=done, total=total, rate=f"{speed:.1f} per second" if speed else "")
