"""Whitening of embedded descriptors, with statistics in float64.

    phi_w(x) = diag(lambda_1^-1/2, ..., lambda_D^-1/2) P' (phi(x) - mean)               [DC17, Eq. 30]

P and lambda are the eigenvectors and eigenvalues (largest first) of the covariance of embedded descriptors. The
spectrum spans many orders of magnitude and whitening divides by the smallest values, which would amplify rounding
errors of float32 to noise larger than the signal. So statistics are accumulated and decomposed in float64, directions
at the level of rounding errors (the null space) are left out, and small eigenvalues are raised to a fraction of the
largest. The paper does not centre; [JZ14] does, which is the default here.

D length of an embedded descriptor, D' of a whitened one.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float

from faemb.arrays import Array, MatrixLike, as_matrix, float64, like, namespace
from faemb.component import Component
from faemb.errors import InputError
from faemb.linear_algebra import add_gram, mirror, numerical_rank, symmetric_eigen
from faemb.runtime import Progress, silent
from faemb.runtime.threads import reported
from faemb.settings import require_number, require_whole

_REPAID = 100
"""Smallest number of images for which the triangular factor is computed: twice the break-even point."""
_ROWS = 2048
"""Number of rows of D numbers that are processed together."""
_WIDEST = 1e8
"""Largest ratio of eigenvalues for which W'W is computed in float32. Above it errors exceed 0.2 % of K, and K can get
negative eigenvalues. Products with W and then W' lose half as many digits."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and scatter sum (y - mean)(y - mean)' of some rows y, in float64; `+` merges those of two workers.

    Each part is centred on its own mean before it is squared, so that a large mean does not cancel the digits of a
    small variance [Chan, Golub, LeVeque 1983].
    """

    count: int
    mean: Float[Array, " D"]
    scatter: Float[Array, "D D"]

    @classmethod
    def of(cls, rows: MatrixLike) -> "Moments":
        y = float64(as_matrix(rows, "embedded descriptors"))
        return cls.of_parts([namespace(y).asarray(y, copy=True)])

    @classmethod
    def of_parts(cls, parts: Iterable[MatrixLike]) -> "Moments":
        """Moments of the rows of all parts, which are read one at a time: only one D x D array is allocated.

        Parts in float64 are overwritten; each may reuse the memory of the previous one.
        """
        count, mean, scatter = 0, None, None
        for part in parts:
            y = float64(as_matrix(part, "embedded descriptors"))
            if y.shape[0] == 0:
                continue
            xp = namespace(y)
            if scatter is None:
                mean = xp.zeros_like(y[0])
                scatter = xp.zeros((y.shape[1], y.shape[1]), dtype=y.dtype, device=y.device)
            own = xp.mean(y, axis=0)
            step, rows = own - mean, y.shape[0]
            between = step * math.sqrt(count * rows / (count + rows))  # corrects for the difference of the two means
            y -= own
            add_gram(scatter, y)
            if count:
                add_gram(scatter, between[None, :])
            count, mean = count + rows, mean + step * (rows / (count + rows))
        if scatter is None:
            raise InputError(
                "there are no embedded descriptors to learn from; give at least one image with descriptors"
            )
        mirror(scatter)
        return cls(count, mean, scatter)

    def __add__(self, other: "Moments") -> "Moments":
        if self.mean.shape != other.mean.shape:
            raise InputError(
                f"statistics of {self.mean.shape[0]} and of {other.mean.shape[0]} dimensions cannot be merged; "
                "they come from different embeddings"
            )
        total = self.count + other.count
        step = other.mean - self.mean
        scatter = self.scatter + other.scatter
        scatter += step[:, None] * (step * (self.count * other.count / total))
        return Moments(total, self.mean + step * (other.count / total), scatter)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues (largest first) and eigenvectors (columns) of embedded descriptors' covariance, or second moment.

    Computing it takes most of the time; whitenings with different `discard`, `floor` or `raise_last` can share it.
    """

    count: int
    mean: Float[Array, " D"]
    values: Float[Array, " D"]
    vectors: Float[Array, "D D"]

    @classmethod
    def of(cls, moments: Moments, *, centre: bool, overwrite: bool = False) -> "Spectrum":
        """Decompose moments; `overwrite` saves the memory of a copy, and destroys the scatter of the moments."""
        matrix = moments.scatter if overwrite else namespace(moments.scatter).asarray(moments.scatter, copy=True)
        matrix /= moments.count
        if not centre:
            add_gram(matrix, moments.mean[None, :])
            mirror(matrix)
        return cls(moments.count, moments.mean, *symmetric_eigen(matrix, overwrite=True))


