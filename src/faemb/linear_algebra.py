"""Decompositions with the precision and the determinism that the pipeline relies on.

Always float64, eigenvalues in descending order, and the sign of each vector fixed so that its largest component is
positive: the same machine gives the same bits, and two machines give vectors that can be compared.
"""

from jaxtyping import Float

from faemb.arrays import Array, float64, namespace

_COLUMNS = 4096


def gram_matrix(x: Float[Array, "m d"]) -> Float[Array, "d d"]:
    """x'x, by blocks of columns.

    OpenBLAS 0.3.31, which NumPy's packages contain, has crashed in its symmetric product of 15,400 float64 columns and
    more with two threads. Each block is multiplied with all columns from its first on; the other half is mirrored.
    """
    xp = namespace(x)
    columns = x.shape[1]
    if columns <= _COLUMNS:
        return x.T @ x
    product = xp.empty((columns, columns), dtype=x.dtype, device=x.device)
    for start in range(0, columns, _COLUMNS):
        stop = min(start + _COLUMNS, columns)
        product[start:stop, start:] = x[:, start:stop].T @ x[:, start:]
        product[stop:, start:stop] = product[start:stop, stop:].T
    return product


def symmetric_eigen(matrix: Float[Array, "n n"]) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """Eigenvalues, largest first, and eigenvectors as columns in the same order."""
    xp = namespace(matrix)
    values, vectors = xp.linalg.eigh(float64(matrix))
    return xp.flip(values), _fix_signs(xp.flip(vectors, axis=1))


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
    values, vectors = symmetric_eigen(gram_matrix(centred.T if wide else centred) / samples)
    kept = min(count, numerical_rank(values, max(samples, columns), mean))
    axes = vectors[:, :kept]
    if wide:
        # Orthogonal in theory; rounding spoils the axes of small eigenvalues, and QR restores them.
        axes = _fix_signs(xp.linalg.qr(centred.T @ axes / xp.sqrt(values[:kept] * samples))[0])
    return mean, values[:kept], axes.T


def numerical_rank(values: Float[Array, " n"], size: int, mean: Float[Array, " d"]) -> int:
    """Number of eigenvalues of a covariance (largest first) that are above rounding level.

    That is the rounding of a float64 matrix of this size, or of the mean that was subtracted: equal rows have rank 0.
    """
    xp = namespace(values)
    if values.shape[0] == 0:
        return 0
    eps = float(xp.finfo(xp.float64).eps)
    floor = max(float(values[0]) * size * eps, (4 * eps) ** 2 * float(xp.sum(mean * mean)), 0.0)
    return int(xp.sum(xp.astype(values > floor, xp.int64)))


def squared_distances(x: Float[Array, "N d"], v: Float[Array, "n d"]) -> Float[Array, "N n"]:
    """|x_i - v_j|^2 by one matrix product, and exactly 0 where x_i equals v_j within rounding.

    That is below 64 units of rounding of |x|^2 + |v|^2: there the cancelled difference is right to about 2 %, and a
    direction from the anchor to the descriptor would be noise.
    """
    xp = namespace(x)
    squares = xp.sum(x * x, axis=1)[:, None] + xp.sum(v * v, axis=1)
    distances = squares - 2 * (x @ v.T)
    return xp.where(distances > 64 * float(xp.finfo(x.dtype).eps) * squares, distances, xp.zeros_like(distances))


def _fix_signs(columns: Float[Array, "d k"]) -> Float[Array, "d k"]:
    xp = namespace(columns)
    if columns.shape[1] == 0:
        return columns
    largest = xp.argmax(xp.abs(columns), axis=0)
    peak = xp.take_along_axis(columns, largest[None, :], axis=0)
    return columns * xp.where(peak < 0, -1.0, 1.0)
