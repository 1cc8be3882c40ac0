"""What must be said of a run beside its numbers, so that another one can be compared with it."""

from collections.abc import Iterable, Mapping

from faemb.benchmark.datasets import COMPLETE
from faemb.benchmark.formatting import common, duration, setting
from faemb.benchmark.run import Run, Used, Value

CAUTION = "The data are not known to be the paper's: its numbers are comparable only if the data are."


def caution(run: Run) -> str:
    """Empty where the benchmark is complete, or where there is nothing to compare with."""
    compares = any(row.published for row in run.rows)
    return CAUTION if compares and not run.dataset.note.startswith(COMPLETE) else ""


def facts(run: Run) -> list[tuple[str, str]]:
    """Each with its name; those that a run does not have are left out."""
    said = [
        ("dataset", f"{run.dataset.name}: {_counts(run)}"),
        ("note", run.dataset.note),
        ("checksum of images", run.dataset.checksum),
        ("checksum of ground truth", run.labels),
        *(("distractors", _used(used)) for used in run.distractors),
        *(("learned from", _used(used)) for used in run.learning),
        ("settings", _listed({**run.settings, **common(run.rows)})),
        ("versions", _listed(run.versions)),
        ("started", run.started),
        ("duration", duration(run.seconds)),
    ]
    return [(name, text) for name, text in said if text]


def _counts(run: Run) -> str:
    return f"{run.dataset.images:,} images, {run.queries:,} queries"


def _used(used: Used) -> str:
    return _joined([f"{used.name}: {used.images:,} images", used.checksum and f"checksum {used.checksum}", used.note])


def _listed(values: Mapping[str, Value]) -> str:
    return _joined(f"{name} {setting(value)}" for name, value in values.items())


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(filter(None, parts))
