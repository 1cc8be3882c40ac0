"""Findings, one for each fault: the smallest input that shows it is kept, with what is needed to read it again."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.fuzz.worker import Begun, Outcome

INPUT, ABOUT = "input", "finding.json"


@dataclass
class Finding:
    kind: str
    result: str
    signature: str
    detail: str
    seed: int
    number: int
    """Which input of its kind it was."""
    label: str
    size: int
    times: int = 1
    """How many inputs have shown it."""

    @property
    def name(self) -> str:
        digest = hashlib.sha256(f"{self.result} {self.signature}".encode(errors="replace")).hexdigest()[:8]
        return f"{self.kind}-{self.result.replace(' ', '-')}-{digest}"


class Findings:
    """Findings of one run; those of earlier runs in the same folder are deleted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.all: dict[str, Finding] = {}
        for earlier in folder.glob(f"*/{ABOUT}"):
            shutil.rmtree(earlier.parent)

    def add(self, kind: str, seed: int, begun: Begun, outcome: Outcome, make: Callable[[Path], object]) -> None:
        """`make` writes the input to a folder; it is called if this is the smallest input of its finding so far."""
        result, signature, detail = outcome.result, outcome.signature, outcome.detail
        new = Finding(kind, result, signature, detail, seed, begun.number, begun.label, begun.size)
        known = self.all.get(new.name)
        new.times += known.times if known else 0
        if known is not None and known.size <= new.size:
            known.times = new.times
            return
        self.all[new.name] = new
        target = self.folder / new.name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        make(target / INPUT)
        self._write(new)

    def close(self) -> None:
        """Store how often each was seen."""
        for finding in self.all.values():
            self._write(finding)

    def _write(self, finding: Finding) -> None:
        text = json.dumps(asdict(finding), indent=1)
        (self.folder / finding.name / ABOUT).write_text(text + "\n")


def load(folder: Path) -> Finding:
    """A finding that was kept in this folder."""
    return Finding(**json.loads((folder / ABOUT).read_text()))
