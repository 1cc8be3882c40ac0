"""Forked processes beside those of the driver: seeds, single inputs, and why a process has ended."""

import os
import re
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tools.fuzz.kind import Kind
from tools.fuzz.process import Limits
from tools.fuzz.worker import CRASH, HANG, Maker, Outcome, Place, frames_of, run

FORK = get_context("fork")
_TIME_IS_OVER = "Timeout ("
"""How faulthandler begins the stack of a process that it ends."""


def prepare(kind: Kind, seeds: Path) -> None:
    """Make the seeds of a kind in a process of its own, since threads of libraries do not survive a fork."""
    seeds.mkdir(parents=True)
    _in_a_process(partial(kind.prepare, seeds), f"the seeds of {kind.name} were not made")


def death(code: int | None, place: Place, limits: Limits, *, stuck: bool = False) -> Outcome:
    """Why a process has ended while it read an input; its stack says where."""
    trace = place.trace.read_text(errors="replace")
    frames = frames_of(re.findall(r'File "([^"]+)", line (\d+)', trace))
    if stuck or trace.startswith(_TIME_IS_OVER):
        files = [frame.split(":")[0] for frame in frames[:1]]  # the line changes from input to input
        return Outcome(HANG, f"more than {limits.seconds:g} s in {files}", trace, seconds=limits.seconds)
    ended = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
    return Outcome(CRASH, f"{ended} {frames[:1]}", trace)


def made_apart(make_input: Maker, folder: Path) -> None:
    _in_a_process(partial(make_input, folder), "an input could not be made again")


def _in_a_process(work: Callable[..., object], fault: str) -> None:
    process = FORK.Process(target=work)
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(fault)


def kill_group(group: int | None) -> bool:
    """Kill a process with all that it has started; whether any was there."""
    if not group:  # 0 would be this process and those beside it
        return False
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def again(kind: Kind, folder: Path, work: Path, limits: Limits) -> Outcome:
    """Read one input that was kept."""
    place = Place(work / "again")
    ours, theirs = FORK.Pipe(duplex=False)
    process = FORK.Process(target=run, args=(kind, [(0, partial(copied, folder))], place, limits, theirs))
    process.start()
    theirs.close()
    process.join()
    messages = []
    with suppress(EOFError):
        while True:
            messages.append(ours.recv())
    return messages[-1] if isinstance(messages[-1], Outcome) else death(process.exitcode, place, limits)


def copied(folder: Path, target: Path) -> str:
    """Pipes and holes of sparse files are copied as such, which shutil cannot do."""
    subprocess.run(["cp", "-a", "--sparse=always", folder, target], check=True)  # noqa: S607
    return folder.name
