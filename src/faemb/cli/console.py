"""All printing of the command line: results to standard output, progress and warnings to standard error.

A file name, or a text in a file of others, may contain characters that control a terminal: escape sequences that clear
the screen or set the clipboard, line breaks that add a line, marks that reverse the order of the text. So everything is
printed line by line, and such characters as escapes: `result` and `warning` print one line each, whatever is in it.
"""

import logging
import math
import re
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from faemb.errors import is_lack_of_open_files
from faemb.runtime import UNKNOWN, time_left

if TYPE_CHECKING:
    from rich.progress import TaskID
    from rich.table import Table

WIDE = 160
"""Columns of a table that is not printed to a terminal."""

_FIRST, _BETWEEN = 10.0, 10.0
"""Seconds before the first line of progress that is not written to a terminal, and between two lines of a stage."""


_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters of ASCII and ISO 8859, separators of lines and paragraphs, marks that change the direction."""


def result(line: str, *, at_once: bool = False) -> None:
    """Print a line; `at_once` also to a file or a pipe, where it would wait for more lines."""
    _write(one_line(line))
    if at_once:
        sys.stdout.flush()


def is_shown_on_a_terminal() -> bool:
    """Whether results are; elsewhere they may be kept, as in a log."""
    return sys.stdout.isatty()


def warning(sentence: str) -> None:
    _write(one_line(f"faemb: {sentence}"), to_stderr=True)


def misuse(usage: str, fault: str) -> None:
    """How a command is used, in some lines, and what is wrong with its options or arguments."""
    for line in (*usage.splitlines(), "", f"Error: {fault}"):
        _write(one_line(line), to_stderr=True)


def print_json(value: object) -> None:
    import json

    try:
        text = json.dumps(value, ensure_ascii=False, indent=2)
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    for line in text.split("\n"):
        _write(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", line))  # the escapes of JSON


def one_line(text: str) -> str:
    """The text with escapes, such as \\x1b, in place of characters that break lines or control a terminal."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def print_what_python_reports() -> None:
    """Print warnings of libraries, and a traceback, through this module too."""
    warnings.showwarning = _show_warning
    sys.excepthook = _show_traceback
    threading.excepthook = _show_end_of_thread


def print_what_is_logged(*names: str) -> None:
    """Print errors that these parts of a server log, through this module too."""
    for name in names:
        logging.getLogger(name).handlers = [_LogLines(logging.ERROR)]
        logging.getLogger(name).propagate = False


def silence(*names: str) -> None:
    """Print nothing that these parts and parts of them log."""
    for name in names:
        logging.getLogger(name).handlers = [logging.NullHandler()]
        logging.getLogger(name).propagate = False


class _LogLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        warning(record.getMessage().strip())
        if record.exc_info is not None and record.exc_info[0] is not None:
            _show_traceback(*record.exc_info)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    warning(f"{category.__name__}: {message}")


def _show_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    for part in traceback.format_exception(kind, error, trace):
        for line in part.rstrip("\n").split("\n"):
            _write(one_line(line), to_stderr=True)


def _show_end_of_thread(end: threading.ExceptHookArgs) -> None:
    """A lack of open files is passed over: the command that waits for the thread says so in its own sentence."""
    if end.exc_value is not None and not is_lack_of_open_files(end.exc_value):
        _show_traceback(end.exc_type, end.exc_value, end.exc_traceback)


def _write(line: str, *, to_stderr: bool = False) -> None:
    """Characters that the stream cannot encode, as in file names that are not valid text, are written as escapes."""
    stream = sys.stderr if to_stderr else sys.stdout
    encoding = stream.encoding or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding), file=stream)


def table_lines(table: "Table") -> Iterator[str]:
    """A table as wide as the terminal, or WIDE columns without one; its cells contain no line breaks of others."""
    from rich.console import Console

    width = None if is_shown_on_a_terminal() else WIDE
    console = Console(width=width, color_system=None, highlight=False, soft_wrap=False)
    with console.capture() as captured:
        console.print(table)
    yield from captured.get().rstrip("\n").split("\n")


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
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[count]}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._bars.start()

    def stop(self) -> None:
        self._bars.stop()

    def show(self, stage: str, done: int, total: int) -> None:
        if stage not in self._stages:
            self._stages[stage] = self._bars.add_task(one_line(stage), total=_known(total), count="")
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
        left = time_left(seconds, done, total)
        return f"{_duration(seconds)} so far" if left is None else f"about {_duration(left)} left"


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
