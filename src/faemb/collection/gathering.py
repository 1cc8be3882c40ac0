"""Adding files to a collection: worker processes extract local features, which are packed and stored."""

import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

import numpy as np

from faemb.collection.catalogue import Entry
from faemb.collection.encoding import encoding_beside
from faemb.collection.known_content import Copies, Twin
from faemb.collection.model import Model
from faemb.collection.other_files import Seen
from faemb.collection.packing import pack
from faemb.collection.slots import write_at
from faemb.collection.thumbnails import Dates, Thumbnail, make_thumbnail
from faemb.collection.writing import Report, Writer, writing_to
from faemb.errors import (
    FaembError,
    FormatError,
    InputError,
    LimitError,
    MissingExtraError,
    ReadError,
    RefusedError,
    RemoteError,
    about,
)
from faemb.features import Extractor, LocalFeatures
from faemb.features.feature_files import FEATURES, kind_of, picture_of
from faemb.features.image import as_image
from faemb.features.image.dates import date_taken
from faemb.features.job import content_hash
from faemb.runtime.parallel import Jobs, spread
from faemb.runtime.paths_and_urls import fetched

_COMMIT_IMAGES, _COMMIT_BYTES, _COMMIT_SECONDS = 64, 1 << 25, 2.0

_AWAY = 20
"""Number of images in a row without an answer of their server that ends a command: it would wait for each other one."""


_NEVER = Seen(-1, -1)
"""Size and time recorded for a file that every change tries again."""


class Known(NamedTuple):
    """A file and its content hash in the catalogue; None for a new image."""

    path: Path
    hash: str | None
    again: bool = False
    """Describe the image even if its content is known."""


class Described(NamedTuple):
    """An image as a worker has read it; `packed` is empty if the collection has its content."""

    hash: str
    seen: Seen
    size: tuple[int, int] = (0, 0)
    thumbnail: Thumbnail | None = None
    features: int = 0
    packed: bytes = b""
    taken: datetime | None = None
    """When the photograph was taken; looked up for images with a thumbnail."""


@dataclass(frozen=True)
class Describe:
    """The task of the workers."""

    extractor: Extractor
    known: frozenset[str] = frozenset()
    """Hashes of images that the collection has."""
    thumbnails: bool = True

    def __call__(self, file: Known) -> Described:
        path = fetched(file.path)
        seen = seen_now(path)
        current = content_hash(path)
        if not file.again and (current == file.hash or current in self.known):
            return Described(current, seen)
        features, thumbnail = self._read(path)
        taken = None if thumbnail is None else _date_of(path)
        return Described(current, seen, features.image_size, thumbnail, len(features), pack(features), taken)

    def _read(self, path: Path) -> tuple[LocalFeatures, Thumbnail | None]:
        if not self.thumbnails:
            return self.extractor.extract(path), None
        if kind_of(self.extractor) is FEATURES:
            with suppress(FaembError):  # there may be no image beside the features
                return self.extractor.extract(path), make_thumbnail(path)
            return self.extractor.extract(path), None
        image = as_image(path, self.extractor.max_side)
        return self.extractor.extract(image), make_thumbnail(image)


def _date_of(path: Path) -> datetime | None:
    """When the photograph was taken: an image file, or the one beside a file of features."""
    shown = picture_of(path)
    return None if shown is None else date_taken(shown)


class Addition(NamedTuple):
    """A new or changed image: its row in the catalogue without the places of its data, and the data."""

    row: dict[str, str | int]
    changed: bool
    """Whether it replaces an image of the same name."""
    packed: bytes
    vector: np.ndarray | None = None


def seen_now(path: Path) -> Seen:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except OSError as error:
        raise ReadError(f"{path} cannot be read: {error.strerror}") from error
    return Seen(status.st_size, status.st_mtime_ns)


def gather(writer: Writer, files: Sequence[Path], model: Model, jobs: Jobs, report: Report) -> None:
    """Describe and store files that are new or changed; files of the same size and time are not opened.

    A file whose content the collection has under another name is not described again. Workers that have a GPU encode
    what is stored while others describe.
    """
    with encoding_beside(writer, model, jobs) as encode_some:
        _gather(writer, files, model, jobs, report, encode_some)


