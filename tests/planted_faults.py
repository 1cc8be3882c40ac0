"""Readers with one fault each, and a fuzzer that must find it: python planted_faults.py FOLDER prints the findings."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from tools.fuzz.driver import Driver, Plan
from tools.fuzz.findings import Findings
from tools.fuzz.kind import Damage, Kind
from tools.fuzz.process import Limits

from faemb.errors import InputError

LIMITS = Limits(seconds=2, memory=10_000_000, margin=20_000_000, most=600_000_000)
INPUTS = 2


class Planted(Kind):
    def __init__(self, name: str) -> None:
        self.name = name  # type: ignore[misc]

    def prepare(self, folder: Path) -> None:
        (folder / "seed").mkdir()
        (folder / "seed" / "file").write_bytes(b"a valid file")

    def read(self, folder: Path) -> None:
        globals()[f"_{self.name}"](folder)


def _sound(folder: Path) -> None:
    (folder / "written here").touch()
    tempfile.TemporaryFile().close()
    raise InputError("the file is damaged; restore it")


def _accepting(folder: Path) -> None:
    bytearray(1_000_000)
    warnings.warn("overflow encountered in matmul", RuntimeWarning, stacklevel=1)


def _crash(folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _exit(folder: Path) -> None:
    os._exit(0)


def _hang(folder: Path) -> None:
    time.sleep(1000)


def _memory(folder: Path) -> None:
    bytearray(b"x" * 50_000_000)


def _unbounded(folder: Path) -> None:
    bytearray(2_000_000_000)


def _traceback(folder: Path) -> None:
    raise KeyError("no sentence")


def _unforeseen(folder: Path) -> None:
    raise InputError("an unexpected fault, please report it")


def _misread(folder: Path) -> None:
    raise Damage("other answers")


def _warning(folder: Path) -> None:
    warnings.warn("old", DeprecationWarning, stacklevel=1)


def _outside(folder: Path) -> None:
    (folder.parent.parent / "elsewhere").touch()


def _program(folder: Path) -> None:
    subprocess.run(["true"], check=True)  # noqa: S607


def _temporary(folder: Path) -> None:
    tempfile.mkdtemp(prefix="left")


def main(work: Path) -> None:
    kinds: list[Kind] = [Planted(name) for name in sys.argv[2:]]
    driver = Driver(kinds, Plan(inputs=INPUTS, limits=LIMITS), work, Findings(work / "findings"))
    driver.run(lambda *_: None)
    found = {finding.kind: finding.result for finding in driver.findings.all.values()}
    print(json.dumps({name: found.get(name) for name in sys.argv[2:]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
