"""The command line in this process: how a command ends, what it prints, and what a mistake looks like."""

import math
import re
import sys
import threading
from collections.abc import Callable
from typing import NamedTuple

import pytest

from faemb.cli import main


class Ended(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Ended]


def commands(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line of its arguments, on a screen that is wide enough to break no line."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("faemb.cli.console._FIRST", math.inf)  # however slow this machine is, no lines of progress

    for module in (sys, threading):  # main replaces them
        monkeypatch.setattr(module, "excepthook", module.excepthook)

    def call(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["faemb", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        return Ended(int(ended.value.code or 0), out, err)

    return call


def assert_mistake(ended: Ended, words: str = "") -> None:
    """One line that says it all, and nothing else."""
    assert ended.code == 1
    assert ended.out == ""
    assert re.fullmatch(r"faemb: [^\n]+\n", ended.err), ended.err
    assert re.search(words, ended.err), ended.err


def assert_misuse(ended: Ended, words: str) -> None:
    """An explanation of options and arguments, made by typer; its boxes may break lines anywhere."""
    assert ended.code == 2
    assert "Usage: " in ended.err
    assert "Traceback" not in ended.err
    assert words.replace(" ", "") in re.sub(r"[\s│]|\x1b\[[\d;]*m", "", ended.err)
