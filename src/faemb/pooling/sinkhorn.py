"""Democratic weights as usually computed: negative inner products clipped to zero, a few Sinkhorn iterations [JZ14].

Kept for comparison with published numbers. Clipping changes the equation, and acts entry by entry on K, so that the
N x N matrix must be formed; the exact solution (democratic.py) needs neither.
"""

from jaxtyping import Bool, Float

from faemb.arrays import Array, namespace


def sinkhorn(kernel: Float[Array, "B N N"], votes: Bool[Array, "B N"], *, iterations: int = 10) -> Float[Array, "B N"]:
    """l := l / sqrt(l * (max(K, 0) l)), so many times."""
    xp = namespace(kernel)
    mask = xp.astype(votes, kernel.dtype)
    kernel = xp.clip(kernel, min=0)
    weights = mask
    for _ in range(iterations):
        product = weights * (kernel @ weights[..., None])[..., 0]
        weights = mask * weights / xp.sqrt(xp.where(product > 0, product, xp.ones_like(product)))
    return weights