def _gather(
    writer: Writer,
    files: Sequence[Path],
    model: Model,
    jobs: Jobs,
    report: Report,
    beside: Callable[[], None],
) -> None:
    wanted, total, done = list(_to_describe(writer, files, report)), 0, 0
    copies = Copies(writer, model, [file.path for file in wanted])
    buffer = _Buffer(writer, model, copies, report)
    writer.progress("features", 0, len(wanted))
    while wanted:
        total += len(wanted)
        task = Describe(model.extractor, copies.hashes, writer.make_thumbnails)
        away = 0
        for file, result in spread(task, wanted, jobs=jobs):
            buffer.take(file, result)
            beside()
            away = away + 1 if isinstance(result, RemoteError) and not isinstance(result, RefusedError) else 0
            if away == _AWAY:
                buffer.flush()
                raise RemoteError(f"{away} images in a row could not be read, and those before are stored: {result}")
            done += 1
            writer.progress("features", done, total)
        buffer.flush()
        wanted, buffer.lost = buffer.lost, []


def gather_again(writer: Writer, entries: Sequence[Entry], model: Model, jobs: Jobs, report: Report) -> None:
    """Extract the features of images whose stored features are lost.

    An image that still has its vector is kept even if its file cannot be read.
    """
    if not entries:
        return
    known = {writer.layout.path_of(entry.path): entry for entry in entries}
    files = [Known(path, entry.hash, again=True) for path, entry in known.items()]
    buffer = _Buffer(writer, model, Copies(writer, model, []), report)
    writer.progress("features", 0, len(files))
    for done, (file, result) in enumerate(spread(Describe(model.extractor), files, jobs=jobs), 1):
        if isinstance(result, Described) or known[file.path].slot is None:
            buffer.take(file, result)
        writer.progress("features", done, len(files))
    buffer.flush()


class Shown(NamedTuple):
    """What is stored to show an image."""

    thumbnail: Thumbnail
    taken: datetime | None


@dataclass(frozen=True)
class MakeThumbnail:
    """The task of workers that make missing thumbnails, and look up missing dates."""

    def __call__(self, file: Known) -> Shown:
        path = fetched(file.path)
        if content_hash(path) != file.hash:
            raise InputError(f"{path} has changed since it was added to the collection")
        return Shown(make_thumbnail(path), _date_of(path))


def gather_thumbnails(writer: Writer, jobs: Jobs) -> tuple[int, int]:
    """Make the thumbnails and dates that are missing, of images whose files are there and have not changed.

    Returns the number of both.
    """
    held, dated = writer.thumbnails.contents(), writer.thumbnails.dates()
    lacking = writer.catalogue.hashes().items()
    missing = {content: name for name, content in lacking if content not in held or content not in dated}
    files = {writer.layout.path_of(name): content for content, name in missing.items()}
    made: dict[str, Shown] = {}
    found: set[str] = set()
    for done, (file, result) in enumerate(spread(MakeThumbnail(), starmap(Known, files.items()), jobs=jobs), 1):
        if isinstance(result, Shown):
            made[files[file.path]] = result
        if len(made) >= _COMMIT_IMAGES or done == len(files):
            store_thumbnails(writer, made)
            found |= made.keys()
            made = {}
        writer.progress("thumbnails", done, len(files))
    return len(found - held), len(found - dated.keys())


def store_thumbnails(writer: Writer, made: Mapping[str, Shown]) -> None:
    """Store thumbnails by content hash; a damaged file is replaced by one with the thumbnails that can be read."""
    thumbnails = {content: each.thumbnail for content, each in made.items()}
    dates: Dates = {content: each.taken for content, each in made.items()}
    with writing_to(writer.layout.folder):
        try:
            writer.thumbnails.put(thumbnails, dates)
        except FormatError:
            writer.thumbnails.rebuild(set(writer.catalogue.hashes().values()))
            writer.thumbnails.put(thumbnails, dates)


def _to_describe(writer: Writer, files: Sequence[Path], report: Report) -> Iterator[Known]:
    names = [writer.layout.name_of(file) for file in files]
    known = writer.catalogue.recorded(names)
    for file, name in zip(files, names, strict=True):
        before = known.get(name)
        if before is None or not _is_unchanged(file, before.seen):
            yield Known(file, None if before is None else before.hash)
        elif before.hash is not None:
            report.unchanged += 1
        else:
            report.failed.append(about(file, before.refusal))


def _is_unchanged(file: Path, before: Seen) -> bool:
    try:
        return seen_now(file) == before
    except (InputError, RemoteError):
        return False  # the worker reports the reason


