"""The bound on Taylor's remainder that weighs the anchors: |x - v_j|_1^(k+1) at order k [DC17, Eq. 12]."""

from jaxtyping import Float

from faemb.arrays import Array, namespace


def remainder_bounds(x: Float[Array, "N d"], anchors: Float[Array, "n d"], order: int) -> Float[Array, "N n"]:
    """One anchor at a time: the N x d difference stays in cache, and its sum is a matrix-vector product."""
    xp = namespace(x)
    ones = xp.ones_like(anchors[0])
    distances = [xp.abs(x - anchors[j]) @ ones for j in range(anchors.shape[0])]
    return xp.stack(distances, axis=1) ** (order + 1)
