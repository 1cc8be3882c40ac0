"""Codings that solve a weighted l1 regression on the anchors (weighted_l1.py): FAemb's and TLCC's.

[YZ10]: Yu and Zhang, "Improved local coordinate coding using local tangents", ICML 2010.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float

from faemb.arrays import Array, like, namespace
from faemb.embedding.codings.base import Coding, remainder_bounds
from faemb.embedding.codings.weighted_l1 import WeightedL1
from faemb.linear_algebra import squared_distances


@dataclass(frozen=True, eq=False)
class Sparse(Coding):
    """A subclass defines the cost of each anchor, and whether the coefficients must sum to one."""

    sum_to_one: ClassVar[bool]

    @abstractmethod
    def costs(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        """Cost of a unit of each coefficient."""

    def weights(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        return like(WeightedL1(self.anchors, self.sum_to_one).solve(x, self.costs(x)), x)

    def kkt_residual(self, x: Float[Array, "N d"], g: Float[Array, "N n"]) -> Float[Array, " N"]:
        """Distance of g from optimality, one number per descriptor."""
        return WeightedL1(self.anchors, self.sum_to_one).kkt(x, self.costs(x), g)


@dataclass(frozen=True, eq=False)
class FunctionApproximation(Sparse):
    """FAemb's coding: sum-to-one regression, each anchor penalised by its Taylor remainder [DC17, Eq. 18].

        min_g  1/2 |x - V'g|^2 + mu/2 sum_j |g_j| |x - v_j|_1^(k+1)   s.t. 1'g = 1

    The paper stops a damped Newton iteration early; here the convex problem is solved to its optimum.
    """

    mu: float = 1e-2
    order: int = 2
    sum_to_one = True

    def costs(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        return 0.5 * self.mu * remainder_bounds(x, self.anchors, self.order)

    def penalties(self, g: Float[Array, "N n"]) -> Float[Array, "N n"]:
        """Factor of each anchor's bound in the objective: |g_j| [DC17, Eq. 19]."""
        return namespace(g).abs(g)


@dataclass(frozen=True, eq=False)
class Tangent(Sparse):
    """TLCC's coordinate coding: l1 regression, each anchor penalised by its cubed distance [DC17, Eq. 4].

        min_g  1/2 |x - V'g|^2 + mu/2 sum_j |g_j| |x - v_j|_2^3

    There is no sum-to-one constraint: TLCC's definition [YZ10] requires it, its optimisation omits it [DC17, Sec. 3.3].
    """

    mu: float = 1e-2
    sum_to_one = False

    def costs(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        return 0.5 * self.mu * squared_distances(x, self.anchors) ** 1.5
