"""Inner products of the whitened embedded descriptors of a batch of images, without the descriptors.

    K = (Phi - 1 m') W'W (Phi - 1 m')'

A product with K is Phi' w, a product with W'W for all images at once, and Phi t: the N x D rows are never formed.
B images, N descriptors each (padded), D length of an embedded descriptor.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float

from faemb.arrays import Array, like, namespace
from faemb.whitening import Whitening


@runtime_checkable
class Operator(Protocol):
    def pool(self, weights: Array) -> Array: ...

    def project(self, t: Array) -> Array: ...

    def dense(self) -> Array: ...

    def nonzero(self) -> Array: ...


@dataclass(frozen=True, eq=False)
class Gram:
    """K of each image of a batch. Without a whitening, plain inner products of the embedded descriptors."""

    embedded: Operator
    real: Bool[Array, "B N"]
    whitening: Whitening | None = None

    @property
    def votes(self) -> Bool[Array, "B N"]:
        """Descriptors that can be given a weight: real, and not the zero vector."""
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

    def _metric(self, pooled: Float[Array, "B D"]) -> Float[Array, "B D"]:
        """W'W of the images that have not come to rest; those that have are zero."""
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

    def rows(self) -> Float[Array, "B N Dw"]:
        """The whitened rows themselves, zero where padded: B N D' numbers, for methods that need K entry by entry."""
        xp = namespace(self.real)
        dense = self.embedded.dense()
        if self.whitening is not None:
            dense = self.whitening.apply(dense - self._mean(dense))
        return xp.where(self.real[..., None], dense, xp.zeros_like(dense))

    def _centred_pool(self, weights: Float[Array, "B N"]) -> Float[Array, "B D"]:
        pooled = self.embedded.pool(weights)
        if self.whitening is None:
            return pooled
        pooled -= namespace(weights).sum(weights, axis=1)[:, None] * self._mean(pooled)
        return pooled

    def _mean(self, reference: Array) -> Float[Array, " D"]:
        assert self.whitening is not None  # noqa: S101  (narrows the type; callers have checked)
        return like(self.whitening.mean_, reference)
