"""Batches of inputs of all kinds in limited processes: each kind gets the same time, each input its number."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from tools.fuzz.findings import Findings
from tools.fuzz.forked import FORK, death, kill_group, made_apart, prepare
from tools.fuzz.kind import Kind, maker
from tools.fuzz.process import Limits
from tools.fuzz.worker import ACCEPTED, LEFT, NOT_MADE, REFUSED, Begun, Outcome, Place, run

BATCH = 100
"""Inputs for one process: few enough that nothing grows, enough that its start costs little."""


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
            prepare(kind, self._seeds(kind))
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

    def _seeds(self, kind: Kind) -> Path:
        return self.work / "seeds" / kind.name

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
        ours, theirs = FORK.Pipe(duplex=False)
        makers = [(number, maker(kind, self._seeds(kind), self.plan.seed, number)) for number in numbers]
        process = FORK.Process(target=run, args=(kind, makers, place, self.plan.limits, theirs))
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
            again = maker(kind, self._seeds(kind), self.plan.seed, begun.number)
            make_again = partial(made_apart, again) if outcome.result != NOT_MADE else Path.mkdir
            self.findings.add(kind.name, self.plan.seed, begun, outcome, make_again)

    def _end(self, batch: _Batch) -> None:
        """The process has ended: with its batch, or in the middle of an input."""
        self._running.remove(batch)
        batch.process.join()
        batch.told.close()
        strays = kill_group(batch.process.pid)
        if batch.current is not None:
            code, limits = batch.process.exitcode, self.plan.limits
            self._record(batch, batch.current, death(code, batch.place, limits, stuck=batch.stuck))
        elif batch.ended < len(batch.numbers):
            raise RuntimeError(
                f"the fuzzer itself failed on {batch.kind.name} number {batch.numbers[batch.ended]}: exit code "
                f"{batch.process.exitcode}; {batch.place.trace.read_text()[-2000:]}"
            )
        elif strays:
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
                kill_group(batch.process.pid)
