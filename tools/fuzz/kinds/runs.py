"""Runs of benchmarks (run.json), read as leaderboards and reports."""

import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import typer
from rich.console import Console
from tools.fuzz import ROOT
from tools.fuzz.kind import Kind, Way
from tools.fuzz.odd import json_changed

from faemb.benchmark.run import Run
from faemb.cli.benchmark import leaderboard
from faemb.pages.report import markdown, terminal_table
from made_up_runs import run


class Runs(Kind):
    name = "runs"

    def prepare(self, folder: Path) -> None:
        (folder / "current").mkdir()
        run().save(folder / "current")
        for version in (2, 3):
            stored = ROOT / "tests" / "golden" / f"run-v{version}" / "run.json"
            target = folder / f"version-{version}" / "run.json"
            target.parent.mkdir()
            target.write_bytes(stored.read_bytes())

    def ways(self, victim: Path) -> Sequence[Way]:
        return (json_changed,)

    def read(self, folder: Path) -> None:
        with suppress(typer.Exit):  # no run of several could be used, as the command has said
            leaderboard([folder], folder / "page.html", quiet=True)
        loaded = Run.load(folder)
        markdown(loaded)
        Console(file=io.StringIO()).print(terminal_table(loaded))
