"""FAemb's coding: sum-to-one regression on the anchors, each weighed by its Taylor remainder [DC17, Eq. 18].

    min_g  1/2 |x - V'g|^2 + mu/2 sum_j |g_j| |x - v_j|_1^(k+1)   s.t. 1'g = 1

The paper stops a damped Newton iteration early; here the convex problem is solved to its optimum.
"""

from dataclasses import dataclass

from jaxtyping import Float

from faemb.arrays import Array, namespace
from faemb.embedding.codings.remainder import remainder_bounds
from faemb.embedding.codings.sparse import Sparse


@dataclass(frozen=True, eq=False)
class FunctionApproximation(Sparse):
    mu: float = 1e-2
    order: int = 2
    sum_to_one = True

    def costs(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        return 0.5 * self.mu * remainder_bounds(x, self.anchors, self.order)

    def penalties(self, g: Float[Array, "N n"]) -> Float[Array, "N n"]:
        """What multiplies each anchor's bound in the objective: |g_j| [DC17, Eq. 19]."""
        return namespace(g).abs(g)
