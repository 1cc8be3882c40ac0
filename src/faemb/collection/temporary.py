"""Models and vectors without a collection of one's own: by means of one in a temporary folder."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faemb.collection.collection import Collection
from faemb.collection.model import Model
from faemb.collection.sources import Images, StrPath
from faemb.collection.writing import Report
from faemb.errors import InputError
from faemb.runtime import Progress


def fit_model(
    images: Images, model: Model, *, jobs: int | None = None, progress: Progress | None = None
) -> tuple[Model, Report]:
    """The model, fitted on these images, and a report on the images."""
    with _temporary(model, keep_features=True) as collection:
        report = collection.gather_and_learn(images, jobs=jobs, progress=progress)
        return collection.model, report


def encode_images(
    images: Images, model: Model, out: StrPath, *, jobs: int | None = None, progress: Progress | None = None
) -> Report:
    """One vector per image and the images' paths in an .npz file; an image without local features has none."""
    require_place(out)
    with _temporary(model, keep_features=False) as collection:
        report = collection.add(images, jobs=jobs, progress=progress)
        collection.export(out, "npz")
        return report


def require_place(out: StrPath) -> None:
    """An error if a file cannot be written there: before hours of work and not after them."""
    folder = os.path.dirname(os.path.abspath(out))
    if not os.path.isdir(folder):
        raise InputError(f"cannot write {out}: the folder {folder} does not exist; make it first")
    if os.path.isdir(out):
        raise InputError(f"cannot write {out}: it is a folder; give the name of a file")


@contextmanager
def _temporary(model: Model, *, keep_features: bool) -> Iterator[Collection]:
    with (
        tempfile.TemporaryDirectory(prefix="faemb-") as folder,
        Collection.create(
            Path(folder) / "collection", model, keep_features=keep_features, device=model.encoder.device
        ) as collection,
    ):
        yield collection
