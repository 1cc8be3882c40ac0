"""One experiment as it was run: what was used, what came out of it, and what the paper says; kept as run.json.

A run folder holds run.json and what was drawn from it. The file is complete or not there; while an experiment is under
way its rows lie in rows.jsonl, one line each, so that an interrupted one goes on where it stopped.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from faemb.errors import FormatError, InputError
from faemb.runtime.storage import replacing

FILE = "run.json"
VERSION = 2

Value = str | int | float | bool


@dataclass(frozen=True)
class Row:
    settings: Mapping[str, Value]
    """What distinguishes this row from the others of its table: method, n, D, pooling, bits and so on."""
    measures: Mapping[str, float]
    """By name, such as mAP (in percent), N-S, or µs per descriptor."""
    published: Mapping[str, float] = field(default_factory=dict)
    """What the paper has for the same settings, by measure: comparable only if the data are."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """By stage: fit, encode and so on."""
    encoder: str = ""
    """Its settings that are not the defaults, as Python writes them; of the first seed where there are several."""
    series: tuple[float, ...] = ()
    """A curve of its own, such as the objective by iteration."""
    spread: Mapping[str, float] = field(default_factory=dict)
    """Of each measure, the standard deviation over several seeds; the measures are their means then."""


@dataclass(frozen=True)
class Used:
    """A folder of images that went into an experiment."""

    name: str
    images: int
    checksum: str
    note: str = ""


@dataclass(frozen=True)
class Run:
    table: str
    title: str
    dataset: Used
    queries: int
    labels: str
    """Checksum of the ground truth."""
    learning: tuple[Used, ...]
    distractors: tuple[Used, ...]
    settings: Mapping[str, Value]
    """Common to all rows: features, seeds, device."""
    versions: Mapping[str, str]
    started: str
    """In UTC, as ISO 8601 has it."""
    seconds: float
    rows: tuple[Row, ...]
    plot: Mapping[str, str] = field(default_factory=dict)
    """How to draw it: the settings for `x` and `lines`, the measure for `y`; empty for a table that is no curve."""

    def save(self, folder: Path) -> Path:
        self.write(folder / FILE)
        return folder / FILE

    def as_dict(self) -> dict[str, Any]:
        """The content of run.json."""
        return {"version": VERSION, **asdict(self)}

    def write(self, path: Path) -> None:
        text = json.dumps(self.as_dict(), indent=2, ensure_ascii=False) + "\n"
        with replacing(path) as temporary:  # names that are no text become escapes, which JSON reads back
            temporary.write_text(text, encoding="utf-8", errors="backslashreplace")

    @classmethod
    def load(cls, folder: Path) -> "Run":
        path = folder / FILE if folder.is_dir() else folder
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(
                f"{path} cannot be read: {error.strerror}; give a folder that faemb benchmark made"
            ) from error
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{path} is damaged ({error}); run the benchmark again") from error
        return _run(content, path)


def averaged(rows: Sequence[Row]) -> Row:
    """One row of several that differ in their seeds alone: the means, and the spread beside them."""
    first = rows[0]
    if len(rows) == 1:
        return first
    return replace(
        first,
        measures={name: fmean(row.measures[name] for row in rows) for name in first.measures},
        spread={name: stdev(row.measures[name] for row in rows) for name in first.measures},
        seconds={name: fmean(row.seconds[name] for row in rows) for name in first.seconds},
    )


def _run(content: Any, path: Path) -> Run:
    if not isinstance(content, dict) or content.pop("version", None) != VERSION:
        raise FormatError(f"{path} was not written by this version of faemb; run the benchmark again")
    try:
        parts: dict[str, Any] = {
            "dataset": _used(content.pop("dataset")),
            "learning": tuple(map(_used, content.pop("learning"))),
            "distractors": tuple(map(_used, content.pop("distractors"))),
            "rows": tuple(map(_row, content.pop("rows"))),
        }
        run = Run(**content, **parts)
        _require(run, str, "table", "title", "labels", "started")
        _require(run, int | float, "queries", "seconds")
        _require_mappings(run, settings=Value, versions=str, plot=str)
        return run
    except (TypeError, KeyError) as error:
        raise FormatError(f"{path} is damaged ({error}); run the benchmark again") from error


def _used(content: Any) -> Used:
    used = Used(**content)
    _require(used, str, "name", "checksum", "note")
    _require(used, int, "images")
    return used


def _row(content: Any) -> Row:
    fields = {**content}
    row = Row(**{**fields, "series": tuple(fields.get("series", ()))})
    number = int | float
    _require_mappings(row, settings=Value, measures=number, published=number, seconds=number, spread=number)
    _require(row, str, "encoder")
    if not all(isinstance(value, int | float) for value in row.series):
        raise TypeError("series is not a list of numbers")
    return row


def _require(part: Any, kind: Any, *names: str) -> None:
    """What is read is drawn and printed later, far from the file that could be named."""
    for name in names:
        if not isinstance(getattr(part, name), kind):
            raise TypeError(f"{name} is {getattr(part, name)!r:.40}")


def _require_mappings(part: Any, **kinds: Any) -> None:
    for name, kind in kinds.items():
        content = getattr(part, name)
        if not isinstance(content, dict) or not all(isinstance(value, kind) for value in content.values()):
            raise TypeError(f"{name} is {content!r:.40}")
