"""Gram matrices K of the whitened embedded descriptors of a batch of images, without storing the descriptors.

    K = (Phi - 1 m') W'W (Phi - 1 m')'

A product with K is Phi' w, then a product with W'W for all images at once, then Phi t: Phi is never stored.
B images, N descriptors each (padded), D length of an embedded descriptor.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from faemb.arrays import Array, like, namespace
from faemb.whitening import Whitening

_FEW = 0.5
"""Share of active anchors below which multiplying cell by cell is faster than multiplying whole rows."""
_BLOCK = 1024
"""Number of rows of a triangular factor in a block: few, so that most of its zero half is skipped."""

_PROBES = 16


@runtime_checkable
class Operator(Protocol):
    @property
    def shape(self) -> tuple[int, ...]: ...

    def pool(self, weights: Array) -> Array: ...

    def project(self, t: Array) -> Array: ...

    def dense(self) -> Array: ...

    def nonzero(self) -> Array: ...

    def active(self) -> Array: ...


@dataclass(frozen=True, eq=False)
class Gram:
    """K of each image of a batch. Without a whitening, plain inner products of the embedded descriptors."""

    embedded: Operator
    real: Bool[Array, "B N"]
    whitening: Whitening | None = None

    @property
    def usable(self) -> Bool[Array, "B N"]:
        """Descriptors that can have a weight: neither padding nor zero vectors."""
        if self.whitening is not None and self.whitening.centre:
            return self.real
        return self.real & self.embedded.nonzero()

    def times(self, weights: Float[Array, "B N"]) -> Float[Array, "B N"]:
        """K w."""
        pooled = self._centred_pool(weights)
        if self.whitening is None:
            return self.embedded.project(pooled)
        t = self._metric(pooled)
        return self.embedded.project(t) - (t @ self._mean(t))[:, None]

    def products(self, direction: Float[Array, "B Dw"]) -> Float[Array, "B N"]:
        """The inner product of each whitened row with the vector of its image."""
        if self.whitening is None:
            return self.embedded.project(direction)
        t = self.whitening.apply_transposed(direction)
        return self.embedded.project(t) - (t @ self._mean(t))[:, None]

    def diagonal(self, like_x: Array, images: Bool[Array, "B 1"] | None = None) -> Float[Array, "B N"]:
        """K_ii, estimated with a relative error of about a third, in the precision of `like_x`, of all or given images.

        For a row y and random signs r the expectation of (r'y)^2 is |y|^2; this is the mean over sixteen r. The exact
        diagonal would need all whitened rows.
        """
        xp = namespace(like_x)
        total = xp.zeros_like(like_x[..., 0])
        chosen = xp.ones_like(total[:, :1]) if images is None else xp.astype(images, total.dtype)
        for probe in self._probes(like_x):
            rows = self.embedded.project(chosen * probe)
            centre = 0.0 if self.whitening is None else probe @ self._mean(probe)
            total = total + (rows - centre) ** 2
        return total / _PROBES

    def _probes(self, like_x: Array) -> Float[Array, "k D"]:
        """W'r for sixteen vectors r of random signs from a fixed seed."""
        length = self.embedded.shape[-1] if self.whitening is None else self.whitening.dimension
        signs = like(np.random.default_rng(0).choice([-1.0, 1.0], (_PROBES, length)), like_x)
        return signs if self.whitening is None else signs @ like(self.whitening.matrix_, like_x)

    def _metric(self, pooled: Float[Array, "B D"]) -> Float[Array, "B D"]:
        """W'W times the nonzero vectors; vectors of converged images are zero and are skipped."""
        assert self.whitening is not None  # noqa: S101
        xp = namespace(pooled)
        moving = xp.any(pooled != 0, axis=1)
        if bool(xp.all(moving)):
            return self.whitening.metric(pooled)
        t = xp.zeros_like(pooled)
        t[moving] = self.whitening.metric(pooled[moving])
        return t

    def vector(self, weights: Float[Array, "B N"]) -> Float[Array, "B Dw"]:
        """sum_i w_i phi_w(x_i), the image vector [DC17, Eq. 32]."""
        pooled = self._centred_pool(weights)
        return pooled if self.whitening is None else self.whitening.apply(pooled)

    def kernel(self) -> Float[Array, "B N N"]:
        """K itself, for methods that need it entry by entry; zero where padded."""
        xp = namespace(self.real)
        rows = self.embedded.dense()
        if self.whitening is not None:
            rows = self._up_to_a_rotation(rows)
        rows = xp.where(self.real[..., None], rows, xp.zeros_like(rows))
        return rows @ xp.matrix_transpose(rows)

    def _up_to_a_rotation(self, rows: Float[Array, "B N D"]) -> Float[Array, "B N Dw"]:
        """F y with F'F = W'W: the inner products are those of whitened rows."""
        assert self.whitening is not None  # noqa: S101
        xp = namespace(rows)
        matrix, upper = self.whitening.factor
        factor, active = like(matrix, rows), self.embedded.active()
        if float(xp.mean(xp.astype(active, rows.dtype))) < _FEW:
            return _cell_by_cell(factor, upper, rows, active) - factor @ self._mean(rows)
        return _times(factor, upper, rows - self._mean(rows))

    def _centred_pool(self, weights: Float[Array, "B N"]) -> Float[Array, "B D"]:
        pooled = self.embedded.pool(weights)
        if self.whitening is None:
            return pooled
        pooled -= namespace(weights).sum(weights, axis=1)[:, None] * self._mean(pooled)
        return pooled

    def _mean(self, reference: Array) -> Float[Array, " D"]:
        assert self.whitening is not None  # noqa: S101  (narrows the type; callers have checked)
        return like(self.whitening.mean_, reference)


def _times(factor: Float[Array, "k D"], upper: bool, y: Float[Array, "B N D"]) -> Float[Array, "B N k"]:
    """F y for each row y; for an upper triangular F, blocks below its diagonal are skipped."""
    xp = namespace(y)
    step = _BLOCK if upper else factor.shape[0]
    starts = range(0, factor.shape[0], step)
    parts = [y[..., start * upper :] @ factor[start : start + step, start * upper :].T for start in starts]
    return xp.concat(parts, axis=-1)


def _cell_by_cell(
    factor: Float[Array, "k D"], upper: bool, y: Float[Array, "B N D"], active: Bool[Array, "B N n"]
) -> Float[Array, "B N k"]:
    """The same for rows that are zero in most cells: only cells of active anchors are multiplied."""
    xp = namespace(y)
    images, rows, length = y.shape
    cells, kept = active.shape[-1], factor.shape[0]
    per_cell = length // cells
    flat, active = xp.reshape(y, (images * rows, length)), xp.reshape(active, (images * rows, cells))
    out = xp.zeros((images * rows, kept), dtype=y.dtype, device=y.device)
    for cell in range(cells):
        here = active[:, cell]
        columns = slice(cell * per_cell, (cell + 1) * per_cell)
        reach = min(kept, columns.stop) if upper else kept
        part = out[here]
        part[:, :reach] += flat[here][:, columns] @ factor[:reach, columns].T
        out[here] = part
    return xp.reshape(out, (images, rows, kept))
