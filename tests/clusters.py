"""Dask clusters for tests: schedulers and workers as processes of their own, which can be killed."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from processes import wait_until

_OPTIONS = ("--dashboard-address", "127.0.0.1:0", "--host", "127.0.0.1")


class Processes:
    """A scheduler and workers of its own, all on the loopback interface."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._started = folder, 0
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self.address = ""

    def start(self, workers: int = 2) -> str:
        """The address of a new scheduler."""
        self._started += 1
        told = self._folder / f"scheduler-{self._started}.json"
        arguments = [*_OPTIONS, "--port", "0", "--scheduler-file", str(told)]
        self.scheduler = self._run("-m", "distributed.cli.dask_scheduler", *arguments)
        assert wait_until(lambda: _address(told))
        self.address = _address(told)
        for _ in range(workers):
            self.add_worker()
        return self.address

    def add_worker(self, *options: str, **environment: str) -> None:
        self.workers.append(self._run(*self._worker(*options), **environment))

    def add_worker_without_faemb(self) -> None:
        """It has all other packages that are installed here."""
        packages = self._folder / "packages"
        packages.mkdir()
        for place in Path(sysconfig.get_path("purelib")).iterdir():
            if "faemb" not in place.name:
                (packages / place.name).symlink_to(place)
        self.workers.append(self._run("-S", *self._worker("--no-nanny"), PYTHONPATH=str(packages)))

    def _worker(self, *options: str) -> list[str]:
        settings = ["--nthreads", "1", "--memory-limit", "0", *options]
        return ["-m", "distributed.cli.dask_worker", self.address, *_OPTIONS, *settings]

    def _run(self, *arguments: str, **environment: str) -> "subprocess.Popen[bytes]":
        with (self._folder / f"log-{self._started}-{len(self.workers)}.txt").open("ab") as log:
            return subprocess.Popen(  # noqa: S603
                [sys.executable, *arguments],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=os.environ | environment,
                start_new_session=True,
            )

    def kill_a_worker(self, number: int) -> bool:
        """Kill the process that works for a nanny, which starts another; whether there was one."""
        with suppress(ProcessLookupError, IndexError):
            victim = _children(self.workers[number % len(self.workers)].pid)[-1]
            os.kill(victim, signal.SIGKILL)
            return True
        return False

    def kill_scheduler(self) -> bool:
        assert self.scheduler is not None
        alive = self.scheduler.poll() is None
        self.scheduler.kill()
        self.scheduler.wait()
        return alive

    def stop(self) -> None:
        for process in [*self.workers, *filter(None, [self.scheduler])]:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # a session of its own, with the children of a nanny
            process.wait()
        self.workers, self.scheduler = [], None


@contextmanager
def processes(folder: Path) -> Iterator[Processes]:
    made = Processes(folder)
    try:
        yield made
    finally:
        made.stop()


def _address(told: Path) -> str:
    with suppress(OSError, ValueError, KeyError):
        return str(json.loads(told.read_text())["address"])
    return ""


def _children(parent: int) -> list[int]:
    """Processes of this parent, in order of their start; Dask's resource tracker is the first."""
    found: list[tuple[int, int]] = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields: list[Any] = (place / "stat").read_text().rsplit(") ", 1)[1].split()
            if int(fields[1]) == parent and b"resource_tracker" not in (place / "cmdline").read_bytes():
                found.append((int(fields[19]), int(place.name)))
    return [process for _, process in sorted(found)]
