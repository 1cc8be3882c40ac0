"""One experiment: data, settings, measured results and the paper's numbers; stored as run.json.

A run folder holds run.json and the files made from it. The file is written at the end; until then the finished rows of
an experiment are in rows.jsonl, one line each, so that an interrupted experiment can be resumed.

The file has a `version`, and later versions of faemb read the earlier ones from 2 on:

    2    the fields below without `Row.published_with`
    3    `published_with` was added; if it is absent, as in version 2, settings of published numbers are unknown

A file of a higher version is an error: it was made by a newer faemb.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from faemb.errors import FormatError, InputError, reason
from faemb.runtime.limits import require_memory, require_plain_file
from faemb.runtime.storage import replacing
from faemb.settings import shown

FILE = "run.json"
VERSION = 3
OLDEST = 2

Value = str | int | float | bool
Json = Any
"""Any content of a JSON file."""

_LARGEST, _LARGEST_COUNT = 1e100, 1e12
_MOST_ROWS, _MOST_NAMES = 10_000, 500
"""Largest number of rows of a run, and of names of settings and measures in all rows; each name becomes a column."""
_BYTES_IN_MEMORY = 50
"""Bytes of memory per byte of a file, as Python objects; a generous bound."""


@dataclass(frozen=True)
class Row:
    settings: Mapping[str, Value]
    """Settings that distinguish this row in its table: method, n, D, pooling, bits and so on."""
    measures: Mapping[str, float]
    """Values by name, such as mAP (in percent), N-S, or µs per descriptor."""
    published: Mapping[str, float] = field(default_factory=dict)
    """The paper's number for the same settings, by measure; comparable only on the same data."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Time of each stage: fit, encode and so on."""
    encoder: str = ""
    """Settings that differ from the defaults, as Python code; with several seeds, those of the first seed."""
    series: tuple[float, ...] = ()
    """Values of a curve, such as the objective by iteration."""
    spread: Mapping[str, float] = field(default_factory=dict)
    """Standard deviation of each measure over several seeds; the measures are then means."""
    published_with: Mapping[str, Value] = field(default_factory=dict)
    """Settings with which the published numbers were measured, such as pooling; those of the row may differ."""


@dataclass(frozen=True)
class Used:
    """A folder of images that was used in an experiment."""

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
    """Settings common to all rows: features, seeds, device."""
    versions: Mapping[str, str]
    started: str
    """Time in UTC, in the format of ISO 8601."""
    seconds: float
    rows: tuple[Row, ...]
    plot: Mapping[str, str] = field(default_factory=dict)
    """How to plot the run: the settings for `x` and `lines`, the measure for `y`; empty for a table without a plot."""

    def save(self, folder: Path) -> Path:
        path = folder / FILE
        text = json.dumps(self.as_dict(), indent=2, ensure_ascii=False) + "\n"
        with replacing(path) as temporary:  # file names that are not valid text are written as escapes
            temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        return path

    def as_dict(self) -> dict[str, object]:
        """The content of run.json."""
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def load(cls, folder: Path) -> "Run":
        path = folder / FILE if folder.is_dir() else folder
        size = require_plain_file(path, f"the {FILE} in a folder that faemb benchmark made").st_size
        require_memory(_BYTES_IN_MEMORY * size, path)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(
                f"{path} cannot be read: {error.strerror}; give a folder that faemb benchmark made"
            ) from error
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{path} is damaged ({reason(error)}); run the benchmark again") from error
        return _run(content, path)


def averaged(rows: Sequence[Row]) -> Row:
    """One row for several that differ only in their seeds: means with standard deviations."""
    first = rows[0]
    if len(rows) == 1:
        return first
    return replace(
        first,
        measures={name: fmean(row.measures[name] for row in rows) for name in first.measures},
        spread={name: stdev(row.measures[name] for row in rows) for name in first.measures},
        seconds={name: fmean(row.seconds[name] for row in rows) for name in first.seconds},
    )


def _run(content: Json, path: Path) -> Run:
    version = content.pop("version", None) if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(version, int) or version < OLDEST:
        raise FormatError(f"{path} is not a run that this faemb can read; run the benchmark again")
    if version > VERSION:
        raise FormatError(f"{path} was made by a newer faemb (version {version} of the format); update faemb")
    try:
        _require(isinstance(content["rows"], list) and len(content["rows"]) <= _MOST_ROWS, "rows", content["rows"])
        parts: dict[str, Any] = {
            "dataset": _used(content.pop("dataset")),
            "learning": tuple(map(_used, content.pop("learning"))),
            "distractors": tuple(map(_used, content.pop("distractors"))),
            "rows": tuple(map(row_of, content.pop("rows"))),
        }
        run = Run(**content, **parts)
        _require_all(run, _is_text, "table", "title", "labels", "started")
        _require_all(run, _is_count, "queries", "seconds")
        _require_mappings(run, settings=_is_value, versions=_is_text, plot=_is_text)
        names = {name for row in run.rows for name in (*row.settings, *row.measures)}
        _require(len(names) <= _MOST_NAMES, "number of settings and measures", len(names))
        return run
    except (TypeError, KeyError) as error:
        raise FormatError(f"{path} is damaged ({reason(error)}); run the benchmark again") from error


def _used(content: Json) -> Used:
    used = Used(**content)
    _require_all(used, _is_text, "name", "checksum", "note")
    _require_all(used, _is_count, "images")
    return used


def row_of(content: Json) -> Row:
    """A row from the content of a file; raises a TypeError if it is invalid."""
    fields = {**content}
    row = Row(**{**fields, "series": tuple(fields.get("series", ()))})
    _require_mappings(row, settings=_is_value, published_with=_is_value, seconds=_is_count)
    _require_mappings(row, measures=_is_number, published=_is_number, spread=_is_number)
    _require_all(row, _is_text, "encoder")
    _require(all(map(_is_number, row.series)), "series", row.series)
    return row


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_number(value: Json) -> bool:
    """Whether a value is a number; NaN and infinity are allowed, for values that could not be measured."""
    if not isinstance(value, int | float):
        return False
    return abs(value) <= _LARGEST or (isinstance(value, float) and not math.isfinite(value))


def _is_count(value: Json) -> bool:
    return isinstance(value, int | float) and 0 <= value <= _LARGEST_COUNT


def _is_value(value: Json) -> bool:
    return _is_text(value) or _is_number(value)


Check = Callable[[Json], bool]


def _require_all(part: Row | Used | Run, check: Check, *names: str) -> None:
    """Check values on reading, where the error can name the file, not when they are printed or plotted."""
    for name in names:
        _require(check(getattr(part, name)), name, getattr(part, name))


def _require_mappings(part: Row | Run, **checks: Check) -> None:
    for name, check in checks.items():
        content = getattr(part, name)
        _require(isinstance(content, dict) and all(map(check, content.values())), name, content)


def _require(holds: bool, name: str, value: Json) -> None:
    if not holds:
        raise TypeError(f"{name} is {shown(value)}")
