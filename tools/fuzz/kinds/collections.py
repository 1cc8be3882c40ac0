"""Collections with one damaged file: what they answer must be right, refused, or be named by `check`."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

import numpy as np
from tools.fuzz import ROOT
from tools.fuzz.kind import KEPT, Damage, Kind, Way
from tools.fuzz.odd import odd_value

from faemb.collection import Collection
from faemb.errors import FaembError
from small_collections import NAMES, make_collection, working_here

Rng = np.random.Generator
Result = TypeVar("Result")
Answers = dict[str, float]
"""Similarity by image."""

FOLDER, EXPECTED = "photos.faemb", f"{KEPT}-expected.json"
INDEXES = ("rabitq", "hnsw", "ivf-pq", "binary")
TOLERANCE = 0.002
GOLDEN = ("collection-v1", "collection-v2", "collection-v3")


class Catalogues(Kind):
    """Any file of a collection except its indexes."""

    name = "collections"

    def prepare(self, folder: Path) -> None:
        for name in GOLDEN:
            for part in ("photos", FOLDER):
                shutil.copytree(ROOT / "tests" / "golden" / name / part, folder / name / part)
        make_collection(folder / "new", NAMES)
        for seed in sorted(folder.iterdir()):
            _expect(seed, None)

    def victims(self, folder: Path) -> list[Path]:
        return sorted(path for path in (folder / FOLDER).iterdir() if path.suffix not in (".faiss", ".lock"))

    def ways(self, victim: Path) -> Sequence[Way]:
        return (values_changed, values_changed, statements) if victim.suffix == ".sqlite" else ()

    def read(self, folder: Path) -> None:
        expected = json.loads((folder / EXPECTED).read_text())
        with working_here(), Collection.open(folder / FOLDER) as collection:
            answers = _tried(lambda: _answers(collection, folder, None))
            faults = _tried(collection.check)
            if faults == [] and isinstance(answers, dict) and not _same(answers, expected):
                raise Damage("other answers, and check finds no fault")
            for look in (collection.info, collection.duplicates, lambda: list(collection.entries())):
                _tried(look)
            _tried(lambda: collection.features(next((folder / "photos").rglob("*.png"))))
            _tried(lambda: collection.thumbnail(next((folder / "photos").rglob("*.png"))))
            repaired = _tried(lambda: collection.check(repair=True, jobs=1))
            if isinstance(repaired, FaembError):
                raise repaired
        _refuse_if_all_did(answers, faults)


class Indexes(Kind):
    """Indexes of a collection, which are derived from it: a damaged one is built again or refused, never believed."""

    name = "indexes"

    def prepare(self, folder: Path) -> None:
        with working_here():
            first = make_collection(folder / INDEXES[0], [f"{number}.png" for number in range(12)])
        for index in INDEXES[1:]:
            shutil.copytree(first, folder / index)
        for index in INDEXES:
            _expect(folder / index, index)

    def victims(self, folder: Path) -> list[Path]:
        return sorted((folder / FOLDER).glob("*.faiss"))

    def ways(self, victim: Path) -> Sequence[Way]:
        return ()

    def read(self, folder: Path) -> None:
        expected = json.loads((folder / EXPECTED).read_text())
        names = [name for name in INDEXES if any((folder / FOLDER).glob(f"{name}-*.faiss"))]
        with working_here(), Collection.open(folder / FOLDER) as collection:
            for index in names:
                if not _same(_answers(collection, folder, index), expected):
                    raise Damage("other answers from a damaged index")
            collection.check(repair=True, jobs=1)


def _expect(seed: Path, index: str | None) -> None:
    """Store what a collection answers before it is damaged; the answers build its index."""
    with working_here(), Collection.open(seed / FOLDER) as collection:
        (seed / EXPECTED).write_text(json.dumps(_answers(collection, seed, index)))


def _answers(collection: Collection, folder: Path, index: str | None) -> Answers:
    (answer,) = collection.search(min((folder / "photos").rglob("*.png")), top=5, index=index)
    return {hit.path.name: hit.similarity or 0.0 for hit in answer.hits}


def _same(one: Answers, other: Answers) -> bool:
    """The same images with the same similarities; the last ones may be as similar as others that are not among them."""
    scores = sorted(one.values()), sorted(other.values())
    if len(one) != len(other) or not np.allclose(*scores, atol=TOLERANCE):
        return False
    least = min(scores[0], default=0.0) + TOLERANCE
    return {name for name, score in one.items() if score > least} <= other.keys()


def _tried(look: Callable[[], Result]) -> Result | FaembError:
    try:
        return look()
    except FaembError as error:
        return error


def _refuse_if_all_did(*results: object) -> None:
    """An input that no call could use counts as refused."""
    errors = [result for result in results if isinstance(result, FaembError)]
    if errors:
        raise errors[0]


def values_changed(path: Path, rng: Rng) -> None:
    """Odd values in one to three places of the tables."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database, suppress(sqlite3.Error):
        tables = [
            name for (name,) in database.execute("select name from sqlite_schema where type = 'table' order by name")
        ]
        for _ in range(int(rng.integers(1, 4))):
            table = tables[int(rng.integers(len(tables)))]
            columns = [row[1] for row in database.execute(f"pragma table_info({table})")]
            rows = [row for (row,) in database.execute(f"select rowid from {table}")]  # noqa: S608
            if rows:
                column, row = columns[int(rng.integers(len(columns)))], rows[int(rng.integers(len(rows)))]
                with suppress(sqlite3.Error, OverflowError, UnicodeError):  # a value that the column does not take
                    database.execute(f"update {table} set {column} = ? where rowid = ?", (_stored(rng), row))  # noqa: S608


def _stored(rng: Rng) -> object:
    value = odd_value(rng)
    if rng.random() < 0.4:
        return int(rng.integers(-10, 10**6))
    return value if isinstance(value, int | float | str | None) else str(value).encode()


_STATEMENTS = (
    *("drop table {}", "insert into {0} select * from {0}", "alter table {} rename to other"),
    *("create trigger t after update on {0} begin delete from {0}; end", "create view v as select * from {}"),
    *("pragma user_version = 99", "pragma journal_mode = delete", "vacuum", "create index i on {}(1)"),
    *("alter table {} add column more text", "pragma application_id = 7", "pragma encoding = 'UTF-16'"),
)


def statements(path: Path, rng: Rng) -> None:
    """Tables dropped or renamed, triggers and views added, pages laid out anew."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database, suppress(sqlite3.Error):
        tables = [
            name for (name,) in database.execute("select name from sqlite_schema where type = 'table' order by name")
        ]
        for _ in range(int(rng.integers(1, 3))):
            text = _STATEMENTS[int(rng.integers(len(_STATEMENTS)))]
            with suppress(sqlite3.Error):
                database.execute(text.format(tables[int(rng.integers(len(tables)))]))
