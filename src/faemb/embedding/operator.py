"""The matrix Phi of embedded descriptors of one image, or of a padded batch, as an operator: it is never stored.

Phi is N x D: for n = 16 and d = 45 about 3,000 x 16,560 numbers per image. Aggregation needs only

    pool(w) = Phi' w        project(t) = Phi t

and both are small matrix products (see terms.py). `dense()` exists for learning the whitening and for tests.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from faemb.arrays import Array, block_elements, contiguous, namespace, row_blocks, to_numpy
from faemb.embedding.terms import Term
from faemb.linear_algebra import squared_distances


class Embedded:
    """Phi for x of shape (N, d), or (B, N, d) with padded rows, for which `real` is false.

    A padded row has coefficients 0: it adds nothing to `pool`, and `project` gives 0 for it. Images whose weights
    are all zero are skipped: iterative solvers set them to zero for images that have converged.
    """

    def __init__(
        self,
        x: Float[Array, "*B N d"],
        anchors: Float[Array, "n d"],
        coefficients: Float[Array, "*B N n"],
        terms: Sequence[Term],
        *,
        unit_residuals: bool = False,
        real: Bool[Array, "*B N"] | None = None,
    ) -> None:
        xp = namespace(x)
        self._single = x.ndim == 2
        self._x = x[None] if self._single else x
        self._xt = contiguous(xp.matrix_transpose(self._x))
        self._anchors = anchors
        self._terms = tuple(terms)
        a = coefficients[None] if self._single else coefficients
        if real is not None:
            mask = real[None] if self._single else real
            a = xp.where(mask[..., None], a, xp.zeros_like(a))
        d = anchors.shape[1]
        self._entries = [term.entries(d) for term in self._terms]
        self._blocks = tuple(self._cut(real))
        self._a = [self._divided_by_length(a, term.order) if unit_residuals else a for term in self._terms]

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, D), or (B, N, D)."""
        images, rows = self._x.shape[:2]
        shape = (images, rows, self._anchors.shape[0] * sum(self._entries))
        return shape[1:] if self._single else shape

    def pool(self, weights: Float[Array, "*B N"]) -> Float[Array, "*B D"]:
        """Phi' w."""
        xp = namespace(self._x)
        w = weights[None] if self._single else weights
        pooled = self._zeros(self._x.shape[0], self._anchors.shape[0], sum(self._entries))
        for images, rows in self._blocks:
            if not xp.any(w[images, rows]):
                continue
            parts = [
                term.pool(self._xt[images, :, rows], self._anchors, a[images, rows] * w[images, rows, None])
                for term, a in zip(self._terms, self._a, strict=True)
            ]
            pooled[images] += parts[0] if len(parts) == 1 else xp.concat(parts, axis=-1)
        return self._out(xp.reshape(pooled, (self._x.shape[0], self.shape[-1])))

    def project(self, t: Float[Array, "*B D"]) -> Float[Array, "*B N"]:
        """Phi t."""
        xp = namespace(self._x)
        t = t[None] if self._single else t
        t = xp.reshape(t, (t.shape[0], self._anchors.shape[0], sum(self._entries)))
        out = self._zeros(*self._x.shape[:2])
        for images, rows in self._blocks:
            if not xp.any(t[images]):
                continue
            start, block = 0, 0.0
            for term, a, entries in zip(self._terms, self._a, self._entries, strict=True):
                part = t[images, :, start : start + entries]
                block = block + term.project(self._xt[images, :, rows], self._anchors, a[images, rows], part)
                start += entries
            out[images, rows] = block
        return self._out(out)

    def dense(self) -> Float[Array, "*B N D"]:
        """Phi as a matrix of N x D numbers: for fitting and for tests."""
        xp = namespace(self._x)
        r = self._x[:, :, None, :] - self._anchors
        parts = [term.dense(r, a) for term, a in zip(self._terms, self._a, strict=True)]
        images, rows = self._x.shape[:2]
        return self._out(xp.reshape(xp.concat(parts, axis=-1), (images, rows, self.shape[-1])))

    def nonzero(self) -> Bool[Array, "*B N"]:
        """Whether the embedding of each descriptor is not the zero vector.

        It is zero for padded rows, and for descriptors that coincide with each of their active anchors.
        """
        xp = namespace(self._x)
        off_anchor = self._squared_lengths(slice(None), slice(None)) > 0
        alive = [(a != 0) & off_anchor if term.order else a != 0 for term, a in zip(self._terms, self._a, strict=True)]
        return self._out(xp.any(xp.concat(alive, axis=-1), axis=-1))

    def active(self) -> Bool[Array, "*B N n"]:
        """Whether each anchor has a nonzero coefficient for each descriptor; Phi is zero at the other anchors."""
        active = self._a[0] != 0
        for a in self._a[1:]:
            active = active | (a != 0)
        return self._out(active)

    def _divided_by_length(self, a: Float[Array, "B N n"], order: int) -> Float[Array, "B N n"]:
        """a / |r|^order, and 0 where the descriptor coincides with the anchor, where r has no direction."""
        if order == 0:
            return a
        xp = namespace(a)
        out = xp.zeros_like(a)
        for images, rows in self._blocks:
            squared = self._squared_lengths(images, rows)
            apart = squared > 0
            length = xp.where(apart, squared if order == 2 else xp.sqrt(squared), xp.ones_like(squared))
            out[images, rows] = xp.where(apart, a[images, rows] / length, xp.zeros_like(squared))
        return out

    def _squared_lengths(self, images: slice, rows: slice) -> Float[Array, "b m n"]:
        xp = namespace(self._x)
        x = self._x[images, rows]
        flat = xp.reshape(x, (x.shape[0] * x.shape[1], x.shape[2]))
        return xp.reshape(squared_distances(flat, self._anchors), (*x.shape[:2], self._anchors.shape[0]))

    def _cut(self, real: Bool[Array, "*B N"] | None) -> Iterator[tuple[slice, slice]]:
        """Blocks (images, rows) of bounded memory: several small images with padding, or a part of a large image."""
        images, rows = self._x.shape[:2]
        lengths = np.full(images, rows) if real is None else _lengths(np.reshape(to_numpy(real), (images, rows)))
        cost, most = max(self._entries), block_elements(self._x)
        start = 0
        while start < images:
            stop = start + 1
            while stop < images and cost * (stop + 1 - start) * max(lengths[start : stop + 1]) <= most:
                stop += 1
            for part in row_blocks(int(max(lengths[start:stop])), cost * (stop - start), self._x):
                yield slice(start, stop), part
            start = stop

    def _zeros(self, *shape: int) -> Array:
        xp: Any = namespace(self._x)
        return xp.zeros(shape, dtype=self._x.dtype, device=self._x.device)

    def _out(self, x: Array) -> Array:
        return x[0] if self._single else x


def _lengths(real: Bool[np.ndarray, "B N"]) -> Int[np.ndarray, " B"]:
    """Number of rows of each image up to its last real one."""
    return np.where(real, np.arange(1, real.shape[1] + 1), 0).max(axis=1, initial=0)
