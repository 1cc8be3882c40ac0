"""Adding files to a collection: worker processes extract local features, which are packed and stored."""

import os
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from faemb.collection.catalogue import Entry, Seen
from faemb.collection.packing import pack
from faemb.collection.slots import write_at
from faemb.collection.writing import Report, Writer, explained
from faemb.errors import InputError, about
from faemb.features import Extractor
from faemb.features.job import content_hash
from faemb.runtime.parallel import spread

_COMMIT_IMAGES, _COMMIT_BYTES, _COMMIT_SECONDS = 64, 1 << 25, 2.0


class Known(NamedTuple):
    """A file and its content hash in the catalogue; None for a new image."""

    path: Path
    hash: str | None
    again: bool = False
    """Describe the image even if its content has not changed."""


class Described(NamedTuple):
    """An image as a worker has read it; `packed` is empty if its content has not changed."""

    hash: str
    seen: Seen
    size: tuple[int, int]
    features: int
    packed: bytes


@dataclass(frozen=True)
class Describe:
    """The task of the workers."""

    extractor: Extractor

    def __call__(self, file: Known) -> Described:
        seen = seen_now(file.path)
        current = content_hash(file.path)
        if current == file.hash and not file.again:
            return Described(current, seen, (0, 0), 0, b"")
        features = self.extractor.extract(file.path)
        return Described(current, seen, features.image_size, len(features), pack(features))


def seen_now(path: Path) -> Seen:
    try:
        status = os.stat(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    return Seen(status.st_size, status.st_mtime_ns)


def gather(writer: Writer, files: Sequence[Path], extractor: Extractor, jobs: int | None, report: Report) -> None:
    """Describe and store files that are new or changed; files of the same size and time are not opened."""
    wanted = list(_to_describe(writer, files, report))
    buffer = _Buffer(writer, report)
    writer.progress("features", 0, len(wanted))
    for done, (file, result) in enumerate(spread(Describe(extractor), wanted, jobs=jobs), 1):
        buffer.take(file, result)
        writer.progress("features", done, len(wanted))
    buffer.flush()


def gather_again(
    writer: Writer, entries: Sequence[Entry], extractor: Extractor, jobs: int | None, report: Report
) -> None:
    """Extract the features of images whose stored features are lost.

    An image that still has its vector is kept even if its file cannot be read.
    """
    known = {writer.layout.path_of(entry.path): entry for entry in entries}
    files = [Known(path, entry.hash, again=True) for path, entry in known.items()]
    buffer = _Buffer(writer, report)
    for file, result in spread(Describe(extractor), files, jobs=jobs):
        if isinstance(result, Described) or known[file.path].slot is None:
            buffer.take(file, result)
    buffer.flush()


def _to_describe(writer: Writer, files: Sequence[Path], report: Report) -> Iterator[Known]:
    seen, hashes = writer.catalogue.seen(), writer.catalogue.hashes()
    unreadable = writer.catalogue.unreadable()
    for file in files:
        name = writer.layout.name_of(file)
        if not _is_unchanged(file, seen.get(name)):
            yield Known(file, hashes.get(name))
        elif name in hashes:
            report.unchanged += 1
        else:
            report.failed.append(about(file, unreadable[name]))


def _is_unchanged(file: Path, before: Seen | None) -> bool:
    try:
        return before is not None and seen_now(file) == before
    except InputError:
        return False  # the worker reports the reason


class _Buffer:
    """Results of the workers, stored in one transaction for dozens of images."""

    def __init__(self, writer: Writer, report: Report) -> None:
        self._writer, self._report = writer, report
        self._held: list[tuple[Known, Described | Exception]] = []
        self._since = time.monotonic()

    def take(self, file: Known, result: Described | Exception) -> None:
        self._held.append((file, result))
        size = sum(len(each.packed) for _, each in self._held if isinstance(each, Described))
        waited = time.monotonic() - self._since
        if len(self._held) >= _COMMIT_IMAGES or size >= _COMMIT_BYTES or waited > _COMMIT_SECONDS:
            self.flush()

    def flush(self) -> None:
        layout, catalogue = self._writer.layout, self._writer.catalogue
        with catalogue.change(), explained(layout.folder):
            offset = catalogue.free_offset()
            described = [(file, each) for file, each in self._held if isinstance(each, Described)]
            write_at(layout.features(self._writer.generation), offset, b"".join(each.packed for _, each in described))
            for file, each in described:
                self._put(file, each, offset)
                offset += len(each.packed)
            catalogue.use(offsets=offset)
            for file, outcome in self._held:
                if isinstance(outcome, Exception):
                    self._refuse(file.path, outcome)
        self._held, self._since = [], time.monotonic()

    def _put(self, file: Known, described: Described, offset: int) -> None:
        name = self._writer.layout.name_of(file.path)
        if not described.packed:
            self._writer.catalogue.set_seen(name, described.seen)
            self._report.unchanged += 1
            return
        self._writer.catalogue.put(
            {
                "path": name,
                "hash": described.hash,
                "bytes": described.seen.bytes,
                "changed": described.seen.changed,
                "width": described.size[0],
                "height": described.size[1],
                "features": described.features,
                "offset": offset,
                "length": len(described.packed),
                "features_crc": zlib.crc32(described.packed),
            }
        )
        self._report.changed += file.hash is not None
        self._report.added += file.hash is None
        if not described.features:
            self._report.without_features.append(str(self._writer.layout.path_of(name)))

    def _refuse(self, path: Path, error: Exception) -> None:
        name = self._writer.layout.name_of(path)
        sentence = about(path, error)
        seen = Seen(-1, -1)
        with suppress(InputError):
            if isinstance(error, InputError):  # the cause of other errors is not the file: it is tried again
                seen = seen_now(path)
        self._report.removed += self._writer.catalogue.remove(name)
        self._writer.catalogue.add_unreadable(name, seen, sentence)
        self._report.failed.append(sentence)
