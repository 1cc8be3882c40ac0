"""Batches of inputs of all kinds in limited processes: each kind gets the same time, each input its number."""

import os
import re
import signal
import subprocess
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
from tools.fuzz.findings import Findings
from tools.fuzz.kind import Kind, make
from tools.fuzz.process import Limits
from tools.fuzz.worker import (
    ACCEPTED,
    CRASH,
    HANG,
    LEFT,
    NOT_MADE,
    REFUSED,
    Begun,
    Maker,
    Outcome,
    Place,
    frames_of,
    run,
)

BATCH = 100
"""Inputs for one process: few enough that nothing grows, enough that its start costs little."""
_FORK = get_context("fork")
_TIME_IS_OVER = "Timeout ("
"""How faulthandler begins the stack of a process that it ends."""


@dataclass
class Count:
    """What has been read of one kind."""

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    findings: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    memory: int = 0
    begun: int = 0
    """Inputs that are numbered, also those that a running process will read."""

    def add(self, outcome: Outcome) -> None:
        self.inputs += 1
        self.accepted += outcome.result == ACCEPTED
        self.refused += outcome.result == REFUSED
        self.findings += outcome.is_finding
        self.slowest, self.memory = max(self.slowest, outcome.seconds), max(self.memory, outcome.memory)


@dataclass
class Plan:
    """How long to run: seconds for all, or a number of inputs for each kind."""

    seed: int = 0
    seconds: float | None = None
    inputs: int | None = None
    jobs: int = 1
    limits: Limits = field(default_factory=Limits)


@dataclass
class _Batch:
    kind: Kind
    numbers: list[int]
    process: BaseProcess
    told: Connection
    place: Place
    started: float
    current: Begun | None = None
    heard: float = 0.0
    ended: int = 0
    stuck: bool = False


class Driver:
    def __init__(self, kinds: list[Kind], plan: Plan, work: Path, findings: Findings) -> None:
        self.kinds, self.plan, self.work, self.findings = {kind.name: kind for kind in kinds}, plan, work, findings
        self.counts = {name: Count() for name in self.kinds}
        self._left: dict[str, list[int]] = {name: [] for name in self.kinds}
        self._running: list[_Batch] = []

    def run(self, progress: Callable[["Driver", float], None]) -> None:
        """`progress` gets the time left, or the part of the inputs that is left."""
        for kind in self.kinds.values():
            prepare(kind, self.work)
        self._began = time.monotonic()
        try:
            while self._fill() or (self._running and self._time_left()):
                for told in wait([batch.told for batch in self._running], timeout=1):
                    self._hear(next(batch for batch in self._running if batch.told is told))
                self._stop_those_that_are_stuck()
                progress(self, self._time_left())
        finally:
            for batch in self._running:  # the time is over
                batch.process.kill()
                self._add_time(batch)

    # Starting.

    def _time_left(self) -> float:
        if self.plan.seconds is None:
            return float("inf")
        return max(0.0, self._began + self.plan.seconds - time.monotonic())

    def _fill(self) -> bool:
        """Start processes where there is room and work; whether there was work."""
        while len(self._running) < self.plan.jobs:
            kind = self._next_kind()
            if kind is None:
                return False
            self._running.append(self._started(kind, self._next_numbers(kind)))
        return True

    def _next_kind(self) -> Kind | None:
        """The one that has had the least time, among those with inputs left."""
        waiting = [name for name, count in self.counts.items() if self._left[name] or self._may_begin(count)]
        if not waiting or not self._time_left():
            return None
        now = time.monotonic()
        busy = {name: sum(now - b.started for b in self._running if b.kind.name == name) for name in waiting}
        return self.kinds[min(waiting, key=lambda name: self.counts[name].seconds + busy[name])]

    def _may_begin(self, count: Count) -> bool:
        return self.plan.inputs is None or count.begun < self.plan.inputs

    def _next_numbers(self, kind: Kind) -> list[int]:
        left, count = self._left[kind.name], self.counts[kind.name]
        if not left:
            end = count.begun + BATCH if self.plan.inputs is None else min(count.begun + BATCH, self.plan.inputs)
            left, count.begun = list(range(count.begun, end)), end
        self._left[kind.name] = []
        return left

    def _started(self, kind: Kind, numbers: list[int]) -> _Batch:
        free = next(n for n in range(self.plan.jobs) if not any(b.place.root.name == f"job{n}" for b in self._running))
        place = Place(self.work / f"job{free}")
        ours, theirs = _FORK.Pipe(duplex=False)
        makers = [(number, maker(kind, self.work, self.plan.seed, number)) for number in numbers]
        process = _FORK.Process(target=run, args=(kind, makers, place, self.plan.limits, theirs))
        process.start()
        theirs.close()
        now = time.monotonic()
        return _Batch(kind, numbers, process, ours, place, now, heard=now)

    # Hearing.

    def _hear(self, batch: _Batch) -> None:
        try:
            message = batch.told.recv()
        except (EOFError, OSError):
            self._end(batch)
            return
        batch.heard = time.monotonic()
        if isinstance(message, Begun):
            batch.current = message
        elif batch.current is not None:
            self._record(batch, batch.current, message)
            batch.current = None

    def _record(self, batch: _Batch, begun: Begun, outcome: Outcome) -> None:
        batch.ended += 1
        self.counts[batch.kind.name].add(outcome)
        self._keep(batch.kind, begun, outcome)

    def _keep(self, kind: Kind, begun: Begun, outcome: Outcome) -> None:
        if outcome.is_finding:
            again = maker(kind, self.work, self.plan.seed, begun.number)
            make_again = partial(_apart, again) if outcome.result != NOT_MADE else Path.mkdir
            self.findings.add(kind.name, self.plan.seed, begun, outcome, make_again)

    def _end(self, batch: _Batch) -> None:
        """The process has ended: with its batch, or in the middle of an input."""
        self._running.remove(batch)
        batch.process.join()
        batch.told.close()
        if batch.current is not None:
            code, limits = batch.process.exitcode, self.plan.limits
            self._record(batch, batch.current, death(code, batch.place, limits, stuck=batch.stuck))
        elif batch.ended < len(batch.numbers):
            raise RuntimeError(
                f"the fuzzer itself failed on {batch.kind.name} number {batch.numbers[batch.ended]}: exit code "
                f"{batch.process.exitcode}; {batch.place.trace.read_text()[-2000:]}"
            )
        elif _has_strays(batch.process.pid):
            begun = Begun(batch.numbers[0], "a process after the batch", 0)
            self._keep(
                batch.kind, begun, Outcome(LEFT, "a process", f"inputs {batch.numbers[0]} to {batch.numbers[-1]}")
            )
        self._left[batch.kind.name] += batch.numbers[batch.ended :]
        self._add_time(batch)

    def _add_time(self, batch: _Batch) -> None:
        self.counts[batch.kind.name].seconds += time.monotonic() - batch.started

    def _stop_those_that_are_stuck(self) -> None:
        """A process ends itself when its time is over; one that cannot is killed."""
        for batch in self._running:
            if time.monotonic() - batch.heard > 3 * self.plan.limits.seconds:
                batch.stuck = True
                batch.process.kill()


