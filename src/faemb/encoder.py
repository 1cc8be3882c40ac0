"""From local descriptors to image vectors: a pipeline of stages, learned once, then applied to any image.

    descriptors -> projection -> embedding -> whitening -> pooling -> finishing -> rotation -> first components

The finishing steps have two published orders, the paper's [DC17, Sec. 5.2] and that of its authors' released code:

    paper      pool, power law, unit length, rotation (whitening), unit length
    released   pool, unit length, rotation, drop leading components, power law, unit length

Constructor arguments are settings and are never changed: `fit` learns clones of the given parts, `projection_`,
`embedding_`, `whitening_` and `rotation_`.
"""

import operator
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import deepcopy
from functools import partial, reduce
from typing import NamedTuple
from weakref import finalize

import numpy as np
from jaxtyping import Float

from faemb import persistence
from faemb.arrays import Array, float64, has_cuda, like, namespace, on_device, to_numpy
from faemb.component import Component
from faemb.embedding import Embedding
from faemb.errors import FormatError, InputError, reason
from faemb.normalise import power_law, unit_length
from faemb.pooling import POOLINGS, TOLERANCE, Gram, weights
from faemb.projection import Projection
from faemb.rotation import Rotation
from faemb.runtime import Progress, silent
from faemb.runtime.limits import NO_LIMITS, require_memory
from faemb.runtime.parallel import Jobs, Machines, Numbered, in_order
from faemb.runtime.threads import cores, in_threads, reported
from faemb.sets import Batch, DescriptorSets, SetsLike, as_sets, batches
from faemb.settings import require_choice, require_kind, require_number, require_whole
from faemb.whitening import Moments, Spectrum, Whitening

BATCH = 64
FINISHING = ("paper", "released")
_PARTS = {"embedding": Embedding, "projection": Projection, "whitening": Whitening, "rotation": Rotation}
_MOST_ROWS = 1e9
_EXTREME = "descriptors or learned arrays have values that are too large: scale the descriptors, or fit again"
_DENSE_ELEMENTS, _CACHED_ELEMENTS = 1 << 25, 1 << 20
_ROWS_PER_DIMENSION, _LEAST_ROWS = 2, 2048
"""Number of descriptors per task of a cluster that computes statistics: per dimension, and at least. It is large, since
each task returns D x D numbers."""
_SENT_DIMENSION = 8192
"""Largest dimension of embedded descriptors whose statistics are computed on a cluster: 0.5 GB per task."""
IMAGES_PER_TASK = 32
"""Number of images per task of a cluster: 3 MB of features, and seconds of work."""
IMAGES_PER_GPU = 10_000
"""Number of images that a GPU of a cluster is assumed to encode when W'W is precomputed."""


class Encoded(NamedTuple):
    """Vectors of images, and the weights with which their descriptors were pooled."""

    vectors: Float[np.ndarray, "B D"]
    weights: list[Float[np.ndarray, " n"]]
    """Weight of each descriptor of each image, in input order."""
    ridges: Float[np.ndarray, " B"]
    """Ridge added to the diagonal of each image's Gram matrix; 0 where none was needed."""

    def __repr__(self) -> str:
        images, dimension = self.vectors.shape
        return (
            f"Encoded({images} vectors of {dimension} dimensions, weights of {sum(map(len, self.weights))} descriptors)"
        )


