"""Limits and measures of the process in which inputs are read (Linux)."""

import faulthandler
import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from faemb.runtime.limits import MEMORY, SECONDS


@dataclass(frozen=True)
class Limits:
    seconds: float = 10.0
    """Longest time for one input."""
    item_seconds: float = 2.0
    """The deadline that readers are given for one item."""
    memory: int = 200_000_000
    """The budget that readers are given for one item."""
    margin: int = 150_000_000
    """Memory beyond the budget that is no finding: buffers of libraries, a second copy of what was decoded."""
    most: int = 2_000_000_000
    """The process gets no more memory than this, so that the machine bears a reader without any bound."""
    written: int = 500_000_000
    """Largest file that a reader can write."""


def confine(limits: Limits, trace: IO[str]) -> None:
    """Limit this process; `trace` gets the stack of a crash."""
    os.setsid()
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    sys.dont_write_bytecode = True  # modules that are imported late are not written outside the input's folder
    os.environ |= {MEMORY: str(limits.memory), SECONDS: str(limits.item_seconds)}
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = _status("VmData") + limits.most
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    faulthandler.enable(trace)


@contextmanager
def limited(limits: Limits, trace: IO[str]) -> Iterator[None]:
    """The block ends in time, or the process does, with its stack in `trace`."""
    faulthandler.dump_traceback_later(limits.seconds, exit=True, file=trace)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.written, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        faulthandler.cancel_dump_traceback_later()


@contextmanager
def settled_in(folder: Path, temporary: Path) -> Iterator[None]:
    """The current folder, and the one for temporary files."""
    os.chdir(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    try:
        yield
    finally:
        os.chdir("/")


class PeakMemory:
    """Memory that was taken since this was made, in bytes."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the largest resident size is forgotten
        self._before = _status("VmRSS")

    def taken(self) -> int:
        return max(0, _status("VmHWM") - self._before)


def _status(field: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{field}:"))
