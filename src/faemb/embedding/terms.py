"""Taylor terms of the residual r = x - v_j, and the three products that an embedding needs of them.

    phi(x) = [ a_j(x) * m(x - v_j) ]_{j = 1..n}

A term is one kind of entry of m: the constant (order 0), r itself (order 1), the upper triangle of r r' (order 2),
or Fisher's pair. For coefficients a (N x n), anchors v (n x d) and descriptors x (N x d) each term gives

    dense    a_ij m(x_i - v_j)               the rows themselves
    pool     sum_i a_ij m(x_i - v_j)         one weighted moment per anchor
    project  sum_j a_ij <m(x_i - v_j), t_j>  one inner product per descriptor

m is a polynomial of x whose coefficients depend on v only, so pool and project are matrix products with the
*monomials of x*, which all anchors share, and a correction that does not depend on N. At order 2 that is
2 n u operations per descriptor, u = d(d+1)/2, half as many as with the full square x x'.

B images, N descriptors each, d dimensions, n anchors, m entries of the term. `xt` is x with its axes swapped.
"""

import math
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float

from faemb.arrays import Array, like, namespace

Rows = Float[Array, "B d N"]
Anchors = Float[Array, "n d"]
Coefficients = Float[Array, "B N n"]


class Term(ABC):
    """`order` is the power of |r| by which the term is divided if residuals are scaled to unit length."""

    order: int = 0

    @abstractmethod
    def entries(self, d: int) -> int:
        """m, the number of entries per anchor."""

    @abstractmethod
    def dense(self, r: Float[Array, "B N n d"], a: Coefficients) -> Float[Array, "B N n m"]:
        """The rows, from the residuals r."""

    @abstractmethod
    def pool(self, xt: Rows, v: Anchors, a: Coefficients) -> Float[Array, "B n m"]:
        """The sum of the rows."""

    @abstractmethod
    def project(self, xt: Rows, v: Anchors, a: Coefficients, t: Float[Array, "B n m"]) -> Float[Array, "B N"]:
        """The inner product of each row with t."""


@dataclass(frozen=True)
class Constant(Term):
    """m(r) = s: the coefficient itself, scaled ([DC17, Eq. 5 and 17]: s, s1)."""

    scale: float = 1.0
    order = 0

    def entries(self, d: int) -> int:
        return 1

    def dense(self, r: Float[Array, "B N n d"], a: Coefficients) -> Float[Array, "B N n 1"]:
        return self.scale * a[..., None]

    def pool(self, xt: Rows, v: Anchors, a: Coefficients) -> Float[Array, "B n 1"]:
        return self.scale * namespace(a).sum(a, axis=-2)[..., None]

    def project(self, xt: Rows, v: Anchors, a: Coefficients, t: Float[Array, "B n 1"]) -> Float[Array, "B N"]:
        return self.scale * (a @ t)[..., 0]


@dataclass(frozen=True)
class Linear(Term):
    """m(r) = s r ([DC17, Eq. 17]: s2)."""

    scale: float = 1.0
    order = 1

    def entries(self, d: int) -> int:
        return d

    def dense(self, r: Float[Array, "B N n d"], a: Coefficients) -> Float[Array, "B N n d"]:
        return self.scale * a[..., None] * r

    def pool(self, xt: Rows, v: Anchors, a: Coefficients) -> Float[Array, "B n d"]:
        xp = namespace(a)
        total = xp.sum(a, axis=-2)[..., None]
        return self.scale * (xp.matrix_transpose(xt @ a) - total * v)

    def project(self, xt: Rows, v: Anchors, a: Coefficients, t: Float[Array, "B n d"]) -> Float[Array, "B N"]:
        xp = namespace(a)
        form = xp.matrix_transpose(t @ xt) - xp.sum(t * v, axis=-1)[:, None, :]
        return self.scale * xp.sum(a * form, axis=-1)


@dataclass(frozen=True, eq=False)
class LocalLinear(Term):
    """m(r) = Q_j r: residuals in the axes of their own cell (local coordinate system) [Delhumeau et al. 2013]."""

    rotations: Float[Array, "n d d"]
    order = 1

    def entries(self, d: int) -> int:
        return d

    def dense(self, r: Float[Array, "B N n d"], a: Coefficients) -> Float[Array, "B N n d"]:
        return a[..., None] * (like(self.rotations, r) @ r[..., None])[..., 0]

    def pool(self, xt: Rows, v: Anchors, a: Coefficients) -> Float[Array, "B n d"]:
        return (like(self.rotations, a) @ Linear().pool(xt, v, a)[..., None])[..., 0]

    def project(self, xt: Rows, v: Anchors, a: Coefficients, t: Float[Array, "B n d"]) -> Float[Array, "B N"]:
        back = namespace(a).matrix_transpose(like(self.rotations, a))
        return Linear().project(xt, v, a, (back @ t[..., None])[..., 0])


