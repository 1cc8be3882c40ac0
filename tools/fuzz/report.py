"""The report of a run, one page: what was read of each kind, and each finding with the command that shows it again."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tools.fuzz.driver import Count, Driver
from tools.fuzz.findings import Finding

_HEADINGS = ("kind", "inputs", "accepted", "refused", "findings", "per second", "peak MB", "slowest s")
_BETWEEN = 30.0
"""Seconds between two lines of progress that is not written to a terminal."""


def report(driver: Driver, seconds: float) -> str:
    rows = [_row(name, count) for name, count in driver.counts.items()]
    total = Count()
    for count in driver.counts.values():
        for name in ("inputs", "accepted", "refused", "findings", "seconds"):
            setattr(total, name, getattr(total, name) + getattr(count, name))
        total.slowest, total.memory = max(total.slowest, count.slowest), max(total.memory, count.memory)
    return "\n".join([*_table([_HEADINGS, *rows, _row("all", total)]), "", *_findings(driver, seconds)])


class Shown:
    """Progress on standard error: one line that is written anew on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, driver: Driver, left: float) -> None:
        terminal, now = sys.stderr.isatty(), time.monotonic()
        if now - self._last < (1 if terminal else _BETWEEN):
            return
        self._last = now
        counts = driver.counts.values()
        done, asked = sum(count.inputs for count in counts), driver.plan.inputs
        rest = f"{left:.0f} s left" if asked is None else f"{asked * len(counts) - done:,} left"
        text = f"{done:,} inputs, {len(driver.findings.all)} findings, {rest}"
        print(f"\r{text:<70}" if terminal else text, end="" if terminal else "\n", file=sys.stderr, flush=True)


def _row(name: str, count: Count) -> tuple[str, ...]:
    numbers = (count.inputs, count.accepted, count.refused, count.findings)
    speed = count.inputs / count.seconds if count.seconds else 0
    return name, *(f"{n:,}" for n in numbers), f"{speed:.1f}", f"{count.memory / 1e6:.0f}", f"{count.slowest:.2f}"


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *others = (
            f"{cell:{'<' if not n else '>'}{width}}" for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, *others])


def _findings(driver: Driver, seconds: float) -> Iterator[str]:
    found = sorted(driver.findings.all.values(), key=lambda finding: finding.name)
    yield f"{len(found)} findings in {seconds:.0f} s, seed {driver.plan.seed}"
    for finding in found:
        yield from ("", *about(finding, driver.findings.folder))


def about(finding: Finding, folder: Path) -> Iterator[str]:
    yield f"{finding.kind}, {finding.result}, {finding.times} times: {finding.signature}"
    yield f"  {finding.label}"
    yield f"  python -m tools.fuzz --again {folder / finding.name}"
