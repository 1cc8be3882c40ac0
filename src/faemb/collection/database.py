"""Connections to a SQLite file, and SQLite's errors as errors of this package, with their cure."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faemb.errors import FaembError, FormatError


class NoRoomError(FaembError):
    """The disk is full."""


def opened(path: Path) -> sqlite3.Connection:
    """A connection for reading and writing; read-only on a read-only disk, where no other process can write either.

    Processes that share a file do so through another one of 32 KiB beside it. On a disk that has no room for that, the
    first process has the file to itself, so that a search needs no room at all.
    """
    with explained(path):
        try:
            return connected(path)
        except sqlite3.OperationalError as error:
            if _is_full(error):
                return connected(path, alone=True)
            if not _is_forbidden(error) or os.path.exists(f"{path}-wal"):
                raise
        uri = Path(os.path.abspath(path)).as_uri()
        return sqlite3.connect(f"{uri}?immutable=1", uri=True, isolation_level=None)


def connected(path: Path, *, alone: bool = False) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, timeout=30)
    try:
        database.execute("pragma temp_store = memory")  # a full disk must not hinder readers
        if alone:
            database.execute("pragma locking_mode = exclusive")
        database.execute("pragma synchronous = full")
        (added,) = database.execute("select count(*) from sqlite_schema where type in ('trigger', 'view')").fetchone()
        if added:  # they would change other rows than ours, whenever we change one
            raise sqlite3.DatabaseError("it has triggers or views, which faemb never writes")
    except sqlite3.Error:
        database.close()
        raise
    return database


@contextmanager
def explained(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.ProgrammingError as error:  # the connection is closed, or belongs to another thread
        raise FaembError(f"{path} cannot be used here: {error}; open the collection again") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # UnicodeDecodeError: SQLite quotes damaged text
        text = str(error)
        if _is_full(error):
            raise NoRoomError(
                f"{path} cannot be written: {text}; make room on the disk and run the same command again"
            ) from error
        if _is_forbidden(error):
            raise FaembError(f"{path} cannot be written: {text}; check the folder's permissions") from error
        if "locked" in text or "busy" in text:
            raise FaembError(f"{path} is in use by another process; try again when it has ended") from error
        raise FormatError(f"{path} is damaged, or is not a catalogue ({text}); restore it from a copy") from error


def _is_forbidden(error: Exception) -> bool:
    return "readonly" in str(error) or "unable to open" in str(error)


def _is_full(error: Exception) -> bool:
    return "full" in str(error) or "disk I/O" in str(error)
