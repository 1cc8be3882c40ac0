"""One experiment as it was run: what was used, what came out of it, and what the paper says; kept as run.json.

A run folder holds run.json and what was drawn from it. The file is complete or not there; while an experiment is under
way its rows lie in rows.jsonl, one line each, so that an interrupted one goes on where it stopped.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from faemb.errors import FormatError, InputError
from faemb.storage import replacing

FILE = "run.json"
VERSION = 1

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
    fingerprint: str = ""
    """Of the encoder that was learned."""
    series: tuple[float, ...] = ()
    """A curve of its own, such as the objective by iteration."""


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
    """Common to all rows: features, seed, device."""
    versions: Mapping[str, str]
    started: str
    """In UTC, as ISO 8601 has it."""
    seconds: float
    rows: tuple[Row, ...]
    plot: Mapping[str, str] = field(default_factory=dict)
    """How to draw it: the settings for `x` and `lines`, the measure for `y`; empty for a table that is no curve."""

    def save(self, folder: Path) -> Path:
        path = folder / FILE
        with replacing(path) as temporary:
            temporary.write_text(json.dumps({"version": VERSION, **asdict(self)}, indent=2, ensure_ascii=False) + "\n")
        return path

    @classmethod
    def load(cls, folder: Path) -> "Run":
        path = folder / FILE if folder.is_dir() else folder
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(
                f"{path} cannot be read: {error.strerror}; give a folder that faemb benchmark made"
            ) from error
        except ValueError as error:
            raise FormatError(f"{path} is damaged ({error}); run the benchmark again") from error
        return _run(content, path)


def _run(content: Any, path: Path) -> Run:
    if not isinstance(content, dict) or content.pop("version", None) != VERSION:
        raise FormatError(f"{path} was not written by this version of faemb; run the benchmark again")
    try:
        parts: dict[str, Any] = {
            "dataset": Used(**content.pop("dataset")),
            "learning": tuple(Used(**used) for used in content.pop("learning")),
            "distractors": tuple(Used(**used) for used in content.pop("distractors")),
            "rows": tuple(Row(**{**row, "series": tuple(row["series"])}) for row in content.pop("rows")),
        }
        return Run(**content, **parts)
    except (TypeError, KeyError) as error:
        raise FormatError(f"{path} is damaged ({error}); run the benchmark again") from error
