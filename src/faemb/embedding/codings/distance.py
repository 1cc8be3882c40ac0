"""Codings by distance: the nearest anchor alone (BoW, VLAD, VLAT), or all by their inverse distance (Temb).

[JZ14]: Jegou and Zisserman, "Triangulation embedding and democratic aggregation for image search", CVPR 2014.
"""

from jaxtyping import Float

from faemb.arrays import Array, namespace
from faemb.embedding.codings.base import Coding
from faemb.linear_algebra import squared_distances


class Nearest(Coding):
    """a_j(x) = 1 for the nearest anchor, 0 for the others: the sum-to-one coding with one non-zero entry [DC17, Eq. 6].

    Among equally near anchors (duplicates) the first is used.
    """

    def weights(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        xp = namespace(x)
        squared = squared_distances(x, self.anchors)
        # Equal columns of a matrix product may differ by rounding errors: distances that differ by no more are ties.
        rounding = 8 * float(xp.finfo(x.dtype).eps) * (xp.sum(x * x, axis=1)[:, None] + xp.sum(self.anchors**2, axis=1))
        tied = squared <= xp.min(squared, axis=1, keepdims=True) + rounding
        nearest = xp.argmax(xp.astype(tied, xp.int8), axis=1)
        columns = xp.arange(self.anchors.shape[0], device=xp.asarray(nearest).device)
        return xp.astype(nearest[:, None] == columns, x.dtype)


class InverseDistance(Coding):
    """a_j(x) = 1 / |x - v_j|, so that a_j (x - v_j) is the unit direction from the anchor [JZ14].

    A descriptor that coincides with an anchor gets 0 there: it has no direction.
    """

    def weights(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        xp = namespace(x)
        squared = squared_distances(x, self.anchors)
        apart = squared > 0
        return xp.where(apart, 1 / xp.sqrt(xp.where(apart, squared, xp.ones_like(squared))), xp.zeros_like(squared))
