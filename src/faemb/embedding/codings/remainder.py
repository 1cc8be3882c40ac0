"""The bound on Taylor's remainder that weighs the anchors: |x - v_j|_1^(k+1) at order k [DC17, Eq. 12]."""

from jaxtyping import Float

from faemb.arrays import Array, contiguous, namespace


def remainder_bounds(x: Float[Array, "N d"], anchors: Float[Array, "n d"], order: int) -> Float[Array, "N n"]:
    """One anchor at a time, along whole rows of x': the difference stays in cache, and its sum is a matrix product."""
    xp = namespace(x)
    xt = contiguous(x.T)
    ones = xp.ones_like(anchors[0])
    distances = xp.stack([ones @ xp.abs(xt - anchors[j][:, None]) for j in range(anchors.shape[0])], axis=1)
    bounds = distances
    for _ in range(order):  # repeated products are many times faster than a power
        bounds = bounds * distances
    return bounds