class Encoder(Component):
    """The whole pipeline as one estimator. Learned: `projection_`, `embedding_`, `whitening_`, `rotation_`.

    embedding:     a method, such as FastFAemb(16)
    projection:    applied to descriptors first; None for no projection
    whitening:     None for plain pooling of the embedded descriptors
    pooling:       "democratic", "sinkhorn", "sum" or "gmp"
    tolerance:     largest residual of democratic pooling; 0.1 is as good for search, and three times as fast
    power:         exponent of the power law; 1 for none
    rotation:      None for no rotation normalisation
    finishing:     order of the steps after pooling, "paper" or "released"; see above
    discard_after: number of leading components dropped after pooling and rotation (released: d(d+1))
    keep:          number of leading components kept in the final vector; None for all
    sample:        maximum number of descriptors used to learn the projection and the anchors
    whitening_rows: maximum number of embedded descriptors per dimension D used to learn the whitening
    seed:          random seed
    device:        "cpu", or a PyTorch device such as "cuda"
    """

    learned = ("projection_", "embedding_", "whitening_", "rotation_")
    transient = ("device",)
    projection_: Projection | None = None
    embedding_: Embedding
    whitening_: Whitening | None = None
    rotation_: Rotation | None = None

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
        finishing: str = "paper",
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
        self.pooling, self.tolerance, self.power, self.finishing = pooling, tolerance, power, finishing
        self.discard_after, self.keep = discard_after, keep
        self.sample, self.whitening_rows, self.seed, self.device = sample, whitening_rows, seed, device

    @property
    def descriptor_dimension(self) -> int:
        """Dimension of the input descriptors."""
        self.require_fitted()
        return (self.projection_ or self.embedding_).descriptor_dimension

    @property
    def dimension(self) -> int:
        """Dimension of the image vectors."""
        self.require_fitted()
        return self._kept(self._pooled_length())

    @property
    def largest_dimension(self) -> int | None:
        """Dimension of the image vectors by the settings alone; directions without variance make it smaller.

        None without a projection to a given dimension, since the length of the descriptors decides it then.
        """
        if self.projection is None or self.projection.dimension is None:
            return None
        d = self.projection.dimension
        length = self.embedding.dimension_for(d)
        if self.whitening is not None:
            length = self.whitening.dimension_for(length, self.embedding.leading_components(d))
        return self._kept(length)

    def fit(
        self, images: SetsLike, y: object = None, *, progress: Progress | None = None, jobs: Jobs = None
    ) -> "Encoder":
        """Learn every stage from the descriptors of unlabelled images; if that fails, the encoder is not changed.

        `y` is ignored: scikit-learn's pipelines pass it. If `jobs` is a cluster, the cluster computes the statistics.
        """
        trial = self.clone()
        trial._fit(images, progress or silent, jobs)
        for name in self.learned:
            setattr(self, name, getattr(trial, name))
        return self

    def _fit(self, images: SetsLike, progress: Progress, jobs: Jobs) -> None:
        self.check_settings()
        sets = self._learning_sets(images)
        spectrum = self._fit_embedding(sets, progress, jobs)
        if spectrum is not None:
            self.fit_whitening(spectrum)
        del spectrum  # takes two to four times the memory of the whitening
        self._check_discarded()
        if self.rotation is not None:
            nonempty = np.flatnonzero(sets.counts)  # an image without descriptors has no vector to learn from
            self.fit_rotation(self._pooled(sets.select(nonempty), progress, "rotation").vectors)

    def fit_embedding(
        self, images: SetsLike, *, progress: Progress | None = None, jobs: Jobs = None
    ) -> Spectrum | None:
        """Learn only the projection and the anchors; returns the input of `fit_whitening`, None without a whitening."""
        self.check_settings()
        return self._fit_embedding(self._learning_sets(images), progress or silent, jobs)

    def _learning_sets(self, images: SetsLike) -> DescriptorSets:
        sets = self._on_device(as_sets(images))
        if sets.flat.shape[0] == 0:
            raise InputError("the learning images have no descriptors; give images with local features")
        return sets

    def _fit_embedding(self, sets: DescriptorSets, progress: Progress, jobs: Jobs) -> Spectrum | None:
        rows = sets.sample(self.sample, self.seed)
        if self.projection is not None:
            progress("projection", 0, 1)
            self.projection_ = self.projection.clone().fit(rows)
            rows = self.projection_.project(rows)
            progress("projection", 1, 1)
        self.embedding_ = self.embedding.clone().fit(rows, progress=progress)
        if self.whitening is None:
            return None
        self.whitening.check_with(self.embedding_.dimension, self._discarded())
        return self._spectrum(self._moments(sets, progress, jobs), self.whitening.centre, progress)

    def _spectrum(self, moments: Moments, centre: bool, progress: Progress) -> Spectrum:
        size = self.embedding_.dimension
        stage = f"whitening: eigenvalues of {size:,} x {size:,}"
        decompose = partial(Spectrum.of, moments, centre=centre, overwrite=True)
        return reported(decompose, stage, progress, interrupt=isinstance(moments.mean, np.ndarray))

    def fit_whitening(self, spectrum: Spectrum) -> "Encoder":
        """Learn only the whitening, from the result of `fit_embedding`."""
        if self.whitening is not None:
            self.whitening_ = self.whitening.clone().fit_spectrum(spectrum, discard=self._discarded())
        return self

    def fit_rotation(self, pooled: Float[Array, "B D"]) -> "Encoder":
        """Learn only the rotation, from the result of `pool` for the learning images."""
        if self.rotation is not None:
            self.rotation_ = self.rotation.clone().fit(self._before_rotation(pooled))
        return self

    def encode(self, images: SetsLike, *, progress: Progress | None = None) -> Float[np.ndarray, "B D"]:
        """One unit-length vector per image, in NumPy; the zero vector for an image without descriptors."""
        return self.explain(images, progress=progress).vectors

    def transform(self, images: SetsLike) -> Float[np.ndarray, "B D"]:
        """The same as `encode`, under the name that scikit-learn's pipelines use."""
        return self.encode(images)

    def explain(self, images: SetsLike, *, progress: Progress | None = None) -> Encoded:
        """The vectors, and the weight of every descriptor in them."""
        try:
            pooled = self._pooled_of(images, progress)
            _require_finite(pooled.vectors)
            vectors = self.finish(pooled.vectors)
        except np.linalg.LinAlgError as error:
            raise InputError(f"the vectors cannot be computed ({reason(error)}); {_EXTREME}") from error
        _require_finite(vectors)
        return pooled._replace(vectors=vectors)

    def terms(self, descriptors: Float[Array, "n d"]) -> tuple[Gram, Float[Array, "1 n"]]:
        """The embedded descriptors of one image, and their weights: the terms of its pooled vector."""
        sets = self._on_device(as_sets([descriptors], columns=self.descriptor_dimension))
        gram, shares, _ = self._weighted(next(batches(sets, 1)))
        return gram, shares

    def pool(self, images: SetsLike, *, progress: Progress | None = None) -> Float[Array, "B D"]:
        """Pooled vectors before normalisation: the expensive part of `encode`; `finish` does the rest."""
        return self._pooled_of(images, progress).vectors

    def pooler(self, jobs: Jobs = None) -> Callable[[SetsLike], Float[Array, "B D"]]:
        """A function that pools as `pool` does; if `jobs` is a cluster, it pools the images in portions.

        The cluster keeps the encoder for as long as the function is there.
        """
        if not isinstance(jobs, Machines):
            return self.pool
        gpu = jobs.have_gpus()
        sent = self if self.device == "cpu" else deepcopy(self).to("cpu")
        pool = jobs.pool(Numbered(partial(sent._pool_portion, gpu)), limits=NO_LIMITS, gpu=gpu)

        def pooled(images: SetsLike) -> Float[np.ndarray, "B D"]:
            return np.concatenate(list(in_order(pool, as_sets(images).portions(IMAGES_PER_TASK))))

        finalize(pooled, pool.close)
        return pooled

    def _pool_portion(self, gpu: bool, images: SetsLike) -> Float[np.ndarray, "B D"]:
        if gpu and self.device == "cpu" and has_cuda():
            self.to("cuda").prepare(IMAGES_PER_GPU)
        return to_numpy(self._pooled(self._on_device(as_sets(images)), silent, "encode").vectors)

    def prepare(self, images: int, *, progress: Progress | None = None) -> None:
        """Precompute matrices that speed up pooling of this number of images, over all calls of `encode`."""
        if self.whitening_ is None:
            return
        if self.pooling in ("democratic", "gmp"):
            self.whitening_.prepare_metric(images, progress or silent)
        elif self.pooling == "sinkhorn":
            self.whitening_.prepare_triangle(images, progress or silent)

    def finish(self, pooled: Float[Array, "B D"]) -> Float[np.ndarray, "B k"]:
        """Convert pooled vectors to image vectors: power law, rotation, first components, unit length."""
        return to_numpy(self._finish(pooled))

    def _pooled_of(self, images: SetsLike, progress: Progress | None) -> Encoded:
        sets = self._on_device(as_sets(images, columns=self.descriptor_dimension))
        return self._pooled(sets, progress or silent, "encode")

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> str:
        """Write settings and learned arrays to one file; returns the fingerprint.

        An existing file that is not a model is replaced only with `overwrite`.
        """
        return persistence.save(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: str = "cpu") -> "Encoder":
        """Read a file written by `save`; the encoder uses the given device."""
        loaded = persistence.load(path)
        if not isinstance(loaded, Encoder):
            kind = type(loaded).__name__
            cure = "; read it with faemb.Model.load" if kind == "Model" else ""
            raise FormatError(f"{path} holds a {kind}, not an Encoder{cure}")
        return loaded.to(device)

    def to(self, device: str) -> "Encoder":
        self.device = device
        return super().to(device)

    @property
    def fingerprint(self) -> str:
        return persistence.fingerprint(self)

    def check_settings(self) -> None:
        for name, kind in _PARTS.items():
            require_kind(name, getattr(self, name), kind, optional=kind is not Embedding)
        require_choice("pooling", self.pooling, POOLINGS)
        require_choice("finishing", self.finishing, FINISHING)
        require_number("tolerance", self.tolerance, above=0, most=1)
        require_number("power", self.power, above=0, most=1)
        require_whole("discard_after", self.discard_after, 0)
        require_whole("sample", self.sample, 1)
        require_whole("seed", self.seed, 0)
        require_number("whitening_rows", self.whitening_rows, above=0, most=_MOST_ROWS)
        if self.keep is not None:
            require_whole("keep", self.keep, 1)
        if self.whitening is not None and getattr(self.embedding, "normalise_cells", False):
            raise InputError("normalise_cells works on vectors that are not whitened; set whitening=None")

    def check_loaded(self) -> None:
        super().check_loaded()
        for name in self.learned:
            if getattr(self, name, None) is not None and getattr(self, name.removesuffix("_")) is None:
                raise InputError(f"{name} was learned, but {name.removesuffix('_')} is not among the settings")
        if self.is_fitted:
            self._check_lengths()

    def _check_lengths(self) -> None:
        """Raise an error unless the input dimension of each stage is the output dimension of the previous one."""
        if self.projection_ is not None:
            _require_length("projection_", self.projection_.axes_, self.embedding_.descriptor_dimension, axis=1)
        require_memory(8 * self.embedding_.dimension, "one embedded descriptor")
        if self.whitening_ is not None:
            _require_length("whitening_", self.whitening_.matrix_, self.embedding_.dimension, axis=1)
        if self.rotation_ is not None:
            _require_length("rotation_", self.rotation_.mean_, self._pooled_length(), axis=0)
        self._check_discarded()

    def _check_discarded(self) -> None:
        if self.discard_after >= self._pooled_length():
            raise InputError(
                f"discard_after is {self.discard_after}, and the vectors have {self._pooled_length()} components; "
                "discard fewer"
            )

    def _on_device(self, sets: DescriptorSets) -> DescriptorSets:
        return DescriptorSets(on_device(sets.flat, self.device), sets.offsets)

    def _projected(self, x: Array) -> Array:
        return x if self.projection_ is None else self.projection_.project(x)

    def _moments(self, sets: DescriptorSets, progress: Progress, jobs: Jobs) -> Moments:
        """Statistics of embedded descriptors, in float64 from the projection on."""
        wanted = max(1, int(self.whitening_rows * self.embedding_.dimension))
        rows = sets.sample(wanted, self.seed + 1)
        if isinstance(jobs, Machines) and isinstance(rows, np.ndarray) and self.embedding_.dimension <= _SENT_DIMENSION:
            return self._moments_by(jobs, rows, progress)
        return self.moments(rows, progress)

    def _moments_by(self, machines: Machines, rows: Float[np.ndarray, "m d"], progress: Progress) -> Moments:
        """The same on a cluster; the parts do not depend on the number of machines, and are added in order."""
        size = max(_LEAST_ROWS, _ROWS_PER_DIMENSION * self.embedding_.dimension)
        parts = [rows[start : start + size] for start in range(0, len(rows), size)]
        with closing(machines.pool(Numbered(self.moments), limits=NO_LIMITS)) as pool:
            return reduce(operator.add, in_order(pool, parts, partial(progress, "statistics")))

    def moments(self, rows: Float[Array, "m d"], progress: Progress = silent) -> Moments:
        """Statistics of these descriptors after embedding."""
        step = max(256, _DENSE_ELEMENTS // self.embedding_.dimension)

        def embedded() -> Iterator[Float[Array, "m D"]]:
            for start in range(0, rows.shape[0], step):
                progress("statistics", start, rows.shape[0])
                x = self._projected(float64(rows[start : start + step]))
                yield self._embedded(x, buffer) if isinstance(x, np.ndarray) else self.embedding_.operator(x).dense()
            progress("statistics", rows.shape[0], rows.shape[0])

        # One buffer for all parts: allocating memory for each would take longer than the embedding.
        held = min(step, rows.shape[0]) if isinstance(rows, np.ndarray) else 0
        buffer = np.empty((held, self.embedding_.dimension))
        return Moments.of_parts(embedded())

    def _embedded(self, x: Float[np.ndarray, "m d"], buffer: Float[np.ndarray, "most D"]) -> Float[np.ndarray, "m D"]:
        """Phi of descriptors, written to the buffer in parts that fit into the processor's cache."""
        step = max(1, _CACHED_ELEMENTS // self.embedding_.dimension)
        for start in range(0, len(x), step):
            stop = min(start + step, len(x))
            buffer[start:stop] = self.embedding_.operator(x[start:stop]).dense()
        return buffer[: len(x)]

    def _pooled(self, sets: DescriptorSets, progress: Progress, stage: str) -> Encoded:
        """Pooled vectors, not yet normalised, and the weights."""
        self.prepare(len(sets), progress=progress)
        xp = namespace(sets.flat)
        vectors = xp.zeros((len(sets), self._pooled_length()), dtype=sets.flat.dtype, device=sets.flat.device)
        shares = [np.zeros(0, np.float32)] * len(sets)
        ridges = np.zeros(len(sets), np.float32)
        done = 0
        progress(stage, done, len(sets))
        for images, pooled in self._pooled_batches(sets):
            vectors[like(images, vectors, dtype=xp.int64)] = pooled.vectors
            for image, row in zip(images, pooled.weights, strict=True):
                shares[image] = row[: sets.counts[image]].astype(np.float32)
            ridges[images] = pooled.ridges
            done += len(images)
            progress(stage, done, len(sets))
        return Encoded(vectors if self.whitening_ else self.embedding_.after_pooling(vectors), shares, ridges)

    def _pooled_batches(self, sets: DescriptorSets) -> Iterator[tuple[np.ndarray, Encoded]]:
        """Indices of images, and their pooled vectors; on a CPU, several batches run in parallel threads."""
        threads = cores() if isinstance(sets.flat, np.ndarray) else 1
        size = 1 if self.pooling == "sinkhorn" else min(BATCH, -(-len(sets) // threads))
        return in_threads(self._pool, batches(sets, size), threads)

    def _pool(self, batch: Batch) -> tuple[np.ndarray, Encoded]:
        gram, shares, ridge = self._weighted(batch)
        return batch.images, Encoded(gram.vector(shares), list(to_numpy(shares)), to_numpy(ridge))

    def _weighted(self, batch: Batch) -> tuple[Gram, Float[Array, "B N"], Float[Array, " B"]]:
        """The embedded descriptors, their weights, and the ridges."""
        x = self._projected(batch.x)
        gram = Gram(self.embedding_.operator(x, batch.real), batch.real, self.whitening_)
        return gram, *weights(gram, self.pooling, x, tolerance=self.tolerance)

    def _discarded(self) -> int:
        """Number of leading components that the paper discards for this method."""
        return self.embedding_.leading_components(self.embedding_.descriptor_dimension)

    def _kept(self, length: int) -> int:
        """Dimension of the image vectors, from the length of the pooled ones."""
        length -= self.discard_after
        return length if self.keep is None else min(self.keep, length)

    def _pooled_length(self) -> int:
        return self.whitening_.dimension if self.whitening_ is not None else self.embedding_.dimension

    def _before_rotation(self, pooled: Float[Array, "B D"]) -> Float[Array, "B D"]:
        return unit_length(power_law(pooled, self.power) if self.finishing == "paper" else pooled)

    def _finish(self, pooled: Float[Array, "B D"]) -> Float[Array, "B k"]:
        vectors = self._before_rotation(pooled)
        if self.rotation_ is not None:
            vectors = self._keep_zeros(vectors, self.rotation_.transform(vectors))
        vectors = vectors[:, self.discard_after :]
        if self.finishing == "released":
            vectors = power_law(vectors, self.power)
        return unit_length(vectors[:, : self.keep])

    def _keep_zeros(self, before: Array, after: Array) -> Array:
        """Set the vectors of images without descriptors back to zero: a rotation that centres changes them."""
        xp = namespace(before)
        return xp.where(xp.any(before != 0, axis=1, keepdims=True), after, xp.zeros_like(after))


def _require_length(name: str, array: Array, length: int, *, axis: int) -> None:
    if array.shape[axis] != length:
        raise InputError(f"{name} is for vectors of length {array.shape[axis]}; the other stages have {length}")


def _require_finite(vectors: Float[Array, "B D"]) -> None:
    xp = namespace(vectors)
    if not bool(xp.all(xp.isfinite(vectors))):
        raise InputError(f"the vectors are not finite; {_EXTREME}")
