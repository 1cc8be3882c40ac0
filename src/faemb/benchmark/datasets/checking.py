"""What was used, so that two reports can be compared: counts, checksums, names that are missing.

Images have no official checksums, and copies differ: faces were blurred in Oxford and Paris, Holidays were turned
upright. A checksum is the SHA-256 of one line for each image, "name size sha256-of-content", in order: folders do not
matter, names and every byte do.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from faemb.benchmark.datasets.dataset import Dataset, Query
from faemb.benchmark.datasets.opening import KINDS
from faemb.errors import InputError
from faemb.runtime import Progress


@dataclass(frozen=True)
class Sum:
    files: int
    bytes: int
    checksum: str


@dataclass(frozen=True)
class Checked:
    complete: bool | None
    """As many images and queries as published; None where nothing is."""
    queries: int
    images: Sum
    """With queries that are kept apart."""
    distractors: Sum
    labels: str
    """Checksum of the queries and of what counts for them."""
    missing: tuple[str, ...]


def checked(dataset: Dataset, progress: Progress | None = None) -> Checked:
    """Reads every image once."""
    images = dict.fromkeys([*dataset.images, *(query.image for query in dataset.queries)])
    total = len(images) + sum(1 for _ in dataset.distractor_images())
    done = 0

    def told() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress("checksum", done, total)

    return Checked(
        complete=KINDS[dataset.kind].is_complete(len(dataset.images), len(dataset.queries)),
        queries=len(dataset.queries),
        images=summed(images, told),
        distractors=summed(dataset.distractor_images(), told),
        labels=_labels(dataset),
        missing=dataset.missing,
    )


def summed(paths: Iterable[Path], told: Callable[[], None]) -> Sum:
    """Reads every file."""
    lines, size = [], 0
    for path in paths:
        length, digest = _content(path)
        lines.append(f"{path.name} {length} {digest}")
        size += length
        told()
    return Sum(len(lines), size, _digest(sorted(lines)))


def _content(path: Path) -> tuple[int, str]:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
            return file.tell(), digest.hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; restore it") from error


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
