"""A SQLite file whose rows have checksums: transactions, and reads that notice damage.

Every change is one transaction, which is on the disk when the call returns (write-ahead log, synchronous FULL); readers
see the state before it or after it.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from faemb.collection.database import explained, opened
from faemb.collection.layout import repair_command
from faemb.collection.rows import (
    TABLES,
    DamagedRow,
    add_checksums,
    damaged_rows,
    has_checksums,
    maintain_checksums,
    row_checksum,
)
from faemb.errors import FaembError, FormatError

EMPTY_ROW = "a row has lost its content"  # SQLite reads a missing page as zeros
_WHOLE = ("bytes", "changed")
_MOST_DIGITS = 15
_AT_ONCE = 500
"""Largest number of values in one SQL statement."""
Value = TypeVar("Value", str, int)


class Transactions:
    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise FormatError(f"there is no catalogue at {path}")
        self._database = opened(path)
        self._guard: Callable[[], None] | None = None
        self._is_closed = False
        try:
            with explained(path):
                self._checked = has_checksums(self._database)
                if self._checked:
                    maintain_checksums(self._database)
        except FaembError:
            self.close()
            raise

    def close(self) -> None:
        self._is_closed = True
        self._database.close()

    def _roll_back(self) -> None:
        """End the transaction, unless it has ended: closing ends it too, and an abandoned generator comes later."""
        if not self._is_closed and self._database.in_transaction:
            self._database.execute("rollback")

    @contextmanager
    def change(self) -> Iterator[None]:
        """One transaction: all changes made in the block, or none of them."""
        with explained(self.path):
            self._database.execute("begin immediate")
            try:
                if self._guard is not None:
                    self._guard()
                yield
                self._database.execute("commit")
            except BaseException:
                self._roll_back()
                raise

    @contextmanager
    def guarded(self, guard: Callable[[], None]) -> Iterator[None]:
        """Call `guard` at the beginning of every change in the block, inside its transaction; its error stops it."""
        before, self._guard = self._guard, guard
        try:
            yield
        finally:
            self._guard = before

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads in the block see one state; nested snapshots see the state of the outer one."""
        if self._database.in_transaction:
            yield
            return
        with explained(self.path):
            self._database.execute("begin")
            try:
                yield
            finally:
                self._roll_back()

    def state(self) -> tuple[int, int]:
        """A value that is different after any change, by this process or another."""
        return int(self._one("pragma data_version")), self._database.total_changes

    def run(self, statement: str, *values: str | int | None) -> sqlite3.Cursor:
        """Execute one SQL statement of this package."""
        with explained(self.path):
            return self._database.execute(statement, values)

    def about(self) -> dict[str, str]:
        """Facts about the whole collection: format, version, generation, model, ..."""
        return dict(self._verified("about", "order by rowid"))

    def set(self, name: str, value: str) -> None:
        """Change one value of `about`."""
        statement = "insert into about (name, value) values (?, ?) on conflict do update set value = excluded.value"
        self.run(statement, name, value)

    def forget(self, *names: str) -> None:
        """Drop values of `about`."""
        for name in names:
            self.run("delete from about where name = ?", name)

    def _number(self, about: Mapping[str, str], name: str) -> int:
        """A whole number among the facts."""
        text = about.get(name, "")
        if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
            raise self._damaged(f"{name} is {text!r}", repairable=False)
        return int(text)

    def fault(self) -> str | None:
        """The first fault that SQLite finds in the file; None if it is undamaged."""
        found = str(self._one("pragma integrity_check", str))
        return None if found == "ok" else found

    def damaged_rows(self) -> list[DamagedRow]:
        """Rows that do not match their checksums, of all tables."""
        with explained(self.path):
            return list(damaged_rows(self._database))

    def reindex(self) -> None:
        """Rebuild SQLite's own indexes from the tables."""
        self.run("reindex")

    def add_checksums(self) -> None:
        """Add checksums of rows, which format version 4 introduced."""
        with explained(self.path):
            add_checksums(self._database)
        self._checked = True

    def _verified(self, table: str, which: str = "order by path", *values: str | int) -> list[list[Any]]:
        """Rows of a table, compared with their checksums: all, or those that SQL of this package names."""
        columns = TABLES[table]
        kinds = tuple(int if column in _WHOLE else str for column in columns)
        if not self._checked:
            return list(map(list, self._all(f"select {', '.join(columns)} from {table} {which}", *values, of=kinds)))  # noqa: S608
        statement = f"select checksum, {', '.join(columns)} from {table} {which}"  # noqa: S608
        rows = self._all(statement, *values, of=(int, *kinds))
        for checksum, *row in rows:
            if row_checksum(row) != checksum:
                fault = f"{row[0]!r} in the table {table} does not match its checksum"
                raise self._damaged(fault, repairable=table != "about")
        return [row for _, *row in rows]

    def _damaged(self, fault: str, *, repairable: bool = True) -> FormatError:
        cure = (
            f"run: {repair_command(self.path)}, or restore it from a copy" if repairable else "restore it from a copy"
        )
        return FormatError(f"{self.path} is damaged: {fault}; {cure}")

    def _all(self, statement: str, *values: str | int, of: tuple[type, ...]) -> list[tuple[Any, ...]]:
        """All rows; an error if a value has not the type of its column, as only a damaged one has."""
        with explained(self.path):
            rows = self._database.execute(statement, values).fetchall()
        for number, kind in enumerate(of):
            if not {kind}.issuperset(type(row[number]) for row in rows):
                raise self._damaged(EMPTY_ROW)
        return rows

    def _one(self, statement: str, of: type = int) -> Any:
        return self._all(statement, of=(of,))[0][0]


def portions(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """Portions for one SQL statement each."""
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]


def marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))
