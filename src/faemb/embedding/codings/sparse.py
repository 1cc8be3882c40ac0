"""Codings that are the solution of a weighted l1 regression on the anchors (weighted_l1.py): FAemb's and TLCC's."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float

from faemb.arrays import Array, like
from faemb.embedding.codings.base import Coding
from faemb.embedding.codings.weighted_l1 import WeightedL1


@dataclass(frozen=True, eq=False)
class Sparse(Coding):
    """A subclass says what each anchor costs, and whether the coefficients must sum to one."""

    sum_to_one: ClassVar[bool]

    @abstractmethod
    def costs(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        """What a unit of each coefficient costs."""

    def weights(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        return like(WeightedL1(self.anchors, self.sum_to_one).solve(x, self.costs(x)), x)

    def kkt_residual(self, x: Float[Array, "N d"], g: Float[Array, "N n"]) -> Float[Array, " N"]:
        """Distance of g from optimality, one number per descriptor."""
        return WeightedL1(self.anchors, self.sum_to_one).kkt(x, self.costs(x), g)
