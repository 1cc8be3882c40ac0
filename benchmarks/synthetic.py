"""A collection of synthetic image vectors, large enough to time search."""

from pathlib import Path

import numpy as np

from faemb import VLAD, Encoder
from faemb.collection import Collection
from faemb.collection.catalogue import Catalogue
from faemb.collection.layout import Layout
from faemb.collection.locking import only_writer
from faemb.collection.model import Model
from faemb.collection.writing import Writer
from faemb.features import HessianAffine
from faemb.normalise import unit_length

VECTORS, QUERIES, DIMENSION = 100_000, 64, 1024


def synthetic_vectors(count: int, seed: int = 0) -> np.ndarray:
    """Unit vectors in clusters, like those of photographs of the same objects."""
    rng, centres = np.random.default_rng(seed), np.random.default_rng(99).standard_normal((2000, DIMENSION), np.float32)
    return unit_length(
        centres[rng.integers(len(centres), size=count)] + rng.standard_normal((count, DIMENSION), np.float32)
    )


def synthetic_model(dimension: int = DIMENSION) -> Model:
    """A model that gives vectors of that length."""
    anchors = np.random.default_rng(0).standard_normal((dimension // 128, 128), np.float32)
    encoder = Encoder(VLAD(len(anchors)))
    encoder.embedding_ = VLAD(len(anchors)).with_anchors(anchors)
    model = Model(HessianAffine(), encoder)
    model.encoder_ = encoder
    return model


def synthetic_collection(folder: Path, vectors: np.ndarray) -> None:
    model = synthetic_model()
    Collection.create(folder, model).close()
    layout = Layout(folder)
    catalogue = Catalogue(layout.catalogue)
    blank: dict[str, str | int] = {"hash": "", "bytes": 0, "changed": 0, "width": 1, "height": 1}
    with only_writer(layout):
        writer = Writer(layout, catalogue)
        for start in range(0, len(vectors), 4096):
            part = vectors[start : start + 4096]
            names = [f"{start + k}.jpg" for k in range(len(part))]
            with catalogue.change():
                for name in names:
                    catalogue.put({"path": name, "features": 1, **blank})
            entries = [catalogue.entry(name) for name in names]
            writer.place([entry for entry in entries if entry is not None], part, model)
    catalogue.close()
