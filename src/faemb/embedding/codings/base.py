"""A coding says how much each anchor speaks for a descriptor: a_j(x), one row of n numbers per descriptor."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from jaxtyping import Float

from faemb.arrays import Array


@dataclass(frozen=True, eq=False)
class Coding(ABC):
    anchors: Float[Array, "n d"]

    @abstractmethod
    def weights(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        """a_j(x_i), for checked descriptors in the library and precision of the anchors."""
