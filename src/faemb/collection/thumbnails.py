"""Thumbnails of a collection's images: small JPEGs, in a SQLite file of their own, by the hash of the image file.

With them are the dates at which photographs were taken, so that a list of images by date opens no image file.

They are derived data: pages can show images whose files have moved or lie on a drive that is not connected. A
thumbnail belongs to a content and not to a name, so that it stays valid when a file is renamed.
"""

import io
import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from PIL import Image as Pillow

from faemb.collection.database import connected, explained, opened
from faemb.errors import FaembError, FormatError, InputError
from faemb.features.feature_files import picture_of
from faemb.features.image import ImageLike, as_image
from faemb.runtime.paths_and_urls import place

LARGEST_THUMBNAIL = 240
QUALITY = 80

_AT_ONCE = 64
_TABLES = ("thumbnails", "dates")
_SCHEMA = (
    """
create table if not exists thumbnails (
    hash text primary key,
    width integer not null,
    height integer not null,
    jpeg blob not null,
    crc integer not null
) strict
""",
    "create table if not exists dates (hash text primary key, taken text not null, crc integer not null) strict",
)
Dates = Mapping[str, datetime | None]
"""When photographs were taken, in local time without a zone, by hash of the image file; None if it does not tell."""
_NO_DATES: Dates = MappingProxyType({})


@dataclass(frozen=True)
class Thumbnail:
    width: int
    height: int
    """Width and height of the upright image in its file, not of the thumbnail."""
    jpeg: bytes

    @property
    def checksum(self) -> int:
        return zlib.crc32(f"{self.width} x {self.height} ".encode() + self.jpeg)


def make_thumbnail(image: ImageLike) -> Thumbnail:
    """The thumbnail of an image file, of an image that has been read already, or of the image beside a feature file."""
    if isinstance(image, str | os.PathLike):
        shown = picture_of(place(image))
        if shown is None:
            raise InputError(f"{image} holds local features, and no image is beside it")
        image = shown
    small = as_image(image, LARGEST_THUMBNAIL)
    stream = io.BytesIO()
    pixels = np.rint(small.pixels).astype(np.uint8)
    Pillow.fromarray(pixels).save(stream, format="JPEG", quality=QUALITY, optimize=True)
    return Thumbnail(*small.size, stream.getvalue())


class Thumbnails:
    """The stored thumbnails; each call opens the file for itself, so that it may be replaced or deleted at any time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, content: str) -> Thumbnail | None:
        """The thumbnail of the image file with this hash; None if there is none that can be used."""
        with suppress(FaembError, OSError):
            return next(iter(self._verified(content)), None)
        return None

    def put(self, made: Mapping[str, Thumbnail], dates: Dates = _NO_DATES) -> None:
        """Store thumbnails and dates by hash of the image file."""
        if made or dates:
            rows = [(content, each.width, each.height, each.jpeg, each.checksum) for content, each in made.items()]
            with self._changing() as database:
                database.executemany("insert or replace into thumbnails values (?, ?, ?, ?, ?)", rows)
                database.executemany("insert or replace into dates values (?, ?, ?)", map(_date_row, dates.items()))

    def dates(self, contents: Iterable[str] | None = None) -> dict[str, datetime | None]:
        """The stored dates: all, or those of these image files; without those that are damaged."""
        chosen = "" if contents is None else "where hash in (select value from json_each(?))"
        values = () if contents is None else (json.dumps(list(contents)),)
        rows = self._all(f"select hash, taken, crc from dates {chosen}", *values)  # noqa: S608
        return dict(_undamaged_dates(rows))

    def contents(self) -> set[str]:
        """The hashes of the image files that have a thumbnail."""
        return {content for (content,) in self._all("select hash from thumbnails")}

    def remove(self, contents: Iterable[str]) -> None:
        gone = [(content,) for content in contents]
        if gone:
            with self._changing() as database:
                for table in _TABLES:
                    database.executemany(f"delete from {table} where hash = ?", gone)  # noqa: S608

    def damaged(self) -> set[str]:
        """The hashes whose thumbnails or dates do not match their checksums.

        A FormatError if the file itself is damaged.
        """
        found = self._all("pragma integrity_check")
        if found not in ([], [("ok",)]):
            raise FormatError(f"{self.path} is damaged ({found[0][0]})")
        dates = self._all("select hash, taken, crc from dates")  # once: another process may remove some meanwhile
        undated = {content for content, *_ in dates} - dict(_undamaged_dates(dates)).keys()
        return {content for content in self.contents() if None in self._verified(content)} | undated

    def _verified(self, content: str) -> list[Thumbnail | None]:
        """The one thumbnail of this content, or None in its place if it is damaged; none if it is not stored."""
        rows = self._all("select width, height, jpeg, crc from thumbnails where hash = ?", content)
        return [_undamaged(values, crc) for *values, crc in rows]

    def rebuild(self, contents: Iterable[str]) -> None:
        """Replace a damaged file by one with those thumbnails of these contents that can still be read."""
        fresh = Thumbnails(self.path.with_suffix(".new"))
        fresh._delete()
        wanted, dates = list(contents), self._readable_dates()
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            fresh.put(
                {content: thumbnail for content in some if (thumbnail := self.get(content))},
                {content: dates[content] for content in some if content in dates},
            )
        self._delete()
        if fresh.path.exists():
            fresh.path.replace(self.path)

    def _readable_dates(self) -> dict[str, datetime | None]:
        with suppress(FaembError, OSError):
            return self.dates()
        return {}

    def _delete(self) -> None:
        """Delete the file, and those that SQLite has left of an interrupted change."""
        for end in ("", "-wal", "-shm"):
            Path(f"{self.path}{end}").unlink(missing_ok=True)

    def _all(self, statement: str, *values: str | None) -> list[tuple[Any, ...]]:
        if not self.path.is_file():
            return []
        with explained(self.path), closing(opened(self.path)) as database:
            try:
                return database.execute(statement, values).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):  # its first change was interrupted
                    return []
                raise

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with explained(self.path), closing(connected(self.path)) as database:
            database.execute("pragma auto_vacuum = full")  # the file shrinks with its content
            database.execute("pragma journal_mode = wal")  # readers do not wait for a writer, nor a writer for them
            database.execute("begin immediate")
            for statement in _SCHEMA:
                database.execute(statement)
            yield database
            database.execute("commit")


def _undamaged(values: list[Any], crc: object) -> Thumbnail | None:
    with suppress(TypeError):  # a damaged row can hold anything
        thumbnail = Thumbnail(*values)
        return thumbnail if thumbnail.checksum == crc else None
    return None


def _date_row(dated: tuple[str, datetime | None]) -> tuple[str, str, int]:
    content, date = dated
    taken = "" if date is None else date.isoformat()
    return content, taken, _date_checksum(content, taken)


def _date_checksum(content: str, taken: str) -> int:
    return zlib.crc32(f"{content} {taken}".encode())


def _undamaged_dates(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[str, datetime | None]]:
    for content, taken, crc in rows:
        if _date_checksum(content, taken) == crc:
            with suppress(ValueError, TypeError):  # a damaged row can hold anything
                yield content, datetime.fromisoformat(taken) if taken else None
