"""Thumbnails of a collection's images: small JPEGs, in a SQLite file of their own, by the hash of the image file.

They are derived data: pages can show images whose files have moved or lie on a drive that is not connected. A
thumbnail belongs to a content and not to a name, so that it stays valid when a file is renamed.
"""

import io
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pillow

from faemb.collection.database import connected, explained, opened
from faemb.errors import FaembError, FormatError, InputError
from faemb.features.feature_files import picture_of
from faemb.features.image import ImageLike, as_image

LARGEST_THUMBNAIL = 240
QUALITY = 80

_AT_ONCE = 64
_SCHEMA = """
create table if not exists thumbnails (
    hash text primary key,
    width integer not null,
    height integer not null,
    jpeg blob not null,
    crc integer not null
) strict
"""


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
        shown = picture_of(Path(image))
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

    def put(self, made: Mapping[str, Thumbnail]) -> None:
        """Store thumbnails by hash of the image file."""
        if made:
            rows = [(content, each.width, each.height, each.jpeg, each.checksum) for content, each in made.items()]
            with self._changing() as database:
                database.executemany("insert or replace into thumbnails values (?, ?, ?, ?, ?)", rows)

    def contents(self) -> set[str]:
        """The hashes of the image files that have a thumbnail."""
        return {content for (content,) in self._all("select hash from thumbnails")}

    def remove(self, contents: Iterable[str]) -> None:
        gone = [(content,) for content in contents]
        if gone:
            with self._changing() as database:
                database.executemany("delete from thumbnails where hash = ?", gone)

    def damaged(self) -> set[str]:
        """The hashes whose thumbnails do not match their checksums; a FormatError if the file itself is damaged."""
        found = self._all("pragma integrity_check")
        if found not in ([], [("ok",)]):
            raise FormatError(f"{self.path} is damaged ({found[0][0]})")
        return {content for content in self.contents() if None in self._verified(content)}

    def _verified(self, content: str) -> list[Thumbnail | None]:
        """The one thumbnail of this content, or None in its place if it is damaged; none if it is not stored."""
        rows = self._all("select width, height, jpeg, crc from thumbnails where hash = ?", content)
        return [_undamaged(values, crc) for *values, crc in rows]

    def rebuild(self, contents: Iterable[str]) -> None:
        """Replace a damaged file by one with those thumbnails of these contents that can still be read."""
        fresh = Thumbnails(self.path.with_suffix(".new"))
        fresh._delete()
        wanted = list(contents)
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            fresh.put({content: thumbnail for content in some if (thumbnail := self.get(content))})
        self._delete()
        if fresh.path.exists():
            fresh.path.replace(self.path)

    def _delete(self) -> None:
        """With the files of a change that was interrupted."""
        for end in ("", "-wal", "-shm"):
            Path(f"{self.path}{end}").unlink(missing_ok=True)

    def _all(self, statement: str, *values: str) -> list[tuple[Any, ...]]:
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
            database.execute(_SCHEMA)
            yield database
            database.execute("commit")


def _undamaged(values: list[Any], crc: object) -> Thumbnail | None:
    with suppress(TypeError):  # a damaged row can hold anything
        thumbnail = Thumbnail(*values)
        return thumbnail if thumbnail.checksum == crc else None
    return None