class _Buffer:
    """Results of the workers, stored in one transaction for dozens of images."""

    def __init__(self, writer: Writer, model: Model, copies: Copies, report: Report) -> None:
        self._writer, self._model, self._copies, self._report = writer, model, copies, report
        self._held: list[tuple[Known, Described | Exception]] = []
        self._since = time.monotonic()
        self.lost: list[Known] = []
        """Files to be described after all: the data of the images with the same content is damaged."""

    def take(self, file: Known, result: Described | Exception) -> None:
        self._held.append((file, result))
        size = sum(len(each.packed) for _, each in self._held if isinstance(each, Described))
        waited = time.monotonic() - self._since
        if len(self._held) >= _COMMIT_IMAGES or size >= _COMMIT_BYTES or waited > _COMMIT_SECONDS:
            self.flush()

    def flush(self) -> None:
        layout, catalogue = self._writer.layout, self._writer.catalogue
        described = [(file, each) for file, each in self._held if isinstance(each, Described)]
        shown = {each.hash: Shown(each.thumbnail, each.taken) for _, each in described if each.thumbnail is not None}
        store_thumbnails(self._writer, shown)
        with catalogue.change(), writing_to(layout.folder):
            # All twins are found before anything changes: a file may have taken the name of one that was renamed.
            twins = [self._twin(file, each) for file, each in described]
            additions = [self._addition(*each, twin) for each, twin in zip(described, twins, strict=True)]
            self._put([each for each in additions if each is not None])
            for file, outcome in self._held:
                if isinstance(outcome, Exception):
                    self._refuse(file.path, outcome)
        self._held, self._since = [], time.monotonic()

    def _twin(self, file: Known, described: Described) -> Twin | None:
        is_known = not described.packed and described.hash != file.hash
        return self._copies.take(described.hash) if is_known else None

    def _addition(self, file: Known, described: Described, twin: Twin | None) -> Addition | None:
        """The image to be added for a file, if there is one; what needs no other data is recorded at once."""
        name = self._writer.layout.name_of(file.path)
        changed = file.hash is not None
        if described.packed:
            row = _row(name, described, described.size, described.features)
            return Addition(row, changed, described.packed)
        if described.hash == file.hash:
            self._writer.catalogue.set_seen(name, described.seen)
            self._report.unchanged += 1
        elif twin is not None and not twin.moved:
            row = _row(name, described, (twin.entry.width, twin.entry.height), twin.entry.features)
            return Addition(row, changed, twin.packed, twin.vector)
        elif twin is None or not self._move(twin.entry, name, described.seen):
            self.lost.append(file._replace(again=True))
        return None

    def _move(self, entry: Entry, name: str, seen: Seen) -> bool:
        """Give an image the name of a file with its content; an image that had the name before is removed."""
        self._report.removed += self._writer.catalogue.remove(name)
        moved = self._writer.catalogue.rename(entry.id, name, seen)
        self._report.moved += moved
        return moved

    def _put(self, additions: Sequence[Addition]) -> None:
        layout, catalogue, generation = self._writer.layout, self._writer.catalogue, self._writer.generation
        offset, slot = catalogue.free_offset(), catalogue.free_slot()
        write_at(layout.features(generation), offset, b"".join(each.packed for each in additions))
        first, with_vectors = slot, [each for each in additions if each.vector is not None]
        for row, changed, packed, vector in additions:
            if packed:
                row |= {"offset": offset, "length": len(packed), "features_crc": zlib.crc32(packed)}
                offset += len(packed)
            if vector is not None:
                row |= {"slot": slot, "vector_crc": zlib.crc32(vector.tobytes())}
                slot += 1
            catalogue.put(row)
            self._report.changed += changed
            self._report.added += not changed
            if not row["features"]:
                self._report.without_features.append(str(layout.path_of(str(row["path"]))))
        if with_vectors:
            images = [catalogue.entry(str(each.row["path"])) for each in with_vectors]
            rows = np.stack([each.vector for each in with_vectors if each.vector is not None])
            self._writer.table(self._model).write(first, rows, [image for image in images if image is not None])
        catalogue.use(offsets=offset, slots=slot if with_vectors else None)

    def _refuse(self, path: Path, error: Exception) -> None:
        name = self._writer.layout.name_of(path)
        sentence = about(path, error)
        if isinstance(error, RemoteError | MissingExtraError | ReadError):
            # Nothing is known of the content: an image stays as it is, and the file is tried again.
            if not isinstance(error, RemoteError) and self._writer.catalogue.entry(name) is None:
                self._writer.catalogue.add_unreadable(name, _NEVER, sentence)
            self._report.failed.append(sentence)
            return
        seen = _NEVER
        with suppress(InputError):
            # The cause of other errors is not the file alone, and limits may be raised: it is tried again.
            if isinstance(error, InputError) and not isinstance(error, LimitError):
                seen = seen_now(path)
        self._report.removed += self._writer.catalogue.remove(name)
        self._writer.catalogue.add_unreadable(name, seen, sentence)
        self._report.failed.append(sentence)


def _row(name: str, described: Described, size: tuple[int, int], features: int) -> dict[str, str | int]:
    """An image's row in the catalogue, without the places of its data."""
    width, height = size
    return {
        "path": name,
        "hash": described.hash,
        **asdict(described.seen),
        "width": width,
        "height": height,
        "features": features,
    }
