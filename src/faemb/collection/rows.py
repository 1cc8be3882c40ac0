"""Checksums of the catalogue's rows. Each table has a column `checksum`, which triggers of the connection maintain:

    checksum = CRC32 of the row's other values as a JSON array, in the order of `TABLES`, ASCII, without spaces

The triggers are temporary, so that the file needs no function of this package: a row that another program has changed
does not match its checksum.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

TABLES: dict[str, tuple[str, ...]] = {
    "about": ("name", "value"),
    "folders": ("path",),
    "images": (
        *("id", "path", "hash", "bytes", "changed", "width", "height", "features"),
        *("slot", "vector_crc", "offset", "length", "features_crc"),
    ),
    "unreadable": ("path", "bytes", "changed", "reason"),
    "staged": ("id", "slot", "vector_crc", "offset"),
    "removed": ("path",),
}
_FUNCTION = "row_checksum"


Value = str | int | float | bytes | None
"""What a column of SQLite may hold."""


class DamagedRow(NamedTuple):
    """A row that does not match its checksum; its values may be of any type."""

    table: str
    rowid: int
    values: dict[str, Any]


def row_checksum(values: Sequence[Value]) -> int:
    return zlib.crc32(json.dumps(values, separators=(",", ":"), default=repr).encode())


def has_checksums(database: sqlite3.Connection) -> bool:
    """Whether the tables have the column: not before format version 4."""
    return any(name == "checksum" for _, name, *_ in database.execute("pragma table_info(about)"))


def maintain_checksums(database: sqlite3.Connection) -> None:
    """Make this connection write a checksum into every row that it changes."""
    database.create_function(_FUNCTION, -1, lambda *values: row_checksum(values), deterministic=True)
    for table, columns in TABLES.items():
        new = ", ".join(f"new.{column}" for column in columns)
        for event in ("insert", f"update of {', '.join(columns)}"):
            database.execute(
                f"create temp trigger {table}_{event.split()[0]} after {event} on main.{table} begin"  # noqa: S608
                f" update {table} set checksum = {_FUNCTION}({new}) where rowid = new.rowid; end"
            )


def add_checksums(database: sqlite3.Connection) -> None:
    """Add the column to every table, and compute it for every row."""
    for table in TABLES:
        database.execute(f"alter table {table} add column checksum integer")
    maintain_checksums(database)
    for table, columns in TABLES.items():
        database.execute(f"update {table} set checksum = {_FUNCTION}({', '.join(columns)})")  # noqa: S608


def damaged_rows(database: sqlite3.Connection) -> Iterator[DamagedRow]:
    """All rows of all tables that do not match their checksums."""
    decode, database.text_factory = database.text_factory, lambda text: text.decode(errors="backslashreplace")
    try:
        for table, columns in TABLES.items():
            for rowid, checksum, *values in database.execute(
                f"select rowid, checksum, {', '.join(columns)} from {table}"  # noqa: S608
            ):
                if checksum != row_checksum(values):
                    yield DamagedRow(table, rowid, dict(zip(columns, values, strict=True)))
    finally:
        database.text_factory = decode
