"""Extract the features of many images to a folder: on all cores, resumable, continuing after damaged images.

Each image gets one .npz file, named after the image's path relative to the common folder of all images. The file holds
the hash of the image file and the fingerprint of the extractor; a later run skips the image while both are unchanged.
Files are written atomically, so a run may be killed at any moment and started again.
"""

import hashlib
import os
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple

from faemb.errors import FaembError, Fault, InputError, ReadError, about
from faemb.features.extractor import Extractor
from faemb.features.files.npz import is_our_npz, read_npz_header, write_npz
from faemb.features.folders import by_suffix, common_folder, find_some
from faemb.runtime import Progress, silent
from faemb.runtime.limits import require_input_file
from faemb.runtime.parallel import Jobs, Machines, require_jobs, spread
from faemb.runtime.paths_and_urls import Url, fetched
from faemb.runtime.storage import AnyPath, make_folder, require_outside_collections


class Target(NamedTuple):
    image: Path
    output: Path
    proof: Path | None = None
    """A file in the output folder, by which a worker on another machine checks that it writes to the same folder."""


class Extracted(NamedTuple):
    features: int
    fresh: bool
    """False if the file existed and is up to date."""


@dataclass
class ExtractionSummary:
    images: int = 0
    up_to_date: int = 0
    features: int = 0
    """Number of features extracted in this run."""
    failed: list[Fault] = field(default_factory=list)
    """One message per image that could not be used."""
    unreadable: list[Fault] = field(default_factory=list)
    """One message per folder that could not be read; its images are not counted."""
    passed_over: dict[str, int] = field(default_factory=dict)
    """Number of files in the folders that are not images, by suffix."""
    seconds: float = 0.0


@dataclass(frozen=True)
class ExtractToFile:
    """The task of the worker processes."""

    extractor: Extractor

    def __call__(self, target: Target) -> Extracted:
        image = fetched(target.image)
        image_hash = content_hash(image)
        if self._is_up_to_date(target.output, image_hash):
            return Extracted(0, fresh=False)
        if zipfile.is_zipfile(target.output) and not is_our_npz(target.output):
            raise InputError(f"{target.output} exists and was not written by faemb; give another folder with --out")
        features = self.extractor.extract(image)
        make_folder(target.output.parent)
        write_npz(target.output, features, image_hash=image_hash)
        return Extracted(len(features), fresh=True)

    def _is_up_to_date(self, output: Path, image_hash: str) -> bool:
        if not os.path.exists(output):
            return False
        try:
            header = read_npz_header(output)
        except FaembError:
            return False  # damaged: it is replaced
        return header.image_hash == image_hash and header.fingerprint == self.extractor.fingerprint


def extract_folder(
    images: AnyPath | Iterable[AnyPath],
    out: AnyPath,
    extractor: Extractor,
    *,
    exclude: Sequence[str] = (),
    root: Path | None = None,
    jobs: Jobs = None,
    progress: Progress | None = None,
) -> ExtractionSummary:
    """Write the features of `images` (a file or folder, or several) as .npz files into the folder `out`.

    Their names are the images' paths relative to `root`, by default the common folder of all images.
    `exclude` are shell patterns of names, and of paths in the folders, that are left out.
    """
    places = [images] if isinstance(images, str | os.PathLike) else list(images)
    extractor.check_settings()
    require_jobs(jobs)
    found = find_some(places, exclude)
    folder = Path(out)
    require_outside_collections(folder)
    make_folder(folder)
    base = common_folder(places) if root is None else root
    targets = [Target(image, folder / f"{_inside(image, base)}.npz") for image in found.images]
    summary = ExtractionSummary(
        images=len(targets), unreadable=list(found.unreadable), passed_over=by_suffix(found.others)
    )
    start, progress = time.monotonic(), progress or silent
    progress("features", 0, len(targets))
    with _proof(folder, jobs) as proof:
        wanted = [target._replace(proof=proof) for target in targets]
        for done, (target, outcome) in enumerate(spread(ExtractToFile(extractor), wanted, jobs=jobs), 1):
            if isinstance(outcome, Extracted):
                summary.features += outcome.features
                summary.up_to_date += not outcome.fresh
            else:
                summary.failed.append(about(target.image, outcome))
            progress("features", done, len(targets))
    summary.seconds = time.monotonic() - start
    return summary


def _inside(image: Path, base: Path) -> AnyPath:
    return image.relative_to(base) if isinstance(image, Url) else os.path.relpath(image, base)


@contextmanager
def _proof(folder: Path, jobs: Jobs) -> Iterator[Path | None]:
    """A temporary file by which workers on other machines check that they share the folder; None for local workers."""
    if not isinstance(jobs, Machines):
        yield None
        return
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".", suffix=".tmp") as file:
        yield Path(file.name)


def content_hash(path: Path) -> str:
    """Hash of the file's bytes, which does not depend on its name and folder."""
    path = fetched(path)
    require_input_file(path, "an image or a file of features")
    try:
        with path.open("rb") as file:
            return hash_of(file)
    except OSError as error:
        raise ReadError(f"{path} cannot be read: {error.strerror}") from error


def hash_of(file: BufferedIOBase) -> str:
    """Hash of all bytes of an open file."""
    return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
