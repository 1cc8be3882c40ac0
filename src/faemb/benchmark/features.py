"""Local features of the images of an experiment: extracted once per extractor, kept as files, read when needed."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from faemb.errors import InputError
from faemb.features import Extractor, LocalFeatures
from faemb.features.files.npz import read_npz
from faemb.features.job import extract_folder
from faemb.runtime import Progress


class StoredFeatures(Sequence[np.ndarray]):
    """Descriptors of images by number; each is read when it is asked for."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, place: Any) -> Any:
        return self.features(place).descriptors

    def features(self, place: int) -> LocalFeatures:
        return read_npz(self._files[place])

    def all(self) -> Iterator[LocalFeatures]:
        return map(read_npz, self._files)


def extracted(
    folder: Path,
    images: Sequence[Path],
    extractor: Extractor,
    cache: Path,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> StoredFeatures:
    """Features of these images, which lie in `folder` or below; those in the cache are not extracted again."""
    summary = extract_folder(images, cache, extractor, jobs=jobs, progress=progress, root=folder)
    if summary.failed:
        raise InputError(f"{len(summary.failed)} images cannot be used; repair or remove them: {summary.failed[0]}")
    return StoredFeatures([cache / f"{os.path.relpath(image, folder)}.npz" for image in images])
