"""Sets of local descriptors: each image is one set, and one set is one sample of an estimator.

Accepted forms of sets: a list of (n_i, d) arrays, a pair (flat, offsets) where image i owns the rows
offsets[i]:offsets[i + 1] of flat, or a single (n, d) array, which is one image. A set may be empty.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from faemb.arrays import Array, ArrayLike, MatrixLike, as_float, is_array, like, namespace, require_finite, to_numpy
from faemb.errors import InputError

PORTION, PORTION_DESCRIPTORS = 256, 1 << 17
"""Largest number of images and of descriptors encoded together: enough for all cores, few enough for memory."""


@dataclass(frozen=True, eq=False)
class DescriptorSets:
    """Checked sets: all descriptors in one float array, and the first row of each image."""

    flat: Float[Array, "N d"]
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, image: int) -> Float[Array, "n d"]:
        place = range(len(self))[image]
        return self.flat[int(self.offsets[place]) : int(self.offsets[place + 1])]

    def __iter__(self) -> Iterator[Float[Array, "n d"]]:
        return (self[image] for image in range(len(self)))

    @property
    def descriptor_dimension(self) -> int:
        return int(self.flat.shape[1])

    @property
    def counts(self) -> np.ndarray:
        return np.diff(self.offsets)

    def select(self, images: Sequence[int] | np.ndarray) -> "DescriptorSets":
        """These images, in this order."""
        xp = namespace(self.flat)
        parts = [self[int(image)] for image in images]
        counts = [part.shape[0] for part in parts]
        flat = xp.concat(parts) if parts else self.flat[:0]
        return DescriptorSets(flat, np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]))

    def portions(self, size: int) -> "list[DescriptorSets]":
        """All images in their order, `size` at a time, as NumPy arrays."""
        here = DescriptorSets(to_numpy(self.flat), self.offsets)
        return [here.select(range(len(self))[start : start + size]) for start in range(0, len(self), size)]

    def sample(self, limit: int, seed: int) -> Float[Array, "m d"]:
        """At most `limit` descriptors, drawn without replacement, in their order."""
        total = int(self.flat.shape[0])
        if total <= limit:
            return self.flat
        rows = np.sort(np.random.default_rng(seed).choice(total, limit, replace=False))
        xp = namespace(self.flat)
        return xp.take(self.flat, like(rows, self.flat, dtype=xp.int64), axis=0)


if TYPE_CHECKING:
    SetsLike = DescriptorSets | ArrayLike | tuple[ArrayLike, ArrayLike | Sequence[int]] | Sequence[MatrixLike]
    """A list of (n_i, d) arrays, (flat, offsets), one (n, d) array, or DescriptorSets."""
else:
    SetsLike = Any  # tests check types at run time; other input must reach the messages of as_sets


@dataclass(frozen=True, eq=False)
class Batch:
    """Images with similar numbers of descriptors: descriptors padded with zeros, and a mask of the real rows."""

    images: np.ndarray
    x: Float[Array, "B N d"]
    real: Bool[Array, "B N"]


def as_sets(data: SetsLike, *, columns: int | None = None) -> DescriptorSets:
    """Check and convert any accepted form; descriptors must be finite, and have `columns` columns if that is given."""
    sets = data if isinstance(data, DescriptorSets) else _read(data)
    if columns is not None and sets.descriptor_dimension != columns:
        raise InputError(f"descriptors have {sets.descriptor_dimension} columns; this model was fitted on {columns}")
    require_finite(sets.flat, "descriptors")
    return sets


def some(descriptors: Float[np.ndarray, "n d"], most: int, rng: np.random.Generator) -> Float[np.ndarray, "m d"]:
    """At most `most` descriptors of an image, drawn without replacement, in their order."""
    if len(descriptors) <= most:
        return descriptors
    return descriptors[np.sort(rng.choice(len(descriptors), most, replace=False))]


def portions(images: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """All sets in their order, in portions that fit into memory; each set is read from `images` when it is needed."""
    held: list[np.ndarray] = []
    for place in range(len(images)):
        held.append(images[place])
        if len(held) == PORTION or sum(map(len, held)) >= PORTION_DESCRIPTORS:
            yield held
            held = []
    if held:
        yield held


def batches(sets: DescriptorSets, size: int) -> Iterator[Batch]:
    """Images in batches of at most `size`, largest first so that padding stays small; empty images are left out."""
    order = np.argsort(-sets.counts, kind="stable")
    order = order[sets.counts[order] > 0]
    for start in range(0, len(order), size):
        yield _pad(sets, order[start : start + size])


def _pad(sets: DescriptorSets, images: np.ndarray) -> Batch:
    xp = namespace(sets.flat)
    counts = sets.counts[images]
    longest = int(counts.max())
    position = np.arange(longest)
    real = position < counts[:, None]
    rows = np.where(real, sets.offsets[images][:, None] + position, 0)
    flat_rows = like(rows.ravel(), sets.flat, dtype=xp.int64)
    mask = like(real, sets.flat, dtype=xp.bool)
    x = xp.reshape(xp.take(sets.flat, flat_rows, axis=0), (len(images), longest, sets.descriptor_dimension))
    return Batch(images, xp.where(mask[..., None], x, xp.zeros_like(x)), mask)


def _read(data: Any) -> DescriptorSets:
    if is_array(data) and data.ndim == 2:
        return DescriptorSets(as_float(data, "descriptors"), np.array([0, data.shape[0]]))
    if isinstance(data, tuple) and len(data) == 2 and _is_offsets(data[1]):
        return _from_offsets(*data)
    if isinstance(data, list | tuple):
        return _from_list(data)
    shape = f" with shape {tuple(data.shape)}" if is_array(data) else ""
    raise InputError(
        f"descriptor sets are of type {type(data).__name__}{shape}; "
        "expected a list of (n, d) arrays, a pair (flat, offsets), or one (n, d) array"
    )


def _from_list(parts: Sequence[Any]) -> DescriptorSets:
    if not parts:
        raise InputError("no descriptor sets were given; expected at least one image")
    arrays = [as_float(part, f"descriptors of image {i}") for i, part in enumerate(parts)]
    for i, part in enumerate(arrays):
        if part.ndim != 2:
            raise InputError(f"descriptors of image {i} have shape {tuple(part.shape)}; expected (count, dimension)")
        if part.shape[1] != arrays[0].shape[1]:
            raise InputError(
                f"descriptors of image {i} have {part.shape[1]} columns, those of image 0 have {arrays[0].shape[1]}; "
                "all must come from one extractor"
            )
    try:
        xp = namespace(*arrays)
    except TypeError as error:
        kinds = ", ".join(sorted({type(part).__module__.split(".")[0] for part in arrays}))
        raise InputError(f"descriptors come from several array libraries ({kinds}); convert them to one") from error
    offsets = np.concatenate([[0], np.cumsum([part.shape[0] for part in arrays], dtype=np.int64)])
    dtype = xp.float64 if any(part.dtype == xp.float64 for part in arrays) else xp.float32
    return DescriptorSets(xp.concat([xp.astype(part, dtype, copy=False) for part in arrays]), offsets)


def _from_offsets(flat: Array, offsets: Array) -> DescriptorSets:
    flat, bounds = as_float(flat, "descriptors"), to_numpy(offsets).astype(np.int64)
    if flat.ndim != 2:
        raise InputError(f"descriptors have shape {tuple(flat.shape)}; expected (count, dimension)")
    if len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != flat.shape[0] or (np.diff(bounds) < 0).any():
        raise InputError(
            f"offsets must rise from 0 to the number of descriptors, {flat.shape[0]}; "
            f"given {len(bounds)} of them, from {bounds[:1]} to {bounds[-1:]}"
        )
    return DescriptorSets(flat, bounds)


def _is_offsets(x: Any) -> bool:
    """Whether x is a list or a one-dimensional array of whole numbers."""
    if isinstance(x, list):
        return all(isinstance(n, int | np.integer) for n in x)
    return is_array(x) and x.ndim == 1 and bool(namespace(x).isdtype(x.dtype, "integral"))
