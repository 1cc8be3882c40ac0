"""Memory of a process while it runs (Linux)."""

import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_FIELDS = {"own": "RssAnon", "all": "VmRSS"}


class Peak(NamedTuple):
    """In bytes: memory of the process alone, and with the pages of mapped files, which the system may drop."""

    own: int
    all: int
    seconds: float


def peak_memory(command: Sequence[str]) -> Peak:
    """The most that a command holds, looked at fifty times a second."""
    start, peak = time.perf_counter(), dict.fromkeys(_FIELDS, 0)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
    while process.poll() is None:
        for name, kibibytes in _resident(process.pid).items():
            peak[name] = max(peak[name], kibibytes << 10)
        time.sleep(0.02)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed")
    return Peak(**peak, seconds=time.perf_counter() - start)


def _resident(pid: int) -> dict[str, int]:
    """Of a process and of those that it has started, in KiB."""
    totals = dict.fromkeys(_FIELDS, 0)
    for one in (pid, *_children(pid)):
        try:
            status = Path(f"/proc/{one}/status").read_text()
        except OSError:  # it has just ended
            continue
        for name, field in _FIELDS.items():
            found = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
            totals[name] += int(found[1]) if found else 0
    return totals


def _children(pid: int) -> list[int]:
    try:
        own = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [each for child in own for each in (child, *_children(child))]
