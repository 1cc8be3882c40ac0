"""Computes the rows of a table one after the other and stores each at once, so that a run can be resumed."""

import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import faemb
from faemb.benchmark.datasets import KINDS
from faemb.benchmark.distractors import pool_distractors
from faemb.benchmark.rows import RequestedRow, Retrieval
from faemb.benchmark.run import VERSION, Row, Run, Used, Value, averaged, row_of
from faemb.benchmark.tables import TableOf
from faemb.benchmark.workbench import Workbench
from faemb.errors import FaembError

JOURNAL = "rows.jsonl"
_PACKAGES = ("numpy", "scipy", "scikit-learn", "opencv-python-headless", "torch", "onnxruntime")


def run_table(
    name: str,
    table: TableOf,
    asked: Sequence[Sequence[RequestedRow]],
    bench: Workbench,
    out: Path,
    settings: Mapping[str, Value],
) -> Run:
    """Compute all rows, each with one or several seeds.

    Rows that an earlier run in this folder computed on the same data are read from there.
    """
    started, begun = datetime.now(UTC), time.monotonic()
    bench.progress("rows", 0, len(asked))
    journal = Journal(out / JOURNAL, bench)
    if bench.dataset.distractors:
        pool_distractors(bench, [each.encoder for same in asked for each in same if isinstance(each, Retrieval)])
    rows = []
    for done, same in enumerate(asked, 1):
        rows.append(averaged([journal.row(each) or journal.keep(each, each.answer(bench)) for each in same]))
        bench.progress("rows", done, len(asked))
    return Run(
        table=name,
        title=table.title,
        dataset=Used(bench.dataset.name, len(bench.dataset.images), bench.checked.images.checksum, bench.dataset.note),
        queries=len(bench.dataset.queries),
        labels=bench.checked.labels,
        learning=bench.learned_from,
        distractors=_distractors(bench),
        settings={"features": repr(bench.extractor), "device": bench.device, **settings},
        versions=_versions(),
        started=started.isoformat(timespec="seconds"),
        seconds=time.monotonic() - begun,
        rows=tuple(rows),
        plot=table.plot,
    )


class Journal:
    """File of finished rows, one line each, with a key that covers everything that the row depends on."""

    def __init__(self, path: Path, bench: Workbench) -> None:
        self._path, self._bench = path, bench
        self._rows: dict[str, Row] = {}
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                self._read(line)

    def _read(self, line: str) -> None:
        try:
            content = json.loads(line)
            self._rows[content["key"]] = row_of(content["row"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return  # the incomplete last line of a killed run, or a row of an older version

    def row(self, asked: RequestedRow) -> Row | None:
        return self._rows.get(self._key(asked))

    def keep(self, asked: RequestedRow, row: Row) -> Row:
        key = self._key(asked)
        self._rows[key] = row
        line = json.dumps({"key": key, "row": asdict(row)}, ensure_ascii=False)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"\n{line}\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise FaembError(f"{self._path} cannot be written: {error.strerror}") from error
        return row

    def _key(self, asked: RequestedRow) -> str:
        return f"{asked.key(self._bench)}-{VERSION}"


def _distractors(bench: Workbench) -> tuple[Used, ...]:
    if not bench.dataset.distractors:
        return ()
    names = ", ".join(folder.resolve().name for folder in bench.dataset.distractors)
    found = bench.checked.distractors
    return (Used(names, found.files, found.checksum, KINDS[bench.dataset.kind].distractors_note(found.files)),)


def _versions() -> dict[str, str]:
    versions = {"faemb": faemb.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions
