"""Extract the features of many images into a folder: all cores, resumable, and no broken image stops it.

Each image gets one .npz, under the image's own name below the folder that holds all images. It carries the hash of
the image's content and the fingerprint of the extractor; a run leaves a file alone whose two marks still hold. A file
appears complete or not at all, so a run may be killed at any moment and started again.
"""

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from faemb.errors import FaembError, InputError
from faemb.features.extractor import Extractor
from faemb.features.files.npz import read_npz_header, write_npz
from faemb.features.folders import common_folder, find_images
from faemb.runtime import Progress, silent
from faemb.runtime.parallel import checked_jobs, spread


class Target(NamedTuple):
    image: Path
    output: Path


class Extracted(NamedTuple):
    features: int
    fresh: bool
    """False where the file was there already and still holds."""


@dataclass
class Summary:
    images: int = 0
    up_to_date: int = 0
    features: int = 0
    """In the images that were read now."""
    failed: list[str] = field(default_factory=list)
    """A sentence for each image that could not be used."""
    unreadable: list[str] = field(default_factory=list)
    """A sentence for each folder that could not be searched; its images are not counted."""
    seconds: float = 0.0


@dataclass(frozen=True)
class ExtractToFile:
    """The task that travels to the workers."""

    extractor: Extractor

    def __call__(self, target: Target) -> Extracted:
        mark = content_hash(target.image)
        if self._holds(target.output, mark):
            return Extracted(0, fresh=False)
        features = self.extractor.extract(target.image)
        _made(target.output.parent)
        write_npz(target.output, features, image_hash=mark)
        return Extracted(len(features), fresh=True)

    def _holds(self, output: Path, mark: str) -> bool:
        if not os.path.exists(output):
            return False
        try:
            header = read_npz_header(output)
        except FaembError:
            return False  # whatever it is, it is not what belongs there: written anew
        return header.image_hash == mark and header.fingerprint == self.extractor.fingerprint


def extract_folder(
    images: Any,
    out: Any,
    extractor: Extractor,
    *,
    root: Path | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Features of all `images` (files and folders, or one of them) as .npz files in the folder `out`.

    Files are named as the images are relative to `root`, the folder that holds them all if none is given.
    """
    places = [images] if isinstance(images, str | os.PathLike) else list(images)
    extractor.check_settings()
    workers = checked_jobs(jobs)
    found = find_images(places)
    if not found.images:
        reasons = "".join(f"; {sentence}" for sentence in found.unreadable)
        raise InputError(f"there are no images in {', '.join(map(str, places)) or 'nothing'}{reasons}")
    folder = _made(Path(out))
    targets = _targets(found.images, common_folder(places) if root is None else root, folder)
    summary = Summary(images=len(targets), unreadable=found.unreadable)
    start, report = time.monotonic(), progress or silent
    report("features", 0, len(targets))
    workers = min(workers, len(targets))
    for done, (target, outcome) in enumerate(spread(ExtractToFile(extractor), targets, jobs=workers), 1):
        _count(summary, target, outcome)
        report("features", done, len(targets))
    summary.seconds = time.monotonic() - start
    return summary


def content_hash(path: Path) -> str:
    """Of the file's bytes: what the image is, wherever it lies and whatever it is called."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def _targets(images: Sequence[Path], root: Path, folder: Path) -> list[Target]:
    names = [Path(os.path.relpath(os.path.abspath(image), root)) for image in images]
    return [Target(image, folder / f"{name}.npz") for image, name in zip(images, names, strict=True)]


def _count(summary: Summary, target: Target, outcome: Extracted | Exception) -> None:
    if isinstance(outcome, Extracted):
        summary.features += outcome.features
        summary.up_to_date += not outcome.fresh
    elif isinstance(outcome, FaembError):
        text = str(outcome)
        summary.failed.append(text if str(target.image) in text else f"{target.image}: {text}")
    else:
        reason = f"{type(outcome).__name__}: {outcome}".splitlines()[0]
        summary.failed.append(f"{target.image}: an unexpected fault, please report it ({reason})")


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder {folder} cannot be made: {error.strerror}") from error
    return folder
