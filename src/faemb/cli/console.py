"""All printing of the command line: results to standard output, progress and warnings to standard error."""

import math
import sys
import time
from typing import TYPE_CHECKING

from faemb.runtime import UNKNOWN

if TYPE_CHECKING:
    from rich.progress import TaskID
    from rich.table import Table

WIDE = 160
"""Columns of a table that is not printed to a terminal."""

_FIRST, _BETWEEN = 10.0, 10.0
"""Seconds before the first line of progress that is not written to a terminal, and between two lines of a stage."""


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
    """The progress of a command: bars on a terminal, a line now and then elsewhere, nothing if `quiet`.

    An instance is the `progress` callback of a long call: live(stage, done, total).
    """

    def __init__(self, quiet: bool) -> None:
        self._shown = None if quiet else _Bars() if sys.stderr.isatty() else _Lines()

    def __enter__(self) -> "Live":
        if isinstance(self._shown, _Bars):
            self._shown.start()
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self._shown, _Bars):
            self._shown.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if self._shown is not None:
            self._shown.show(stage, done, total)


class _Bars:
    """One bar per stage with what is done, the rate, the time taken and the remaining time.

    The bar of a stage of unknown length moves to and fro.
    """

    def start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._stages: dict[str, TaskID] = {}
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._bars.start()

    def stop(self) -> None:
        self._bars.stop()

    def show(self, stage: str, done: int, total: int) -> None:
        if stage not in self._stages:
            self._stages[stage] = self._bars.add_task(stage, total=_known(total), count="")
        bar = self._stages[stage]
        if self._bars.tasks[bar].finished and done == 0:  # the same stage of the next piece of work
            self._bars.reset(bar, total=_known(total))
        speed = self._bars.tasks[bar].speed
        rate = f", {speed:.1f} per second" if speed and total != 1 else ""
        self._bars.update(bar, completed=done, total=_known(total), count=_count(done, total) + rate)


class _Lines:
    """A line for each stage that begins after the first seconds, and then at every tenth of it, but seldom.

    A command that ends within `_FIRST` seconds writes none.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._stage, self._start, self._last, self._told = "", 0.0, 0.0, 0

    def show(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage != self._stage or done < self._told:
            self._stage, self._start, self._last, self._told = stage, now, -math.inf, 0
        if now - self._began < _FIRST or done == total or not self._is_due(done, total, now):
            return
        self._last, self._told = now, done
        parts = [_count(done, total), self._time(done, total, now - self._start)]
        warning(": ".join([stage, ", ".join(filter(None, parts))]).removesuffix(": "))

    def _is_due(self, done: int, total: int, now: float) -> bool:
        if now - self._last < _BETWEEN:
            return False
        if self._last == -math.inf:
            return True
        if total == UNKNOWN:  # after 10 s, 20 s, 40 s and so on
            return now - self._start >= 2 * (self._last - self._start)
        return done - self._told >= total / 10

    def _time(self, done: int, total: int, seconds: float) -> str:
        if seconds < 1:
            return ""
        if total == UNKNOWN or done == 0:
            return f"{_duration(seconds)} so far"
        return f"about {_duration(seconds * (total - done) / done)} left"


def _known(total: int) -> int | None:
    return None if total == UNKNOWN else total


def _count(done: int, total: int) -> str:
    """Empty for a stage in one piece."""
    if total == UNKNOWN:
        return f"{done}" if done else ""
    return f"{done}/{total}" if total != 1 else ""


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
