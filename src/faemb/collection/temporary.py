"""Models and vectors without a collection to keep: one is made in a temporary folder, used, and thrown away."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faemb.collection.collection import Collection
from faemb.collection.model import Model
from faemb.collection.writing import Report
from faemb.errors import InputError
from faemb.runtime import Progress


def fit_model(
    images: Any, model: Model, *, jobs: int | None = None, progress: Progress | None = None
) -> tuple[Model, Report]:
    """The model, learned from these images, and what became of them."""
    with _temporary(model, keep_features=True) as collection:
        report = collection.gather_and_learn(images, jobs=jobs, progress=progress)
        return collection.model, report


def encode_images(
    images: Any, model: Model, out: Any, *, jobs: int | None = None, progress: Progress | None = None
) -> Report:
    """One vector per image and the images' paths in an .npz file; an image without local features has none."""
    require_place(out)
    with _temporary(model, keep_features=False) as collection:
        report = collection.add(images, jobs=jobs, progress=progress)
        collection.export(out, "npz")
        return report


def require_place(out: Any) -> None:
    """Said before hours of work rather than after them."""
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
