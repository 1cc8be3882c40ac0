"""Rotation normalisation (RN): image vectors in the principal axes of the learning images' vectors.

    y = Q'(x - mean)          Q orthogonal, its first k columns the principal axes

Two variants. "whiten" [DC17, Sec. 5.2.4] also divides each component by its standard deviation; components beyond the
learning set's rank take the smallest deviation kept. "rotate" (the released code) only rotates.

There are usually fewer learning images than dimensions, so the k axes are completed to an orthogonal matrix. It is
never formed: with E the first k columns of the identity, up to signs, and P the axes,

    Q = I - Y T Y',    Y = E - P,    T = (Y'E)^-1

is orthogonal and has Q E = P. A product costs 4 k D operations instead of 2 D^2.
"""

import numpy as np
from jaxtyping import Float

from faemb.arrays import Array, MatrixLike, as_matrix, contiguous, like, namespace, to_numpy
from faemb.component import Component
from faemb.errors import InputError
from faemb.linear_algebra import principal_axes
from faemb.settings import require_choice, require_number, require_whole

MAX_AXES = 1024
VARIANTS = ("whiten", "rotate")


class Rotation(Component):
    """Learned: `mean_` (D), `axes_` (k, D), `signs_` (k), `scales_` (D).

    variant: "whiten" or "rotate"; max_axes: largest number of principal axes to learn, which are completed to an
    orthogonal matrix; floor: smallest variance used for whitening, as a fraction of the largest.
    """

    learned = ("mean_", "axes_", "signs_", "scales_")
    mean_: Float[Array, " D"]
    axes_: Float[Array, "k D"]
    signs_: Float[Array, " k"]
    scales_: Float[Array, " D"]

    def __init__(self, variant: str = "rotate", *, max_axes: int = MAX_AXES, floor: float = 1e-3) -> None:
        self.variant, self.max_axes, self.floor = variant, max_axes, floor

    def check_settings(self) -> None:
        require_choice("variant", self.variant, VARIANTS)
        require_whole("max_axes", self.max_axes, 1)
        require_number("floor", self.floor, least=0, most=1)

    def check_loaded(self) -> None:
        super().check_loaded()
        if self.is_fitted and self.axes_.shape[0] > self.axes_.shape[1]:
            raise InputError(f"the array axes_ has shape {self.axes_.shape}; expected at most as many rows as columns")

    def fit(self, vectors: MatrixLike, y: object = None) -> "Rotation":
        """Learn from image vectors; `y` is ignored."""
        self.check_settings()
        x = as_matrix(vectors, "image vectors")
        xp = namespace(x)
        if x.shape[0] < 2:
            raise InputError(f"{x.shape[0]} image vectors are too few for a rotation; give at least 2")
        mean, variances, axes = principal_axes(x, min(self.max_axes, x.shape[1]))
        if axes.shape[0] == 0:
            raise InputError("all image vectors are equal; a rotation cannot be learned from them")
        self.mean_ = xp.astype(mean if self.variant == "whiten" else xp.zeros_like(mean), x.dtype)
        self.axes_ = contiguous(xp.astype(axes, x.dtype))
        self.signs_ = like(_signs(to_numpy(axes)), x)
        self.scales_ = xp.astype(self._scales(variances, x.shape[1]), x.dtype)
        return self

    def transform(self, x: MatrixLike) -> Float[Array, "B D"]:
        """Rotated vectors, of the same length."""
        self.require_fitted()
        rows = self._checked(x)
        xp = namespace(rows)
        centred = rows - self._beside("mean_", rows)
        axes = self._beside("axes_", rows)
        k, dimension = axes.shape
        if k == dimension:
            return (centred @ axes.T) * self._beside("scales_", centred)
        signs = self._beside("signs_", centred)
        corner = xp.eye(k, dtype=centred.dtype, device=centred.device) - axes[:, :k] * signs  # Y'E
        y_x = centred[:, :k] * signs - centred @ axes.T  # Y'x
        t_y_x = xp.linalg.solve(corner.T, y_x.T).T  # T'Y'x
        head = centred[:, :k] - t_y_x * signs + t_y_x @ axes[:, :k]
        tail = centred[:, k:] + t_y_x @ axes[:, k:]
        return xp.concat([head * signs, tail], axis=1) * self._beside("scales_", centred)

    def transposed(self, y: MatrixLike) -> Float[Array, "B D"]:
        """The adjoint of the linear part of `transform`: <transform(x) - transform(0), y> = <x, transposed(y)>."""
        self.require_fitted()
        rows = self._checked(y)
        xp = namespace(rows)
        scaled, axes = rows * self._beside("scales_", rows), self._beside("axes_", rows)
        k, dimension = axes.shape
        if k == dimension:
            return scaled @ axes
        signs = self._beside("signs_", rows)
        scaled = xp.concat([scaled[:, :k] * signs, scaled[:, k:]], axis=1)
        corner = xp.eye(k, dtype=scaled.dtype, device=scaled.device) - axes[:, :k] * signs  # Y'E
        t_y_y = xp.linalg.solve(corner, (scaled[:, :k] * signs - scaled @ axes.T).T).T  # T Y'y
        head = scaled[:, :k] - t_y_y * signs + t_y_y @ axes[:, :k]
        return xp.concat([head, scaled[:, k:] + t_y_y @ axes[:, k:]], axis=1)

    def leading(self, x: MatrixLike, count: int) -> Float[Array, "B c"]:
        """The first components of `transform(x)`, much faster if all of them belong to learned axes."""
        self.require_fitted()
        if count > self.axes_.shape[0]:
            return self.transform(x)[:, :count]
        rows = self._checked(x)
        centred = rows - self._beside("mean_", rows)
        return (centred @ self._beside("axes_", rows)[:count].T) * self._beside("scales_", rows)[:count]

    def _checked(self, vectors: MatrixLike) -> Float[Array, "B D"]:
        return as_matrix(vectors, "image vectors", columns=int(self.mean_.shape[0]))

    def _scales(self, variances: Float[Array, " k"], dimension: int) -> Float[Array, " D"]:
        xp = namespace(variances)
        if self.variant == "rotate":
            return xp.ones(dimension, dtype=variances.dtype, device=variances.device)
        kept = xp.maximum(variances, self.floor * variances[0])
        rest = xp.zeros(dimension - kept.shape[0], dtype=kept.dtype, device=kept.device) + kept[-1]
        return 1 / xp.sqrt(xp.concat([kept, rest]))


def _signs(axes: Float[np.ndarray, "k D"]) -> Float[np.ndarray, " k"]:
    """Signs of E's columns that keep Y'E well conditioned: an LU elimination whose pivots are all at least 1.

    Any signs give a valid rotation; these are the ones that Householder's QR chooses, column by column.
    """
    a = axes[:, : len(axes)].T.copy()
    signs = np.empty(len(axes))
    for i in range(len(axes)):
        signs[i] = -1.0 if a[i, i] >= 0 else 1.0
        a[i, i] -= signs[i]
        a[i + 1 :, i] /= a[i, i]
        a[i + 1 :, i + 1 :] -= np.outer(a[i + 1 :, i], a[i, i + 1 :])
    return signs
