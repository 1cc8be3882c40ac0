"""Facts that a report states beside the numbers of a run: data, settings, and how the published numbers differ."""

from collections.abc import Iterable, Mapping

from faemb.benchmark.datasets import COMPLETE
from faemb.benchmark.formatting import common, duration, setting
from faemb.benchmark.run import Row, Run, Used, Value

CAUTION = "These are not known to be the paper's data; its numbers are comparable only on the same data."
LEARNED_FASTER = (
    "In rows with sinkhorn pooling, rotations and codes were learned from democratically pooled learning images."
)


def caution(run: Run) -> str:
    """Sentences on how rows differ from the published ones, and on what their settings do not show; may be empty."""
    compared = [row for row in run.rows if row.published]
    complete = all(used.note.startswith(COMPLETE) for used in (run.dataset, *run.distractors))
    strange = [CAUTION] if compared and not complete else []
    faster = [LEARNED_FASTER] if any(map(_learns_faster, run.rows)) else []
    return " ".join([*strange, *_differences(compared), *faster])


def _learns_faster(row: Row) -> bool:
    """Whether the learning images were pooled in another way than the others (`Workbench.pooled`), and mattered."""
    return row.settings.get("pooling") == "sinkhorn" and ("rotation=" in row.encoder or "bits" in row.settings)


def _differences(rows: Iterable[Row]) -> list[str]:
    """One sentence for each setting in which a row differs from the published number beside it."""
    found = [(name, paper, row.settings.get(name)) for row in rows for name, paper in row.published_with.items()]
    return [
        f"Published numbers were measured with {paper} {name}; rows with {ours} {name} are not directly comparable."
        for name, paper, ours in dict.fromkeys(found)
        if ours != paper
    ]


def facts(run: Run) -> list[tuple[str, str]]:
    """Facts by name; empty ones are left out."""
    stated = [
        ("dataset", f"{run.dataset.name}: {run.dataset.images:,} images, {run.queries:,} queries"),
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
    return [(name, text) for name, text in stated if text]


def _used(used: Used) -> str:
    return _joined([f"{used.name}: {used.images:,} images", used.checksum and f"checksum {used.checksum}", used.note])


def _listed(values: Mapping[str, Value]) -> str:
    return _joined(f"{name} {setting(value)}" for name, value in values.items())


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(filter(None, parts))
