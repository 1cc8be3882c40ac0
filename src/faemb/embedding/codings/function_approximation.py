"""FAemb's coding: sum-to-one regression on the anchors, each weighed by its Taylor remainder [DC17, Eq. 18].

    min_g  1/2 |x - V'g|^2 + mu/2 sum_j |g_j| |x - v_j|_1^(k+1)   s.t. 1'g = 1

The paper stops a damped Newton iteration early; here the convex problem is solved to its optimum (weighted_l1.py).
"""

from dataclasses import dataclass

from jaxtyping import Float

from faemb.arrays import Array, like, namespace
from faemb.embedding.codings.base import Coding
from faemb.embedding.codings.remainder import remainder_bounds
from faemb.embedding.codings.weighted_l1 import WeightedL1


@dataclass(frozen=True, eq=False)
class FunctionApproximation(Coding):
    mu: float = 1e-2
    order: int = 2

    def weights(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        return like(self._solver.solve(x, self._costs(x)), x)

    def kkt_residual(self, x: Float[Array, "N d"], g: Float[Array, "N n"]) -> Float[Array, " N"]:
        """Distance of g from optimality, one number per descriptor."""
        return self._solver.kkt(x, self._costs(x), g)

    def penalties(self, g: Float[Array, "N n"]) -> Float[Array, "N n"]:
        """What multiplies each anchor's bound in the objective: |g_j| [DC17, Eq. 19]."""
        return namespace(g).abs(g)

    @property
    def _solver(self) -> WeightedL1:
        return WeightedL1(self.anchors, sum_to_one=True)

    def _costs(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        return 0.5 * self.mu * remainder_bounds(x, self.anchors, self.order)