class Whitening(Component):
    """Learned: `mean_` (D), `matrix_` (D', D) in float32, `eigenvalues_` (D, before the floor, float64).

    discard:    number of leading components to drop; None: the paper's number for the method
    floor:      eigenvalues are raised to this fraction of the largest; 0 for none
    raise_last: this number of the smallest eigenvalues are raised to the next larger one (the released code: 128)
    centre:     whether the mean is subtracted
    """

    learned = ("mean_", "matrix_", "eigenvalues_")
    mean_: Float[Array, " D"]
    matrix_: Float[Array, "kept D"]
    eigenvalues_: Float[Array, " D"]
    _metric: Array | None = None
    _triangle: Array | None = None

    def __init__(
        self, *, discard: int | None = None, floor: float = 1e-6, raise_last: int = 0, centre: bool = True
    ) -> None:
        self.discard, self.floor, self.raise_last, self.centre = discard, floor, raise_last, centre

    def fit(self, moments: Moments, *, discard: int = 0) -> "Whitening":
        """Learn from statistics; `discard` is used if the setting is None."""
        self.check_with(int(moments.mean.shape[0]), discard)
        return self.fit_spectrum(Spectrum.of(moments, centre=self.centre), discard=discard)

    def dimension_for(self, embedded: int, discard: int = 0) -> int:
        """D' of embedded descriptors of this length that vary in all directions."""
        return max(0, embedded - self._discarded(discard))

    def check_settings(self) -> None:
        require_whole("discard", self._discarded(0), 0)
        require_whole("raise_last", self.raise_last, 0)
        require_number("floor", self.floor, least=0, most=1)

    def check_with(self, dimension: int, discard: int = 0) -> None:
        """Raise an error for settings that do not fit embedded descriptors of this length."""
        self.check_settings()
        require_whole("discard", self._discarded(discard), 0)
        require_whole("raise_last", self.raise_last, 0, dimension - 1)

    def check_loaded(self) -> None:
        super().check_loaded()
        if self.is_fitted and self.matrix_.shape[0] > self.matrix_.shape[1]:
            raise InputError(
                f"the array matrix_ has shape {self.matrix_.shape}; expected at most as many rows as columns"
            )

    def fit_spectrum(self, spectrum: Spectrum, *, discard: int = 0) -> "Whitening":
        """The same, from the decomposition of these statistics with the same `centre`."""
        xp = namespace(spectrum.values)
        values, discard = spectrum.values, self._discarded(discard)
        self.check_with(int(values.shape[0]), discard)
        rank = self._usable(spectrum)
        if rank == 0:
            raise InputError(f"all {spectrum.count} embedded descriptors are equal; give descriptors that differ")
        if discard >= rank:
            raise InputError(
                f"{spectrum.count} embedded descriptors span {rank} directions, and {discard} are to be discarded; "
                f"give more descriptors (well over {values.shape[0]}), or discard fewer"
            )
        scale = 1 / xp.sqrt(self._floored(values)[discard:rank])
        self.matrix_ = _scaled_rows(spectrum.vectors[:, discard:rank], scale)
        self.mean_ = xp.astype(spectrum.mean if self.centre else xp.zeros_like(spectrum.mean), xp.float32)
        self.eigenvalues_ = values
        self._metric = self._triangle = None
        return self

    @property
    def dimension(self) -> int:
        """D', the length of a whitened vector."""
        self.require_fitted()
        return int(self.matrix_.shape[0])

    def apply(self, y: Float[Array, "*B D"]) -> Float[Array, "*B Dw"]:
        """W y; the mean is not subtracted, since only the caller knows the sum of the weights."""
        return _times(self._beside("matrix_", y), y)

    def apply_transposed(self, z: Float[Array, "*B Dw"]) -> Float[Array, "*B D"]:
        """W'z: <W'z, y> = <z, Wy> for an embedded vector y."""
        return _times(self._beside("matrix_", z).T, z)

    def metric(self, y: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
        """W'W y: its inner product with another embedded vector is that of the two whitened vectors."""
        if self._metric is not None:
            return _times(like(self._metric, y), y)
        matrix = self._beside("matrix_", y)
        return _times(matrix.T, _times(matrix, y))

    def prepare_metric(self, images: int, progress: Progress = silent) -> None:
        """Form W'W once if that saves time in encoding this number of images.

        Forming costs D' D^2 operations; each of the 15 or so Gram products of an image then takes D^2 instead of
        2 D' D (fewer only if more than half of the directions are kept), at half the speed of large matrix products.
        """
        self.require_fitted()
        kept, dimension = self.matrix_.shape
        last = self.matrix_[-1]  # a unit vector over the root of the smallest eigenvalue kept
        exact = float(self.eigenvalues_[0]) * float(last @ last) <= _WIDEST
        if self._metric is None and exact and 30 * images * (2 * kept - dimension) > kept * dimension:
            self._metric = self._formed_metric(progress)

    def _formed_metric(self, progress: Progress) -> Float[Array, "D D"]:
        kept, dimension = self.matrix_.shape
        metric = namespace(self.matrix_).zeros(
            (dimension, dimension), dtype=self.matrix_.dtype, device=self.matrix_.device
        )
        for start in range(0, kept, _ROWS):
            progress("preparing to encode", start, kept)
            add_gram(metric, self.matrix_[start : start + _ROWS])
        mirror(metric)
        progress("preparing to encode", kept, kept)
        return metric

    @property
    def factor(self) -> tuple[Float[Array, "Dw D"], bool]:
        """A matrix F with F'F = W'W, and whether it is upper triangular, which it is after `prepare_triangle`."""
        self.require_fitted()
        triangle = self._triangle  # read once: another thread may set it meanwhile
        return (self.matrix_, False) if triangle is None else (triangle, True)

    def prepare_triangle(self, images: int, progress: Progress = silent) -> None:
        """Compute the upper triangular R of W = QR if that saves time in whitening all descriptors of the images.

        Products with R need half as many operations; computing R takes as long as whitening about fifty images. On a
        GPU both are fast, and R is not computed.
        """
        self.require_fitted()
        if self._triangle is None and images >= _REPAID and isinstance(self.matrix_, np.ndarray):
            factorise = partial(np.linalg.qr, self.matrix_, mode="r")
            stage = "preparing to encode: triangular factor of {:,} x {:,}".format(*self.matrix_.shape)
            self._triangle = reported(factorise, stage, progress)

    def to(self, device: str) -> "Whitening":
        self._metric = self._triangle = None
        return super().to(device)

    def _discarded(self, discard: int) -> int:
        return discard if self.discard is None else self.discard

    def _usable(self, spectrum: Spectrum) -> int:
        """Number of directions to keep: all but the null space, or all if `raise_last` covers the null space."""
        size = spectrum.values.shape[0]
        rank = numerical_rank(spectrum.values, size, spectrum.mean)
        rank = min(rank, spectrum.count - 1 if self.centre else spectrum.count)
        return size if 0 < size - rank <= self.raise_last else rank

    def _floored(self, values: Float[Array, " D"]) -> Float[Array, " D"]:
        xp = namespace(values)
        if self.raise_last:
            values = xp.maximum(values, values[-self.raise_last - 1])
        return xp.maximum(values, self.floor * values[0])


def _scaled_rows(columns: Float[Array, "D k"], scale: Float[Array, " k"]) -> Float[Array, "k D"]:
    """The scaled columns as rows in float32; in blocks, since there may be no memory for another copy."""
    xp = namespace(columns)
    rows = xp.empty(columns.shape[::-1], dtype=xp.float32, device=columns.device)
    for start in range(0, rows.shape[0], _ROWS):
        part = slice(start, start + _ROWS)
        rows[part] = xp.astype((columns[:, part] * scale[part]).T, xp.float32)
    return rows


def _times(matrix: Float[Array, "k D"], y: Float[Array, "*B D"]) -> Float[Array, "*B k"]:
    """matrix y for each vector y. On a CPU this order is 1.5 times as fast as `y @ matrix.T`."""
    xp = namespace(y)
    rows = xp.reshape(y, (math.prod(y.shape[:-1]), y.shape[-1]))
    return xp.reshape((matrix @ rows.T).T, (*y.shape[:-1], matrix.shape[0]))
