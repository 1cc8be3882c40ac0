"""The share of each descriptor of an image in the similarity of its vector to another vector.

The pooled vector is a sum over descriptors; not all later steps (power law, normalisation, rotation) are linear. They
are replaced by a linear map with the same result for this pooled vector p: the norms, and the factor |p_j|^(power - 1)
by which the power law multiplies a component, are fixed at their values for the whole image. So

    <finish(p), v> = sum_i share_i + constant,     share_i = w_i <phi_w(x_i), A v>,     A the transposed linear map

This neglects that a descriptor also changes those norms and factors. The factor is unbounded near zero, so it is
limited to that of `NEAR_ZERO`; the sum of the shares then differs from the inner product by less than 0.001. The
constant is 0 unless a rotation subtracts a mean.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from faemb.arrays import like, to_numpy
from faemb.encoder import Encoder
from faemb.normalise import power_law
from faemb.rotation import Rotation

NEAR_ZERO = 0.02
"""Components smaller than this times the root mean square get the factor of a component of this size. Among 0, 0.01,
0.03, 0.1 and 0.3, shares with values near this one agree best with the change of similarity when a descriptor is left
out: correlation 0.95 on photographs."""

Vector = Float[np.ndarray, " _"]


def shares(encoder: Encoder, descriptors: Float[np.ndarray, "n d"], other: Vector) -> Float[np.ndarray, " n"]:
    """Contribution of each descriptor of an image to the inner product of its vector with `other`, in input order."""
    if not len(descriptors):
        return np.zeros(0)
    gram, weights = encoder.terms(descriptors)
    direction = _before_finishing(encoder, _float64(gram.vector(weights))[0], other.astype(np.float64))
    return _float64(weights * gram.products(like(direction[None], weights)))[0]


def _before_finishing(encoder: Encoder, pooled: Vector, other: Vector) -> Vector:
    """A v: the direction onto which pooled vectors are projected. The steps are those of `Encoder.finish`."""
    steps = _Steps(pooled)
    if encoder.whitening_ is None:
        steps.like(_float64(encoder.embedding_.after_pooling(pooled[None]))[0])
    if encoder.finishing == "paper":
        steps.power_law(encoder.power)
    steps.unit_length()
    if encoder.rotation_ is not None:
        steps.rotate(encoder.rotation_)
    steps.select(slice(encoder.discard_after, None))
    if encoder.finishing == "released":
        steps.power_law(encoder.power)
    steps.select(slice(encoder.keep))
    steps.unit_length()
    return steps.back(other)


class _Steps:
    """Steps on one vector, each represented by a linear map with the same result for it."""

    def __init__(self, vector: Vector) -> None:
        self._vector = vector
        self._transposed: list[Callable[[Vector], Vector]] = []

    def like(self, result: Vector) -> None:
        """Multiply each component so that the vector becomes `result`; zero components stay zero."""
        before = self._vector
        self._times(np.divide(result, before, out=np.zeros_like(before), where=before != 0), result)

    def power_law(self, power: float) -> None:
        self._times(_factor(self._vector, power), power_law(self._vector, power))

    def unit_length(self) -> None:
        length = float(np.linalg.norm(self._vector)) or 1.0
        self._times(np.array(1 / length), self._vector / length)

    def rotate(self, rotation: Rotation) -> None:
        self._transposed.append(lambda back: _float64(rotation.transposed(back[None]))[0])
        self._vector = _float64(rotation.transform(self._vector[None]))[0]

    def select(self, components: slice) -> None:
        whole = np.zeros_like(self._vector)

        def padded(back: Vector) -> Vector:
            whole[components] = back
            return whole

        self._transposed.append(padded)
        self._vector = self._vector[components]

    def back(self, other: Vector) -> Vector:
        """Apply the transposed maps to a vector, the last one first."""
        for step in reversed(self._transposed):
            other = step(other)
        return other

    def _times(self, factor: np.ndarray, result: Vector) -> None:
        self._transposed.append(lambda back: factor * back)
        self._vector = result


def _factor(vector: Vector, power: float) -> Vector:
    """|a|^(power - 1), by which the power law multiplies each component; limited near zero."""
    least = NEAR_ZERO * np.sqrt(np.mean(vector**2))
    return np.maximum(np.abs(vector), least or 1.0) ** (power - 1)


def _float64(array: object) -> np.ndarray:
    return to_numpy(array).astype(np.float64)
