"""From local descriptors to image vectors: the stages in their order, learned once, then applied to any image.

    descriptors -> projection -> embedding -> whitening -> pooling -> finishing -> rotation -> first components

The two published orders of the last steps [DC17, Sec. 5.2] and the group's released code:

    paper      pool, power law, unit length, rotation (whitening), unit length
    released   pool, unit length, rotation, drop leading components, power law, unit length
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from faemb import persistence
from faemb.arrays import Array, float64, like, namespace, on_device, to_numpy
from faemb.component import Component
from faemb.embedding import Embedding
from faemb.errors import FormatError, InputError
from faemb.normalise import power_law, unit_length
from faemb.pooling import POOLINGS, TOLERANCE, Gram, weights
from faemb.projection import Projection
from faemb.rotation import Rotation
from faemb.runtime import Progress, silent
from faemb.runtime.threads import cores, in_threads
from faemb.sets import Batch, DescriptorSets, SetsLike, as_sets, batches
from faemb.settings import require_choice, require_kind, require_number, require_whole
from faemb.whitening import Moments, Spectrum, Whitening

BATCH = 64
ORDERS = ("paper", "released")
PARTS = {"embedding": Embedding, "projection": Projection, "whitening": Whitening, "rotation": Rotation}
_DENSE_ELEMENTS = 1 << 25


class Encoded(NamedTuple):
    vectors: Float[np.ndarray, "B D"]
    weights: list[Float[np.ndarray, " n"]]
    """Per image the weight of each of its descriptors, in their order: who speaks how loudly in the vector."""
    ridges: Float[np.ndarray, " B"]
    """Per image what had to be added to the equation of democracy: 0 where it holds as printed."""


class Encoder(Component):
    """The whole pipeline as one estimator.

    embedding:     a method, such as FastFAemb(16)
    projection:    what is done to descriptors first; None leaves them as they are
    whitening:     None for plain pooling of the embedded descriptors
    pooling:       "democratic", "sinkhorn", "sum" or "gmp"
    tolerance:     how closely democratic pooling meets its equation; 0.1 is as good for search, and three times as fast
    power:         exponent of the power law; 1 for none
    rotation:      None for no rotation normalisation
    order:         "paper" or "released", see above
    discard_after: leading components dropped after aggregation and rotation (released: d(d+1))
    keep:          the final length, first components only; None for all
    sample:        at most so many descriptors are used to learn the projection and the anchors
    whitening_rows: at most so many embedded descriptors per dimension D are used to learn the whitening
    device:        "cpu", or "cuda" for the same lines on a GPU
    """

    transient = ("device",)

    def __init__(
        self,
        embedding: Embedding,
        *,
        projection: Projection | None = None,
        whitening: Whitening | None = None,
        pooling: str = "democratic",
        tolerance: float = TOLERANCE,
        power: float = 0.5,
        rotation: Rotation | None = None,
        order: str = "paper",
        discard_after: int = 0,
        keep: int | None = None,
        sample: int = 200_000,
        whitening_rows: float = 10.0,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.embedding, self.projection, self.whitening, self.rotation = (
            embedding,
            projection,
            whitening,
            rotation,
        )
        self.pooling, self.tolerance, self.power, self.order = pooling, tolerance, power, order
        self.discard_after, self.keep = discard_after, keep
        self.sample, self.whitening_rows, self.seed, self.device = sample, whitening_rows, seed, device

    @property
    def is_fitted(self) -> bool:
        return all(part.is_fitted for part in self.parts().values())

    @property
    def width(self) -> int:
        """The length of the descriptors that this encoder takes."""
        self.require_fitted()
        return (self.projection or self.embedding).descriptor_dimension

    @property
    def dimension(self) -> int:
        """The length of the image vectors that it gives."""
        self.require_fitted()
        pooled = self.whitening.dimension if self.whitening is not None else self.embedding.dimension
        length = pooled - self.discard_after
        return length if self.keep is None else min(self.keep, length)

    def fit(self, images: SetsLike, *, progress: Progress | None = None) -> "Encoder":
        """Learn every stage from the descriptors of unlabelled images. If it fails, what was learned before stays."""
        self._check_settings()
        before = [(part, dict(part.__dict__)) for part in self.parts().values()]
        try:
            self._fit(images, progress)
        except BaseException:
            for part, state in before:
                part.__dict__.clear()
                part.__dict__.update(state)
            raise
        return self

    def _fit(self, images: SetsLike, progress: Progress | None) -> None:
        sets = self._learning_sets(images)
        report = progress or silent
        spectrum = self._fit_embedding(sets, report)
        if self.whitening is not None and spectrum is not None:
            self.whitening.fit_spectrum(spectrum, discard=self.embedding.leading_components())
        if self.discard_after >= self._pooled_length():
            raise InputError(
                f"discard_after is {self.discard_after}, and the vectors have {self._pooled_length()} components; "
                "discard fewer"
            )
        if self.rotation is not None:
            shown = np.flatnonzero(sets.counts)  # an image without descriptors has no vector to learn from
            self.fit_rotation(self._pooled(sets.select(shown), report, "rotation").vectors)
        report("done", 1, 1)

    def fit_embedding(self, images: SetsLike, *, progress: Progress | None = None) -> Spectrum | None:
        """Learn the projection and the anchors alone, and what a whitening is made of, if there is to be one."""
        self._check_settings()
        return self._fit_embedding(self._learning_sets(images), progress or silent)

    def _learning_sets(self, images: SetsLike) -> DescriptorSets:
        sets = self._on_device(as_sets(images))
        if sets.flat.shape[0] == 0:
            raise InputError("the learning images hold no descriptors at all; give images with local features")
        return sets

    def _fit_embedding(self, sets: DescriptorSets, report: Progress) -> Spectrum | None:
        rows = sets.sample(self.sample, self.seed)
        if self.projection is not None:
            report("projection", 0, 1)
            self.projection.fit(rows)
            rows = self.projection.project(rows)
        report("anchors", 0, 1)
        self.embedding.fit(rows)
        if self.whitening is None:
            return None
        self.whitening.check_settings(self.embedding.dimension, self.embedding.leading_components())
        moments = self._moments(sets, report)
        report("whitening", 0, 1)
        return Spectrum.of(moments, centre=self.whitening.centre)

    def fit_rotation(self, pooled: Float[Array, "B D"]) -> "Encoder":
        """Learn the rotation alone, from what `pool` gave for the learning images."""
        if self.rotation is not None:
            self.rotation.fit(self._before_rotation(pooled))
        return self

    def encode(self, images: SetsLike, *, progress: Progress | None = None) -> Float[np.ndarray, "B D"]:
        """One unit-length vector per image, in NumPy; the zero vector for an image without descriptors."""
        return self.explain(images, progress=progress).vectors

    def explain(self, images: SetsLike, *, progress: Progress | None = None) -> Encoded:
        """The vectors, and the weight of every descriptor in them."""
        pooled = self._pooled_of(images, progress)
        return pooled._replace(vectors=self.finish(pooled.vectors))

    def pool(self, images: SetsLike, *, progress: Progress | None = None) -> Float[Array, "B D"]:
        """Aggregated vectors before they are normalised: the costly part of `encode`, which `finish` completes."""
        return self._pooled_of(images, progress).vectors

    def prepare(self, images: int) -> None:
        """Compute what makes the aggregation of so many images faster, for those who bring them in several calls."""
        if self.whitening is None:
            return
        if self.pooling in ("democratic", "gmp"):
            self.whitening.prepare_metric(images)
        elif self.pooling == "sinkhorn":
            self.whitening.prepare_triangle(images)

    def finish(self, pooled: Float[Array, "B D"]) -> Float[np.ndarray, "B k"]:
        """From aggregated vectors to image vectors: power law, rotation, first components, unit length."""
        return to_numpy(self._finish(pooled))

    def _pooled_of(self, images: SetsLike, progress: Progress | None) -> Encoded:
        sets = self._on_device(as_sets(images, columns=self.width))
        return self._pooled(sets, progress or silent, "encode")

    def save(self, path: Any) -> str:
        """Write settings and learned arrays to one file; returns the fingerprint."""
        return persistence.save(self, path)

    @classmethod
    def load(cls, path: Any, *, device: str = "cpu") -> "Encoder":
        """Read what `save` wrote, to work on the given device."""
        loaded = persistence.load(path)
        if not isinstance(loaded, Encoder):
            raise FormatError(f"{path} holds a {type(loaded).__name__}, not a whole encoder")
        return loaded.to(device)

    def to(self, device: str) -> "Encoder":
        self.device = device
        return super().to(device)

    @property
    def fingerprint(self) -> str:
        return persistence.fingerprint(self)

    def _check_settings(self) -> None:
        for name, kind in PARTS.items():
            require_kind(name, getattr(self, name), kind, optional=kind is not Embedding)
        require_choice("pooling", self.pooling, POOLINGS)
        require_choice("order", self.order, ORDERS)
        require_number("tolerance", self.tolerance, above=0, most=1)
        require_number("power", self.power, above=0, most=1)
        require_whole("discard_after", self.discard_after, 0)
        require_whole("sample", self.sample, 1)
        require_whole("seed", self.seed, 0)
        require_number("whitening_rows", self.whitening_rows, above=0)
        if self.keep is not None:
            require_whole("keep", self.keep, 1)
        if self.whitening is not None and getattr(self.embedding, "normalise_cells", False):
            raise InputError("normalise_cells works on vectors that are not whitened; set whitening=None")

    def _on_device(self, sets: DescriptorSets) -> DescriptorSets:
        return DescriptorSets(on_device(sets.flat, self.device), sets.offsets)

    def _projected(self, x: Array) -> Array:
        return x if self.projection is None else self.projection.project(x)

    def _moments(self, sets: DescriptorSets, report: Progress) -> Moments:
        """Statistics of embedded descriptors, in float64 from the projection on."""
        wanted = max(1, int(self.whitening_rows * self.embedding.dimension))
        rows = sets.sample(wanted, self.seed + 1)
        step = max(256, _DENSE_ELEMENTS // self.embedding.dimension)
        total: Moments | None = None
        for start in range(0, rows.shape[0], step):
            report("statistics", start, rows.shape[0])
            x = self._projected(float64(rows[start : start + step]))
            part = Moments.of(self.embedding.operator(x).dense())
            total = part if total is None else total + part
        assert total is not None  # noqa: S101  (there is at least one descriptor: fit has checked)
        return total

    def _pooled(self, sets: DescriptorSets, report: Progress, stage: str) -> Encoded:
        """Aggregated vectors, not yet normalised, and the weights."""
        self.prepare(len(sets))
        xp = namespace(sets.flat)
        vectors = xp.zeros((len(sets), self._pooled_length()), dtype=sets.flat.dtype, device=sets.flat.device)
        shares = [np.zeros(0, np.float32)] * len(sets)
        ridges = np.zeros(len(sets), np.float32)
        done = 0
        report(stage, done, len(sets))
        for images, pooled in self._pooled_batches(sets):
            vectors[like(images, vectors, dtype=xp.int64)] = pooled.vectors
            for image, row in zip(images, pooled.weights, strict=True):
                shares[image] = row[: sets.counts[image]].astype(np.float32)
            ridges[images] = pooled.ridges
            done += len(images)
            report(stage, done, len(sets))
        return Encoded(vectors if self.whitening else self.embedding.after_pooling(vectors), shares, ridges)

    def _pooled_batches(self, sets: DescriptorSets) -> Iterator[tuple[np.ndarray, Encoded]]:
        """Indices of images, and what was pooled of them: several batches at once on the cores of a CPU."""
        threads = cores() if isinstance(sets.flat, np.ndarray) else 1
        size = 1 if self.pooling == "sinkhorn" else min(BATCH, -(-len(sets) // threads))
        return in_threads(self._pool, batches(sets, size), threads)

    def _pool(self, batch: Batch) -> tuple[np.ndarray, Encoded]:
        x = self._projected(batch.x)
        gram = Gram(self.embedding.operator(x, batch.real), batch.real, self.whitening)
        loudness, ridge = weights(gram, self.pooling, x, tolerance=self.tolerance)
        return batch.images, Encoded(gram.vector(loudness), list(to_numpy(loudness)), to_numpy(ridge))

    def _pooled_length(self) -> int:
        return self.whitening.dimension if self.whitening is not None else self.embedding.dimension

    def _before_rotation(self, pooled: Float[Array, "B D"]) -> Float[Array, "B D"]:
        return unit_length(power_law(pooled, self.power) if self.order == "paper" else pooled)

    def _finish(self, pooled: Float[Array, "B D"]) -> Float[Array, "B k"]:
        vectors = self._before_rotation(pooled)
        if self.rotation is not None:
            vectors = self._keep_zeros(vectors, self.rotation.transform(vectors))
        vectors = vectors[:, self.discard_after :]
        if self.order == "released":
            vectors = power_law(vectors, self.power)
        return unit_length(vectors[:, : self.keep])

    def _keep_zeros(self, before: Array, after: Array) -> Array:
        """A rotation that centres would give an empty image a direction; it has none."""
        xp = namespace(before)
        return xp.where(xp.any(before != 0, axis=1, keepdims=True), after, xp.zeros_like(after))
