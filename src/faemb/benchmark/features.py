"""Local features of the images of an experiment: extracted once per extractor and image, stored in a few files.

A store is a folder of files of about 128 MB each, in the safetensors format:

    features    (M, 7 + d), float32: x, y, a11, a12, a21, a22, score and descriptor of each feature, image after image;
                for cells of feature maps (M, 10 + d), with the map, row and column of each before its descriptor
    images      in the header, as JSON, for each image: SHA-256 of its file, number of features, width and height in
                pixels, CRC32 of its rows, rows and columns of its feature maps

Images are identified by their content: a renamed image is not extracted again, a changed image is. Files are written
atomically, so that a killed run loses only the images that were not yet written. Damaged files are ignored, and their
images are extracted again.
"""

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from faemb.errors import FormatError, InputError, LimitError, about
from faemb.features import Extractor, LocalFeatures
from faemb.features.local_features import Grids
from faemb.runtime import Progress, silent
from faemb.runtime.limits import require_memory
from faemb.runtime.parallel import Jobs, require_jobs, spread
from faemb.runtime.storage import replacing

FILE_BYTES = 128 << 20
"""Number of bytes of extracted features at which they are written to a file."""
_BYTES_PER_CHARACTER = 40
"""Bytes of memory per character of a file's header while it is read: lists of lists take most."""
_SUFFIX = ".safetensors"
_TENSOR = "features"

Rows = Float[np.ndarray, "N columns"]


@dataclass(frozen=True)
class _Entry:
    """One image in a file's header."""

    sha256: str
    count: int
    width: int
    height: int
    crc32: int
    maps: list[list[int]]

    def __post_init__(self) -> None:
        """Raise a TypeError or ValueError for invalid values: a file can contain anything."""
        whole = [self.count, self.width, self.height, self.crc32, *(side for size in self.maps for side in size)]
        if not isinstance(self.sha256, str) or any(type(value) is not int for value in whole):
            raise TypeError("a header of another kind")
        if min(whole) < 0 or any(len(size) != 2 for size in self.maps):
            raise ValueError("a header with impossible numbers")


class _Place(NamedTuple):
    """Location of the features of an image."""

    file: Path
    read: Callable[[int, int], Rows]
    """Reads the rows from start (inclusive) to stop (exclusive)."""
    start: int
    entry: _Entry


class StoredFeatures(Sequence[np.ndarray]):
    """Descriptors of images by number, read when needed."""

    def __init__(self, places: Sequence[_Place], fingerprint: str) -> None:
        self._places, self._fingerprint = places, fingerprint

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, number: int) -> Float[np.ndarray, "N d"]:  # type: ignore[override]
        return self.features(number).descriptors

    def features(self, number: int) -> LocalFeatures:
        file, read, start, entry = self._places[number]
        rows = read(start, start + entry.count)
        if zlib.crc32(rows.data) != entry.crc32 or not _is_possible(rows, entry.maps):
            raise FormatError(f"{file} is damaged; delete it, and run the benchmark again")
        grids = Grids(np.array(entry.maps), rows[:, 7:10].astype(np.int64)) if entry.maps else None
        descriptors = np.ascontiguousarray(rows[:, 10 if grids else 7 :])
        size = entry.width, entry.height
        return LocalFeatures(descriptors, rows[:, :6], rows[:, 6], size, self._fingerprint, grids)

    def all(self) -> Iterator[LocalFeatures]:
        return map(self.features, range(len(self)))


