"""Small collections: a model that learns quickly, what a collection holds, and work that stays in this process."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faemb import Encoder, FastFAemb, Projection, Whitening
from faemb.benchmark import distractors
from faemb.benchmark import features as benchmark_features
from faemb.collection import Collection, Hit, Model, Report, gathering, queries
from faemb.features import HessianAffine, Image, LocalFeatures
from pictures import picture, pixels
from processes import one_after_the_other

NAMES = ["a.png", "b.png", "c.jpg", "trip/d.png", "trip/e.png"]
"""Images of the collection that most tests use."""


def new_tiny_model(max_features: int = 40) -> Model:
    encoder = Encoder(
        FastFAemb(2, unit_residuals=True),
        projection=Projection(8, unit_after=True),
        whitening=Whitening(),
        pooling="sum",
    )
    return Model(HessianAffine(max_features=max_features), encoder)


@cache
def tiny_model() -> Model:
    """A fitted model; tests must not change it."""
    model = new_tiny_model()
    return model.fit([model.extractor.extract(pixels(seed)).descriptors for seed in range(1000, 1008)])


def make_features(path: Path, seed: int, *, count: int = 40, dimension: int = 16) -> Path:
    """A file of local features, as another tool may have extracted them."""
    rng = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, keypoints=rng.uniform(0, 50, (count, 2)), descriptors=rng.random((count, dimension)))
    return path


def vectors_of(collection: Collection) -> dict[str, np.ndarray]:
    """The vector of each image that has one, by stored name."""
    slots = {entry.slot: entry.path for entry in collection.entries() if entry.slot is not None}
    view = collection.view()
    vectors = np.array(view.vectors[view.slots])  # at once: a server takes a fifth of a second for each call
    return {slots[int(slot)]: vector for slot, vector in zip(view.slots, vectors, strict=True)}


def damage_vector(collection: Collection, image: Path, number: float = 0.01) -> None:
    """One number of the stored vector."""
    view, entry = collection.view(), collection.entry(image)
    assert entry is not None
    assert entry.slot is not None
    with collection.layout.vectors(view.generation).open("r+b") as file:
        file.seek(view.stored[entry.slot].nbytes * entry.slot)
        file.write(np.float32(number).tobytes())


def names_in(collection: Collection) -> set[str]:
    return {entry.path for entry in collection.entries()}


def assert_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    """The same images have the same vectors: batches of another size may round otherwise."""
    assert one.keys() == other.keys()
    for name, vector in one.items():
        np.testing.assert_allclose(vector, other[name], atol=1e-4, err_msg=name)


def assert_searchable(folder: Path, image: Path) -> None:
    """An image of the collection finds itself."""
    with Collection.open(folder) as collection:
        (answer,) = collection.search(image, top=3)
    assert answer.hits[0].path == image
    assert answer.hits[0].similarity == 1


def counts(report: Report) -> tuple[int, int, int, int]:
    return report.added, report.changed, report.unchanged, report.removed


def names_below(found: Collection | list[Hit], root: Path) -> list[str]:
    """Paths of the images of a collection, or of hits, relative to a folder."""
    if isinstance(found, Collection):
        return sorted(os.path.relpath(found.layout.path_of(entry.path), root) for entry in found.entries())
    return [os.path.relpath(hit.path, root) for hit in found]


def assert_finds(hits: list[Hit], path: Path) -> None:
    """This image alone."""
    assert [(hit.path, hit.similarity) for hit in hits] == [(path, 1)]


def exported_vectors(collection: Collection, tmp_path: Path) -> dict[str, np.ndarray]:
    """Name to vector."""
    collection.export(tmp_path / "vectors.npz", "npz")
    with np.load(tmp_path / "vectors.npz") as held:
        return dict(zip(map(os.path.basename, held["paths"]), held["vectors"], strict=True))


def touch(path: Path) -> None:
    """Change the modification time only."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 5_000_000_000))


# Without workers

_REMEMBERED: dict[Any, LocalFeatures] = {}
_DESCRIBE = HessianAffine.describe


def remembered(extractor: HessianAffine, image: Image) -> LocalFeatures:
    """Features of pictures that many tests use are found once."""
    key = *extractor.settings().values(), image.pixels.shape, image.pixels.tobytes()
    if key not in _REMEMBERED:
        _REMEMBERED[key] = _DESCRIBE(extractor, image)
    return _REMEMBERED[key]


def work_here(patch: pytest.MonkeyPatch) -> None:
    """Nothing is spread over processes, and no picture is described twice."""
    patch.setattr(HessianAffine, "describe", remembered)
    for module in (gathering, queries, benchmark_features, distractors):
        patch.setattr(module, "spread", one_after_the_other)


@contextmanager
def working_here() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        work_here(patch)
        yield


def make_collection(folder: Path, names: Iterable[str]) -> Path:
    """Images `photos` and their collection `photos.faemb`; with relative names, so that both can be copied."""
    for seed, name in enumerate(names):
        picture(folder / "photos" / name, seed)
    with working_here(), Collection.create(folder / "photos.faemb", tiny_model()) as made:
        made.add(folder / "photos")
    return folder
