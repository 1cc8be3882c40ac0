"""Triangulation coding: a_j(x) = 1 / |x - v_j|, so that a_j (x - v_j) is the unit direction from the anchor (Temb).

[JZ14]: Jegou and Zisserman, "Triangulation embedding and democratic aggregation for image search", CVPR 2014.
"""

from jaxtyping import Float

from faemb.arrays import Array, namespace
from faemb.embedding.codings.base import Coding
from faemb.linear_algebra import squared_distances


class InverseDistance(Coding):
    """A descriptor that sits on an anchor gets weight 0 there: it has no direction."""

    def weights(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        xp = namespace(x)
        squared = squared_distances(x, self.anchors)
        apart = squared > 0
        return xp.where(apart, 1 / xp.sqrt(xp.where(apart, squared, xp.ones_like(squared))), xp.zeros_like(squared))
