"""Nearest-anchor coding: a_j(x) = 1 for the nearest anchor, 0 for the others (BoW, VLAD, VLAT).

The sum-to-one coding with exactly one non-zero entry [DC17, Eq. 6].
"""

from jaxtyping import Float

from faemb.arrays import Array, namespace
from faemb.embedding.codings.base import Coding
from faemb.linear_algebra import squared_distances


class Nearest(Coding):
    """Of equally near anchors (duplicates) the first is taken."""

    def weights(self, x: Float[Array, "N d"]) -> Float[Array, "N n"]:
        xp = namespace(x)
        squared = squared_distances(x, self.anchors)
        # Equal columns of a matrix product may differ by rounding: what is nearest up to that is nearest.
        rounding = 8 * float(xp.finfo(x.dtype).eps) * (xp.sum(x * x, axis=1)[:, None] + xp.sum(self.anchors**2, axis=1))
        tied = squared <= xp.min(squared, axis=1, keepdims=True) + rounding
        nearest = xp.argmax(xp.astype(tied, xp.int8), axis=1)
        columns = xp.arange(self.anchors.shape[0], device=xp.asarray(nearest).device)
        return xp.astype(nearest[:, None] == columns, x.dtype)
