"""Progress as it is shown: bars on a terminal, a line now and then elsewhere."""

import io
import math
import sys

import pytest
from rich.progress import Task

from faemb.cli.console import Live, _Bars, _duration
from faemb.runtime import UNKNOWN


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *calls, quiet: bool = False) -> str:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setattr(sys, "stderr", stream)
    with Live(quiet) as progress:
        for call in calls:
            progress(*call)
    return stream.getvalue()


COUNTED = [("features", done, 3) for done in range(4)]
EIGENVALUES = "whitening: eigenvalues of 4,224 x 4,224"


@pytest.fixture
def at_once(monkeypatch):
    """Lines are not held back."""
    monkeypatch.setattr("faemb.cli.console._FIRST", 0)
    monkeypatch.setattr("faemb.cli.console._BETWEEN", 0)


def test_a_terminal_shows_what_is_done(monkeypatch):
    shown = watched(monkeypatch, Terminal(), *COUNTED)
    assert "features" in shown
    assert "3/3" in shown


def test_a_stage_of_unknown_length_has_a_name_and_a_time(monkeypatch):
    shown = watched(monkeypatch, Terminal(), (EIGENVALUES, 0, UNKNOWN), (EIGENVALUES, 0, UNKNOWN))
    assert EIGENVALUES in shown
    assert "0:00:00" in shown
    assert "0/" not in shown


def bar_after(monkeypatch, *calls: tuple[str, int, int]) -> Task:
    """The one bar on a terminal after these calls."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Live(quiet=False) as live:
        assert isinstance(live._shown, _Bars)
        for call in calls:
            live(*call)
        (task,) = live._shown._bars.tasks
        return task


def test_a_stage_of_unknown_length_ends_with_a_complete_bar(monkeypatch):
    assert bar_after(monkeypatch, (EIGENVALUES, 0, UNKNOWN), (EIGENVALUES, 1, 1)).finished


def test_a_stage_that_comes_again_starts_again(monkeypatch):
    task = bar_after(monkeypatch, *COUNTED, ("features", 0, 8), ("features", 2, 8))
    assert (task.completed, task.total, task.finished) == (2, 8, False)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["terminal", "pipe"])
def test_quiet_shows_nothing(monkeypatch, stream):
    assert watched(monkeypatch, stream, *COUNTED, quiet=True) == ""


@pytest.mark.usefixtures("at_once")
def test_a_pipe_gets_a_line_per_stage_and_tenth(monkeypatch):
    calls = [("features", done, 40) for done in range(41)]
    lines = watched(monkeypatch, io.StringIO(), *calls, (EIGENVALUES, 0, UNKNOWN), (EIGENVALUES, 1, 1)).splitlines()
    assert lines == [*(f"faemb: features: {done}/40" for done in range(0, 40, 4)), f"faemb: {EIGENVALUES}"]


@pytest.mark.usefixtures("at_once")
def test_lines_give_the_time(monkeypatch):
    clock = iter([0.0, 0.0, 100.0, 100.0, 130.0, 190.0])  # the first is that of the start of the command
    monkeypatch.setattr("faemb.cli.console.time.monotonic", lambda: next(clock))
    calls = [("features", 0, 1000), ("features", 250, 1000), *[(EIGENVALUES, 0, UNKNOWN)] * 3]
    assert watched(monkeypatch, io.StringIO(), *calls).splitlines() == [
        "faemb: features: 0/1000",
        "faemb: features: 250/1000, about 5 min left",
        f"faemb: {EIGENVALUES}",
        f"faemb: {EIGENVALUES}: 30 s so far",
        f"faemb: {EIGENVALUES}: 90 s so far",
    ]


def test_a_short_command_writes_no_line(monkeypatch):
    monkeypatch.setattr("faemb.cli.console._FIRST", math.inf)
    assert watched(monkeypatch, io.StringIO(), *COUNTED) == ""


@pytest.mark.usefixtures("at_once")
def test_nothing_to_do_is_not_told(monkeypatch):
    assert watched(monkeypatch, io.StringIO(), ("features", 0, 0), ("encode", 0, 0)) == ""


@pytest.mark.parametrize(("seconds", "text"), [(4.4, "4 s"), (99, "99 s"), (130, "2 min"), (9000, "2.5 h")])
def test_durations(seconds, text):
    assert _duration(seconds) == text
