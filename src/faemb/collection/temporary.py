"""Fit a model or encode images through a temporary collection."""

from collections.abc import Iterator
from contextlib import contextmanager

from faemb.collection.collection import Collection
from faemb.collection.export import require_export
from faemb.collection.model import Model
from faemb.collection.sources import Images
from faemb.collection.writing import Report
from faemb.runtime import Progress
from faemb.runtime.parallel import Jobs
from faemb.runtime.scratch import scratch_folder
from faemb.runtime.storage import AnyPath


def fit_model(
    images: Images, model: Model, *, jobs: Jobs = None, progress: Progress | None = None
) -> tuple[Model, Report]:
    """The model, fitted on these images, and a report on the images."""
    with _temporary(model, keep_features=True) as collection:
        report = collection.gather_and_learn(images, jobs=jobs, progress=progress)
        return collection.model, report


def encode_images(
    images: Images,
    model: Model,
    out: AnyPath,
    *,
    overwrite: bool = False,
    jobs: Jobs = None,
    progress: Progress | None = None,
) -> Report:
    """One vector per image and the images' paths in an .npz file; an image without local features has none.

    An existing file that was not written by this function is replaced only with `overwrite`.
    """
    require_export(out, "npz", overwrite=overwrite)  # before the images are read
    with _temporary(model, keep_features=False) as collection:
        report = collection.add(images, jobs=jobs, progress=progress)
        collection.export(out, "npz", overwrite=overwrite)
        return report


@contextmanager
def _temporary(model: Model, *, keep_features: bool) -> Iterator[Collection]:
    with (
        scratch_folder() as folder,
        Collection.create(
            folder / "collection", model, keep_features=keep_features, device=model.encoder.device
        ) as collection,
    ):
        collection.make_thumbnails = False
        yield collection
