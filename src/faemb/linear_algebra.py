"""Matrix decompositions with high precision and deterministic results.

They run in float64. Eigenvalues are in descending order, and the sign of each vector is fixed so that its largest
component is positive: the same machine gives the same bits, and vectors of two machines can be compared.

A d x d matrix with d = 16,560 takes 2.2 GB, so functions that compute or decompose one can work in place. Long library
calls can be interrupted (runtime/threads.py).
"""

from collections.abc import Callable
from functools import partial
from operator import matmul
from typing import Any

import numpy as np
from jaxtyping import Float

from faemb.arrays import Array, float64, namespace, require_finite
from faemb.lapack import dsyevr
from faemb.runtime.threads import interruptible

_COLUMNS = 2048
_QUICK = 8192
"""Largest size of a matrix that is decomposed by the faster method, which needs more memory."""
_SIGNS_AT_ONCE = 256


def gram_matrix(x: Float[Array, "m d"]) -> Float[Array, "d d"]:
    """x'x"""
    product = namespace(x).zeros((x.shape[1], x.shape[1]), dtype=x.dtype, device=x.device)
    add_gram(product, x)
    mirror(product)
    return product


def add_gram(total: Float[Array, "d d"], x: Float[Array, "m d"]) -> None:
    """Add x'x to the upper triangle of `total`; call `mirror` after the last part to set the lower triangle.

    In blocks of columns: OpenBLAS 0.3.31, which NumPy's packages contain, has crashed in its symmetric product of
    15,400 float64 columns and more with two threads. NumPy computes only half of the product of a block with itself.
    """
    for start in range(0, x.shape[1], _COLUMNS):
        stop = min(start + _COLUMNS, x.shape[1])
        block = x[:, start:stop]
        total[start:stop, start:stop] += _unless_stopped(matmul, block.T, block)
        if stop < x.shape[1]:
            total[start:stop, stop:] += _unless_stopped(matmul, block.T, x[:, stop:])


def mirror(upper: Float[Array, "d d"]) -> None:
    """Copy the upper triangle to the lower one."""
    for start in range(0, upper.shape[0], _COLUMNS):
        stop = min(start + _COLUMNS, upper.shape[0])
        upper[stop:, start:stop] = upper[start:stop, stop:].T


def symmetric_eigen(
    matrix: Float[Array, "n n"], *, overwrite: bool = False
) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """Eigenvalues, largest first, and eigenvectors as columns in the same order.

    On a CPU this needs two n x n arrays, the matrix and the vectors, if the matrix may be overwritten, else three.
    """
    xp = namespace(matrix)
    matrix = float64(matrix)
    if isinstance(matrix, np.ndarray):
        values, vectors = _unless_stopped(_lapack_eigen, matrix, overwrite)
    else:
        values, vectors = xp.linalg.eigh(matrix)
    _fix_signs(vectors)
    return xp.flip(values), xp.flip(vectors, axis=1)


def _lapack_eigen(matrix: Float[np.ndarray, "n n"], overwrite: bool) -> tuple[np.ndarray, np.ndarray]:
    """By divide and conquer (dsyevd), or for a large matrix by relatively robust representations (dsyevr).

    dsyevr takes 1.2 times as long and half of the memory. From n = 32,767 on, the size of dsyevd's workspace, 2 n^2
    numbers, overflows 32 bits.
    """
    require_finite(matrix, "elements of the matrix")
    if len(matrix) <= _QUICK:
        return np.linalg.eigh(matrix)
    columnwise = matrix.T if matrix.flags.c_contiguous else matrix  # the same matrix in LAPACK's order
    if not (overwrite and columnwise.flags.f_contiguous and columnwise.flags.writeable):
        columnwise = columnwise.copy(order="F")
    return dsyevr(columnwise)


def principal_axes(
    x: Float[Array, "m d"], count: int
) -> tuple[Float[Array, " d"], Float[Array, " k"], Float[Array, "k d"]]:
    """Mean, variances (largest first) and unit axes of at most `count` principal components, k <= min(m - 1, d).

    Works on whichever of the two Gram matrices is smaller; axes at rounding level are left out.
    """
    xp = namespace(x)
    x = float64(x)
    mean = xp.mean(x, axis=0)
    centred = x - mean
    samples, columns = x.shape
    wide = samples < columns
    gram = gram_matrix(centred.T if wide else centred)
    gram /= samples
    values, vectors = symmetric_eigen(gram, overwrite=True)
    kept = min(count, numerical_rank(values, max(samples, columns), mean))
    axes = vectors[:, :kept]
    if wide:
        # Orthogonal in theory, but not for small eigenvalues because of rounding: QR restores orthogonality.
        axes = _unless_stopped(xp.linalg.qr, centred.T @ axes / xp.sqrt(values[:kept] * samples))[0]
        _fix_signs(axes)
    return mean, values[:kept], axes.T


def numerical_rank(values: Float[Array, " n"], size: int, mean: Float[Array, " d"]) -> int:
    """Number of eigenvalues of a covariance (largest first) that are above the level of rounding errors.

    The level is that of a float64 matrix of this size, or of the subtracted mean, so that equal rows have rank 0.
    """
    xp = namespace(values)
    if values.shape[0] == 0:
        return 0
    eps = float(xp.finfo(xp.float64).eps)
    floor = max(float(values[0]) * size * eps, (4 * eps) ** 2 * float(xp.sum(mean * mean)), 0.0)
    return int(xp.sum(xp.astype(values > floor, xp.int64)))


def squared_distances(x: Float[Array, "N d"], v: Float[Array, "n d"]) -> Float[Array, "N n"]:
    """|x_i - v_j|^2 by one matrix product, and exactly 0 where x_i equals v_j within rounding.

    The limit is 64 eps (|x|^2 + |v|^2): below it cancellation leaves an error of 2 % or more, and the direction from
    the anchor to the descriptor would be noise.
    """
    xp = namespace(x)
    squares = xp.sum(x * x, axis=1)[:, None] + xp.sum(v * v, axis=1)
    distances = squares - 2 * (x @ v.T)
    return xp.where(distances > 64 * float(xp.finfo(x.dtype).eps) * squares, distances, xp.zeros_like(distances))


def _unless_stopped(function: Callable[..., Any], array: Array, *more: Any) -> Any:
    """A long call on arrays, which Ctrl-C can interrupt on a CPU; on other devices it runs directly, in this thread."""
    call = partial(function, array, *more)
    return interruptible(call) if isinstance(array, np.ndarray) else call()


def _fix_signs(columns: Float[Array, "d k"]) -> None:
    """Fix signs in place, in blocks of columns: a matrix of eigenvectors may fill half of the memory."""
    xp = namespace(columns)
    for start in range(0, columns.shape[1], _SIGNS_AT_ONCE):
        some = columns[:, start : start + _SIGNS_AT_ONCE]
        largest = xp.argmax(xp.abs(some), axis=0)
        peak = xp.take_along_axis(some, largest[None, :], axis=0)
        some *= xp.where(peak < 0, -1.0, 1.0)
