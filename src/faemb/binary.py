"""Binary codes by iterative quantisation (ITQ), packed eight bits to a byte, and their Hamming distances.

PCA to b dimensions, then a rotation R that brings the projected data close to the corners of a cube:

    min_{B in {-1,1}, R orthogonal} |B - V R|^2, alternating B = sign(V R) and R = U W' from the SVD of V'B = U S W'

[Gong, Lazebnik, Gordo, Perronnin 2013].
"""

import numpy as np
from jaxtyping import Float, UInt8

from faemb.arrays import Array, MatrixLike, as_matrix, contiguous, float64, like, namespace, to_numpy
from faemb.component import Component
from faemb.errors import InputError
from faemb.linear_algebra import principal_axes
from faemb.settings import require_whole


class ITQ(Component):
    """Learned: `mean_` (D), `projection_` (D, bits), PCA and rotation in one. `bits` is a multiple of 8."""

    learned = ("mean_", "projection_")
    mean_: Float[Array, " D"]
    projection_: Float[Array, "D bits"]

    def __init__(self, bits: int = 512, *, iterations: int = 50, seed: int = 0) -> None:
        self.bits, self.iterations, self.seed = bits, iterations, seed

    def check_settings(self) -> None:
        require_whole("bits", self.bits, 8)
        require_whole("iterations", self.iterations, 0)
        if self.bits % 8:
            raise InputError(
                f"bits is {self.bits}; expected a positive multiple of 8, since codes are packed into bytes"
            )
        require_whole("seed", self.seed, 0)

    def fit(self, vectors: MatrixLike, y: object = None) -> "ITQ":
        """Learn from image vectors; `y` is ignored."""
        self.check_settings()
        x = as_matrix(vectors, "image vectors")
        xp = namespace(x)
        mean, _, axes = principal_axes(x, self.bits) if x.shape[0] else (None, None, x)
        if axes.shape[0] < self.bits:
            raise InputError(
                f"{x.shape[0]} image vectors of length {x.shape[1]} span {axes.shape[0]} directions; "
                f"{self.bits} bits need at least as many: add images, or use fewer bits"
            )
        projected = (float64(x) - mean) @ axes.T
        rotation = self._rotation(projected)
        self.mean_ = xp.astype(mean, x.dtype)
        self.projection_ = contiguous(xp.astype(axes.T @ rotation, x.dtype))
        return self

    def encode(self, x: MatrixLike) -> UInt8[Array, "B bytes"]:
        """Packed codes; the first bit is the most significant of its byte, as in np.packbits. Alias: `transform`."""
        self.require_fitted()
        rows = as_matrix(x, "image vectors", columns=int(self.mean_.shape[0]))
        xp = namespace(rows)
        bits = (rows - self._beside("mean_", rows)) @ self._beside("projection_", rows) > 0
        places = like(2 ** np.arange(7, -1, -1), rows, dtype=xp.uint8)
        octets = xp.reshape(xp.astype(bits, xp.uint8), (rows.shape[0], self.bits // 8, 8))
        return xp.sum(octets * places, axis=2, dtype=xp.uint8)

    transform = encode

    def _rotation(self, projected: Float[Array, "m b"]) -> Float[Array, "b b"]:
        xp = namespace(projected)
        start = np.random.default_rng(self.seed).standard_normal((self.bits, self.bits))
        rotation = xp.linalg.qr(like(start, projected))[0]
        for _ in range(self.iterations):
            corners = xp.where(projected @ rotation > 0, 1.0, -1.0)
            u, _, wt = xp.linalg.svd(projected.T @ xp.astype(corners, projected.dtype))
            rotation = u @ wt
        return rotation


def hamming(a: MatrixLike, b: MatrixLike) -> np.ndarray:
    """Hamming distances (A, B) between packed codes, computed in NumPy, one row of `a` at a time."""
    first, second = to_numpy(a), to_numpy(b)
    packed = all(codes.dtype == np.uint8 and codes.ndim == 2 for codes in (first, second))
    if not packed or first.shape[1] != second.shape[1]:
        raise InputError(
            f"codes are {first.dtype} {first.shape} and {second.dtype} {second.shape}; "
            "expected (images, bytes) arrays of packed uint8 codes of one length"
        )
    distances = np.empty((len(first), len(second)), np.int32)
    for row, code in zip(distances, first, strict=True):
        np.bitwise_count(code ^ second).sum(axis=1, dtype=np.int32, out=row)
    return distances
