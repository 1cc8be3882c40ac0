"""SPoC and R-MAC on a benchmark: one vector per image, pooled from the feature maps whose cells other rows embed.

A map is rebuilt from the stored local features, so that the network processes each image only once. The box of a query
selects cells of the map, in the same way as it selects features.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np
from jaxtyping import Float

from faemb.benchmark.rows import RequestedRow
from faemb.benchmark.run import Row
from faemb.benchmark.scoring import measured, similarities
from faemb.benchmark.workbench import Workbench
from faemb.errors import InputError
from faemb.features import LocalFeatures
from faemb.features.cnn import rmac, spoc
from faemb.normalise import unit_length
from faemb.rotation import Rotation

MAP_POOLINGS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {"SPoC": spoc, "R-MAC": rmac}
Vectors = Float[np.ndarray, "N d"]


@dataclass(frozen=True)
class Baseline(RequestedRow):
    """One of `MAP_POOLINGS`, PCA-whitened to `length` components learned from the learning images."""

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
        pool = MAP_POOLINGS[self.pooling]
        return np.stack([pool(map_of(features, part=part)) for features, part in zip(images, boxed, strict=False)])


def map_of(features: LocalFeatures, *, part: bool = False) -> Float[np.ndarray, "d h w"]:
    """The largest feature map of the network; with `part`, only the rows and columns that these features span.

    Vectors get back their original norms, which are the scores; cells without a feature are zero.
    """
    if features.grids is None:
        raise InputError("these features are stored without the grid of their map; delete them and extract them again")
    sizes, cells = features.grids.sizes, features.grids.cells
    largest = int(np.argmax(sizes.prod(axis=1)))
    chosen = cells[:, 0] == largest
    descriptors, scores, (_, rows, columns) = features.descriptors[chosen], features.scores[chosen], cells[chosen].T
    lengths = np.linalg.norm(descriptors, axis=1)
    values = np.zeros((descriptors.shape[1], *sizes[largest]), np.float32)
    values[:, rows, columns] = (descriptors * (scores / np.where(lengths > 0, lengths, 1))[:, None]).T
    if not part:
        return values
    if len(rows) == 0:
        return values[:, :1, :1]
    return values[:, rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]


def _shortened(axes: Rotation, vectors: Vectors, length: int) -> Float[np.ndarray, "N k"]:
    """Leading components scaled to unit length; zero vectors stay zero."""
    return np.where(np.any(vectors != 0, axis=1, keepdims=True), unit_length(axes.leading(vectors, length)), 0)