def prepare(kind: Kind, work: Path) -> Path:
    """The seeds of a kind, made in a process of its own, since threads of libraries do not survive a fork."""
    seeds = work / "seeds" / kind.name
    if not seeds.exists():
        seeds.mkdir(parents=True)
        _in_a_process(partial(kind.prepare, seeds), f"the seeds of {kind.name} were not made")
    return seeds


def maker(kind: Kind, work: Path, seed: int, number: int) -> Maker:
    """Makes the input of this number, which depends on nothing else."""
    rng = np.random.default_rng([seed, zlib.crc32(kind.name.encode()), number])
    return lambda folder: make(kind, work / "seeds" / kind.name, folder, rng)


def death(code: int | None, place: Place, limits: Limits, *, stuck: bool = False) -> Outcome:
    """Why a process has ended while it read an input; its stack says where."""
    trace = place.trace.read_text(errors="replace")
    frames = frames_of(re.findall(r'File "([^"]+)", line (\d+)', trace))
    if stuck or trace.startswith(_TIME_IS_OVER):
        files = [frame.split(":")[0] for frame in frames[:1]]  # the line changes from input to input
        return Outcome(HANG, f"more than {limits.seconds:g} s in {files}", trace, seconds=limits.seconds)
    ended = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
    return Outcome(CRASH, f"{ended} {frames[:1]}", trace)


def _apart(make_input: Maker, folder: Path) -> None:
    _in_a_process(partial(make_input, folder), "an input could not be made again")


def _in_a_process(work: Callable[..., object], fault: str) -> None:
    process = _FORK.Process(target=work)
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(fault)


def _has_strays(group: int | None) -> bool:
    """Whether processes of a worker have outlived it; they are killed."""
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
    ours, theirs = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=run, args=(kind, [(0, partial(copied, folder))], place, limits, theirs))
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
