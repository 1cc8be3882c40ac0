"""TLCC's coordinate coding: l1 regression on the anchors, each weighed by its cubed distance [DC17, Eq. 4].

    min_g  1/2 |x - V'g|^2 + mu/2 sum_j |g_j| |x - v_j|_2^3

Without the sum-to-one constraint, which TLCC's definition asks for and its optimisation leaves out [DC17, Sec. 3.3].
[YZ10]: Yu and Zhang, "Improved local coordinate coding using local tangents", ICML 2010.
"""

from dataclasses import dataclass

from jaxtyping import Float

from faemb.arrays import Array
from faemb.embedding.codings.sparse import Sparse
from faemb.linear_algebra import squared_distances


@dataclass(frozen=True, eq=False)
class Tangent(Sparse):
    mu: float = 1e-2
    sum_to_one = False

    def costs(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        return 0.5 * self.mu * squared_distances(x, self.anchors) ** 1.5