@dataclass(frozen=True)
class Quadratic(Term):
    """m(r) = upper(r r'), the d(d+1)/2 entries on and above the diagonal, row by row."""

    order = 2

    def entries(self, d: int) -> int:
        return d * (d + 1) // 2

    def dense(self, r: Float[Array, "B N n d"], a: Coefficients) -> Float[Array, "B N n u"]:
        xp = namespace(r)
        scaled = a[..., None] * r
        return xp.concat([scaled[..., k : k + 1] * r[..., k:] for k in range(r.shape[-1])], axis=-1)

    def pool(self, xt: Rows, v: Anchors, a: Coefficients) -> Float[Array, "B n u"]:
        # sum a (x - v)(x - v)' = sum a x x' - (sum a x) v' - v (sum a x)' + (sum a) v v', upper triangles only
        xp = namespace(a)
        i, j = (like(indices, v, dtype=xp.int64) for indices in _triangle(v.shape[1]))
        second = xp.matrix_transpose(_upper_products(xt) @ a)
        first = xp.matrix_transpose(xt @ a)
        total = xp.sum(a, axis=-2)[..., None]
        vi, vj = xp.take(v, i, axis=1), xp.take(v, j, axis=1)
        cross = xp.take(first, i, axis=2) * vj + xp.take(first, j, axis=2) * vi
        return second - cross + total * (vi * vj)

    def project(self, xt: Rows, v: Anchors, a: Coefficients, t: Float[Array, "B n u"]) -> Float[Array, "B N"]:
        # <upper(r r'), t> = x'Tx - 2 x'Tv + v'Tv, T the symmetric matrix with that upper triangle
        xp = namespace(a)
        images, (anchors, d) = t.shape[0], v.shape
        weights = like(_symmetric_weights(d), t)
        symmetric = xp.take(t, like(_symmetric_indices(d), t, dtype=xp.int64), axis=2) * weights
        tv = xp.reshape(symmetric, (images, anchors, d, d)) @ v[..., None]
        tv = tv[..., 0]
        form = t @ _upper_products(xt) - 2 * (tv @ xt)
        form = xp.matrix_transpose(form) + xp.sum(tv * v, axis=-1)[:, None, :]
        return xp.sum(a * form, axis=-1)


@dataclass(frozen=True, eq=False)
class FisherPair(Term):
    """m(r) = [ r / sigma_j ; ((r / sigma_j)^2 - 1) / sqrt(2) ], the gradients with respect to mean and deviation."""

    deviations: Float[Array, "n d"]
    order = 0

    def entries(self, d: int) -> int:
        return 2 * d

    def dense(self, r: Float[Array, "B N n d"], a: Coefficients) -> Float[Array, "B N n m"]:
        xp = namespace(r)
        z = r / like(self.deviations, r)
        return a[..., None] * xp.concat([z, (z * z - 1) * 0.5**0.5], axis=-1)

    def pool(self, xt: Rows, v: Anchors, a: Coefficients) -> Float[Array, "B n m"]:
        xp = namespace(a)
        sigma = like(self.deviations, a)
        total = xp.sum(a, axis=-2)[..., None]
        first = xp.matrix_transpose(xt @ a)
        second = xp.matrix_transpose((xt * xt) @ a)
        square = (second - 2 * first * v + total * v * v) / (sigma * sigma)
        return xp.concat([(first - total * v) / sigma, (square - total) * 0.5**0.5], axis=-1)

    def project(self, xt: Rows, v: Anchors, a: Coefficients, t: Float[Array, "B n m"]) -> Float[Array, "B N"]:
        xp = namespace(a)
        d = v.shape[1]
        sigma = like(self.deviations, a)
        linear, quadratic = t[..., :d] / sigma, t[..., d:] * 0.5**0.5
        curved = quadratic / (sigma * sigma)
        constant = xp.sum(curved * v * v - linear * v - quadratic, axis=-1)
        form = curved @ (xt * xt) + (linear - 2 * curved * v) @ xt + constant[..., None]
        return xp.sum(a * xp.matrix_transpose(form), axis=-1)


def _upper_products(xt: Rows) -> Float[Array, "B u N"]:
    """x_i x_j for i <= j, computed in place for whole rows, so that every product reads contiguous memory."""
    images, d, rows = xt.shape
    products = _workspace((images, d * (d + 1) // 2, rows), xt)
    start = 0
    for k in range(d):
        part = products[:, start : start + d - k]
        part[...] = xt[:, k : k + 1]
        part *= xt[:, k:]
        start += d - k
    return products


_memory = threading.local()


def _workspace(shape: tuple[int, ...], reference: Array) -> Array:
    """Uninitialised memory for a result that is not used after the next call.

    For NumPy one block per thread is reused: allocating new pages takes as long as filling them. PyTorch and CuPy
    reuse memory themselves.
    """
    if not isinstance(reference, np.ndarray):
        return namespace(reference).empty(shape, dtype=reference.dtype, device=reference.device)
    size = math.prod(shape)
    kept = getattr(_memory, "block", None)
    if kept is None or kept.dtype != reference.dtype or kept.size < size:
        kept = _memory.block = np.empty(size, reference.dtype)
    return kept[:size].reshape(shape)


@cache
def _triangle(d: int) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(d)


@cache
def _symmetric_indices(d: int) -> np.ndarray:
    """For each entry of a d x d matrix, row by row, its place in the upper triangle."""
    place = np.zeros((d, d), dtype=np.int64)
    place[_triangle(d)] = np.arange(d * (d + 1) // 2)
    return np.maximum(place, place.T).ravel()


@cache
def _symmetric_weights(d: int) -> np.ndarray:
    """1 on the diagonal, 1/2 elsewhere: off-diagonal entries occur twice in the matrix and once in the triangle."""
    return (0.5 + 0.5 * np.eye(d)).ravel()
