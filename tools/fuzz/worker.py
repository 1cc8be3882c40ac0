"""A batch of inputs in one process, and what became of each."""

import re
import shutil
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

from tools.fuzz.guard import Guard
from tools.fuzz.kind import Damage, Kind
from tools.fuzz.process import Limits, PeakMemory, confine, limited, settled_in

from faemb.errors import FaembError

ACCEPTED, REFUSED = "accepted", "refused"
CRASH, HANG, MEMORY, TRACEBACK = "crash", "hang", "memory", "traceback"
MESSAGE, DAMAGE, WARNING, OUTSIDE, LEFT = "message", "silent damage", "warning", "outside", "left behind"
NOT_MADE = "not made"
"""A fault of the fuzzer: reported like any other, since the inputs that are missing might have found something."""
_UNEXPECTED = "please report"
"""Part of the sentences that stand for an error which nobody has foreseen."""
_FLOATING_POINT = "overflow|underflow|invalid value|divide by zero"
"""Damaged numbers are numbers: what is computed from them may overflow, and says so."""
_INNERMOST = 3
"""Places in the package by which two tracebacks are told apart."""
_OF_LIBRARIES = (".ses",)
"""Temporary files that a library leaves behind whatever it is given: onnxruntime's own."""

Maker = Callable[[Path], str]
"""Writes an input to a new folder; returns what it is."""


@dataclass(frozen=True)
class Begun:
    """An input that is about to be read."""

    number: int
    label: str
    size: int


@dataclass(frozen=True)
class Outcome:
    result: str
    signature: str = ""
    """Equal for inputs that show the same fault."""
    detail: str = ""
    seconds: float = 0.0
    memory: int = 0

    @property
    def is_finding(self) -> bool:
        return self.result not in (ACCEPTED, REFUSED)


@dataclass
class Place:
    """The folders of a worker."""

    root: Path
    input: Path = field(init=False)
    temporary: Path = field(init=False)
    trace: Path = field(init=False)

    def __post_init__(self) -> None:
        self.root = self.root.resolve()
        self.input, self.temporary, self.trace = (self.root / name for name in ("in", "tmp", "trace"))
        self.temporary.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class Watch:
    guard: Guard
    trace: IO[str]
    """Gets the stack of a process that crashes or takes too long."""


def run(kind: Kind, makers: Iterable[tuple[int, Maker]], place: Place, limits: Limits, told: Connection) -> None:
    """Read inputs one after the other; `told` gets a `Begun` and an `Outcome` for each."""
    with place.trace.open("w") as trace:
        confine(limits, trace)
        guard = Guard()
        for number, make in makers:
            shutil.rmtree(place.input, ignore_errors=True)
            try:
                begun = Begun(number, make(place.input), size_of(place.input))
            except Exception as error:
                told.send(Begun(number, "the fuzzer itself has a fault", 0))
                told.send(Outcome(NOT_MADE, repr(error)[:80], traceback.format_exc()[-4000:]))
                continue
            told.send(begun)
            told.send(examine(kind, begun, place, limits, Watch(guard, trace)))


def examine(kind: Kind, begun: Begun, place: Place, limits: Limits, watch: Watch) -> Outcome:
    """What became of one input; it must lie in its place."""
    start, peak = time.monotonic(), PeakMemory()
    with (
        settled_in(place.input, place.temporary),
        warnings.catch_warnings(record=True) as warned,
        watch.guard.watching(place.root),
        limited(limits, watch.trace),
    ):
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", _FLOATING_POINT, RuntimeWarning)
        outcome = _outcome(kind, place.input)
    seconds, memory = time.monotonic() - start, peak.taken()
    if not outcome.is_finding:
        outcome = _side_effects(watch.guard, place, warned) or outcome
    if not outcome.is_finding and memory > limits.memory + limits.margin:
        seed = begun.label.split("/")[0]
        outcome = Outcome(MEMORY, f"{seed}, {_without_numbers(outcome.detail or outcome.result)}", f"{memory:,} bytes")
    return Outcome(outcome.result, outcome.signature, outcome.detail, seconds, memory)


def size_of(folder: Path) -> int:
    """Bytes on the disk: holes of sparse files do not count."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def frames_of(places: Iterable[tuple[str, int | str]]) -> list[str]:
    """The places in this package, as file:line."""
    return [f"{file.rsplit('/faemb/', 1)[1]}:{line}" for file, line in places if "/faemb/" in file]


def _outcome(kind: Kind, folder: Path) -> Outcome:
    try:
        kind.read(folder)
    except FaembError as error:
        return _refusal(error)
    except Damage as error:
        return Outcome(DAMAGE, str(error), str(error))
    except BaseException as error:  # also SystemExit, and panics of libraries in Rust
        text = "".join(traceback.format_exception(error, limit=-12))[-4000:]
        return Outcome(TRACEBACK, " < ".join([type(error).__name__, *_raised_at(error)]), text)
    return Outcome(ACCEPTED)


def _refusal(error: FaembError) -> Outcome:
    """A refusal is a sentence of our own; what it quotes is made harmless where it is printed."""
    sentence = str(error)
    if not sentence or _UNEXPECTED in sentence:
        fault = "an error that nobody has foreseen" if sentence else "an empty message"
        return Outcome(MESSAGE, " < ".join([fault, *_raised_at(error)]), repr(sentence)[:2000])
    return Outcome(REFUSED, detail=sentence[:300])


def _raised_at(error: BaseException) -> list[str]:
    """The innermost places in the package, as file:line."""
    places = ((frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__))
    return list(reversed(frames_of(places)[-_INNERMOST:]))


def _side_effects(guard: Guard, place: Place, warned: list[warnings.WarningMessage]) -> Outcome | None:
    if guard.seen:
        return Outcome(OUTSIDE, _without_numbers(guard.seen[0]), "\n".join(guard.seen))
    left = sorted(path.name for path in place.temporary.iterdir() if path.name not in _OF_LIBRARIES)
    if left:
        shutil.rmtree(place.temporary)
        place.temporary.mkdir()
        return Outcome(LEFT, _without_numbers(left[0]), "\n".join(left))
    if warned:
        first = warned[0]
        where = f"{Path(first.filename).name}:{first.lineno}"
        return Outcome(WARNING, f"{first.category.__name__} {where}", "\n".join(map(str, warned))[:2000])
    return None


def _without_numbers(text: str) -> str:
    """The part of a sentence that is the same for all inputs with the same fault."""
    return re.sub(r"/\S+|'[^']*'|[0-9a-f]{6,}|[\d.,]+", "#", text)[:120]
