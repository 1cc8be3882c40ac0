"""Counts and checksums of a dataset, which show whether two reports used the same data, and names of missing images.

There are no official checksums of images, and copies differ: faces were blurred in Oxford and Paris, images of Holidays
were turned upright. A checksum is the SHA-256 of sorted lines, one for each image, "name size sha256-of-content". It
depends on the names and bytes of the images, not on their folders.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from faemb.benchmark.datasets.dataset import Dataset, Query
from faemb.benchmark.datasets.opening import KINDS
from faemb.errors import InputError
from faemb.runtime import Progress, silent
from faemb.runtime.limits import require_input_file


@dataclass(frozen=True)
class Sum:
    files: int
    bytes: int
    checksum: str


@dataclass(frozen=True)
class Checked:
    complete: bool | None
    """Whether there are as many images and queries as published; None without a published size."""
    queries: int
    images: Sum
    """Sum of all images, including queries that are not among them."""
    distractors: Sum
    labels: str
    """Checksum of the queries, their boxes, relevant images and junk."""
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Content:
    """Size and SHA-256 of one file."""

    bytes: int
    sha256: str


def content_of(path: Path) -> Content:
    """Size and SHA-256 of a file, which is read completely."""
    require_input_file(path, "an image")
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
            return Content(file.tell(), digest.hexdigest())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; restore it") from error


def checked(dataset: Dataset, progress: Progress = silent, content: Callable[[Path], Content] = content_of) -> Checked:
    """Counts and checksums of a dataset; `content` may cache its results, and is not called for distractors."""
    images = dict.fromkeys([*dataset.images, *(query.image for query in dataset.queries)])
    total = len(images) + sum(1 for _ in dataset.distractor_images())
    done = 0

    def counted(path: Path) -> Content:
        nonlocal done
        found = content(path) if path in images else content_of(path)
        done += 1
        progress("checksum", done, total)
        return found

    return Checked(
        complete=KINDS[dataset.kind].is_complete(len(dataset.images), len(dataset.queries)),
        queries=len(dataset.queries),
        images=summed(images, counted),
        distractors=summed(dataset.distractor_images(), counted),
        labels=_labels(dataset),
        missing=dataset.missing,
    )


def summed(paths: Iterable[Path], content: Callable[[Path], Content]) -> Sum:
    lines, size = [], 0
    for path in paths:
        found = content(path)
        lines.append(f"{path.name} {found.bytes} {found.sha256}")
        size += found.bytes
    return Sum(len(lines), size, _digest(sorted(lines)))


def _labels(dataset: Dataset) -> str:
    lines = [
        f"{protocol} {_label(query, dataset.images)}"
        for protocol, queries in dataset.protocols.items()
        for query in queries
    ]
    return _digest(sorted(lines))


def _label(query: Query, images: tuple[Path, ...]) -> str:
    lists = (sorted(images[number].name for number in numbers) for numbers in (query.relevant, query.junk))
    return " ".join([query.image.name, str(query.box and tuple(query.box)), *(",".join(names) for names in lists)])


def _digest(lines: Iterable[str]) -> str:
    total = hashlib.sha256()
    for line in lines:
        total.update(f"{line}\n".encode(errors="surrogateescape"))
    return total.hexdigest()
