"""Interface of a coding: a_j(x), the coefficient of each anchor for a descriptor, a row of n per descriptor."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from jaxtyping import Float

from faemb.arrays import Array, contiguous, namespace


@dataclass(frozen=True, eq=False)
class Coding(ABC):
    anchors: Float[Array, "n d"]

    @abstractmethod
    def weights(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        """a_j(x_i), for checked descriptors in the library and precision of the anchors."""


def remainder_bounds(x: Float[Array, "N d"], anchors: Float[Array, "n d"], order: int) -> Float[Array, "N n"]:
    """The bound on Taylor's remainder at order k, |x - v_j|_1^(k+1), which penalises distant anchors [DC17, Eq. 12].

    One anchor at a time, along whole rows of x': the difference stays in cache, and its sum is a matrix product.
    """
    xp = namespace(x)
    xt = contiguous(x.T)
    ones = xp.ones_like(anchors[0])
    distances = xp.stack([ones @ xp.abs(xt - anchors[j][:, None]) for j in range(anchors.shape[0])], axis=1)
    bounds = distances
    for _ in range(order):  # repeated products are many times faster than a power
        bounds = bounds * distances
    return bounds