class FeatureStore:
    """Features of one extractor, in a folder."""

    def __init__(self, folder: Path, extractor: Extractor) -> None:
        self._folder, self._extractor = folder, extractor
        self._places: dict[str, _Place] = {}
        for file in sorted(folder.glob(f"*{_SUFFIX}")):
            if file.is_file():  # opening a pipe would block
                self._open(file)

    def features(
        self,
        images: Sequence[Path],
        sha256: Callable[[Path], str],
        *,
        jobs: Jobs = None,
        progress: Progress = silent,
    ) -> StoredFeatures:
        """Features of these images, in their order; those that are not in the store are extracted first."""
        digests = [sha256(image) for image in images]
        missing = {digest: image for digest, image in zip(digests, images, strict=True) if digest not in self._places}
        if missing:
            self._extract(missing, jobs, progress)
        return StoredFeatures([self._places[digest] for digest in digests], self._extractor.fingerprint)

    def _extract(self, images: Mapping[str, Path], jobs: Jobs, progress: Progress) -> None:
        """Extract and store features; images that fail raise an error after all others are stored."""
        waiting: dict[str, LocalFeatures] = {}
        failed: list[str] = []
        size = 0
        require_jobs(jobs)
        progress("features", 0, len(images))
        try:
            outcomes = spread(_Extract(self._extractor), images.items(), jobs=jobs)
            for done, ((digest, image), outcome) in enumerate(outcomes, 1):
                if isinstance(outcome, Exception):
                    failed.append(about(image, outcome))
                else:
                    waiting[digest] = outcome
                    size += outcome.descriptors.nbytes
                if size >= FILE_BYTES:
                    self._write(waiting)
                    waiting, size = {}, 0
                progress("features", done, len(images))
        finally:  # also when it is interrupted
            if waiting:
                self._write(waiting)
        if failed:
            raise InputError(f"{len(failed)} images cannot be used; repair or remove them: {failed[0]}")

    def _write(self, images: Mapping[str, LocalFeatures]) -> None:
        blocks = {digest: _rows(features) for digest, features in images.items()}
        entries = [
            asdict(_Entry(digest, len(each), *each.image_size, zlib.crc32(blocks[digest].data), _maps(each)))
            for digest, each in images.items()
        ]
        self._folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.blake2b("".join(blocks).encode(), digest_size=10).hexdigest()
        file = self._folder / f"{name}{_SUFFIX}"
        with replacing(file) as temporary:
            save_file({_TENSOR: np.concatenate(list(blocks.values()))}, temporary, {"images": json.dumps(entries)})
        self._open(file)

    def _open(self, file: Path) -> None:
        try:
            opened: Any = safe_open(file, framework="numpy")
            described = opened.metadata()["images"]
            require_memory(_BYTES_PER_CHARACTER * len(described), file)
            entries = [_Entry(**entry) for entry in json.loads(described)]
            tensor = opened.get_slice(_TENSOR)
            _require_rows(tensor, entries)
        except (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError, LimitError):
            return
        read = partial(_read, tensor, file)
        start = 0
        for entry in entries:
            self._places[entry.sha256] = _Place(file, read, start, entry)
            start += entry.count


@dataclass(frozen=True)
class _Extract:
    """The task of the worker processes."""

    extractor: Extractor

    def __call__(self, item: tuple[str, Path]) -> LocalFeatures:
        return self.extractor.extract(item[1])


def _rows(features: LocalFeatures) -> Rows:
    cells = [] if features.grids is None else [features.grids.cells]
    parts = [features.frames, features.scores[:, None], *cells, features.descriptors]
    return np.concatenate(parts, axis=1).astype(np.float32, copy=False)


def _maps(features: LocalFeatures) -> list[list[int]]:
    return [] if features.grids is None else features.grids.sizes.tolist()


def _is_possible(rows: Rows, maps: Sequence[Sequence[int]]) -> bool:
    """Whether descriptors are finite, and cells are inside their maps."""
    if not maps:
        return bool(np.isfinite(rows[:, 7:]).all())
    number, cells = rows[:, 7], rows[:, 8:10]
    if not np.isfinite(rows[:, 7:]).all() or not ((number >= 0) & (number < len(maps))).all():
        return False
    return bool(((cells >= 0) & (cells < np.array(maps)[number.astype(np.int64)])).all())


def _require_rows(tensor: Any, entries: Sequence[_Entry]) -> None:
    """Raise a ValueError unless the tensor has as many rows as the header states, each with geometry and descriptor."""
    rows, columns = tensor.get_shape()
    geometry = 10 if any(entry.maps for entry in entries) else 7
    if tensor.get_dtype() != "F32" or rows != sum(entry.count for entry in entries) or columns <= geometry:
        raise ValueError("rows other than those of the images")


def _read(tensor: Any, file: Path, start: int, stop: int) -> Rows:
    columns = tensor.get_shape()[1]
    require_memory(2 * (stop - start) * columns * np.dtype(np.float32).itemsize, file)  # rows, and descriptors
    if start == stop:  # safetensors raises an error for an empty slice
        return np.zeros((0, columns), np.float32)
    return tensor[start:stop]
