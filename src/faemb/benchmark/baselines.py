"""SPoC and R-MAC on a benchmark: one vector per image, pooled from the feature maps that other rows embed.

A map is rebuilt from the stored local features, so that the network processes each image once, and the box of a query
selects cells of the map as it selects features.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np
from jaxtyping import Float

from faemb.benchmark.rows import Asked
from faemb.benchmark.run import Row
from faemb.benchmark.scoring import measured, similarities
from faemb.benchmark.workbench import Workbench
from faemb.features import LocalFeatures
from faemb.features.cnn import rmac, spoc
from faemb.normalise import unit_length
from faemb.rotation import Rotation

POOLINGS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {"SPoC": spoc, "R-MAC": rmac}
Vectors = Float[np.ndarray, "N d"]


@dataclass(frozen=True)
class Baseline(Asked):
    """One of `POOLINGS`, PCA-whitened to `length` components learned from the learning images."""

    pooling: str
    length: int
    published: Mapping[str, float] = field(default_factory=dict)

    def key(self, bench: Workbench) -> str:
        return bench.key_of(None, *self._named(), self.pooling, str(self.length))

    def answer(self, bench: Workbench) -> Row:
        start = time.monotonic()
        learning = np.concatenate([self._vectors(stored.all()) for stored in bench.learning_sets])
        boxed = [query.box is not None for query in bench.dataset.queries]
        images, queries = self._vectors(bench.images.all()), self._vectors(bench.query_features, boxed)
        middle = time.monotonic()
        axes = Rotation("whiten", max_axes=self.length).fit(learning[np.any(learning != 0, axis=1)])
        length = min(self.length, len(axes.axes_))
        scores = similarities(_shortened(axes, queries, length), _shortened(axes, images, length))
        return Row(
            settings={**self.settings, "D": length},
            measures=measured(bench.dataset, scores),
            published=self.published,
            seconds={"pool": middle - start, "finish and search": time.monotonic() - middle},
            encoder=f"{self.pooling}, {axes!r}",
        )

    def _vectors(self, images: Iterable[LocalFeatures], boxed: Iterable[bool] = repeat(False)) -> Vectors:
        pool = POOLINGS[self.pooling]
        return np.stack([pool(map_of(features, part=part)) for features, part in zip(images, boxed, strict=False)])


def map_of(features: LocalFeatures, *, part: bool = False) -> Float[np.ndarray, "d h w"]:
    """The map as it left the network at its finest scale; or the part of it that these features fill.

    Scores are the lengths that vectors had; a cell that is missing excited nothing.
    """
    if len(features) == 0:
        return np.zeros((features.descriptors.shape[1], 1, 1), np.float32)
    sides = 2 * features.frames[:, [2, 5]].astype(np.float64)
    side = sides.min(axis=0)
    finest = features.select(np.all(sides <= 1.001 * side, axis=1))
    size = np.rint(np.array(features.image_size) / side).astype(int)
    columns, rows = np.rint((finest.centres + 0.5) / side - 0.5).astype(int).T
    lengths = np.linalg.norm(finest.descriptors, axis=1)
    cells = np.zeros((finest.descriptors.shape[1], size[1], size[0]), np.float32)
    cells[:, rows, columns] = (finest.descriptors * (finest.scores / np.where(lengths > 0, lengths, 1))[:, None]).T
    if not part:
        return cells
    return cells[:, rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]


def _shortened(axes: Rotation, vectors: Vectors, length: int) -> Float[np.ndarray, "N k"]:
    """To unit length; zero vectors stay zero, and no mean is subtracted from them."""
    return np.where(np.any(vectors != 0, axis=1, keepdims=True), unit_length(axes.leading(vectors, length)), 0)
