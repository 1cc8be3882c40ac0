"""Generalised max pooling: weights that make every descriptor equally similar to the image vector.

    (K + c I) a = 1                                            [Murray, Perronnin 2014]

solved by conjugate gradients for all images of a batch together, with products with K only. `ridge` is c relative to
the mean diagonal of K.
"""

from collections.abc import Callable

from jaxtyping import Bool, Float

from faemb.arrays import Array, namespace


def generalised_max(
    times: Callable[[Array], Array],
    usable: Bool[Array, "B N"],
    *,
    diagonal: Float[Array, "B N"],
    ridge: float = 1.0,
    tolerance: float = 1e-3,
    steps: int = 100,
) -> Float[Array, "B N"]:
    """Weights; 0 for padded rows and zero vectors. `diagonal` is an estimate of K_ii."""
    xp = namespace(diagonal)
    target = xp.astype(usable, diagonal.dtype)
    weights = xp.zeros_like(target)
    shift = ridge * xp.sum(diagonal * target, axis=1, keepdims=True)
    shift = shift / xp.clip(xp.sum(target, axis=1, keepdims=True), min=1)
    r = p = target
    rr = start = xp.sum(r * r, axis=1, keepdims=True)
    for _ in range(steps):
        product = target * times(p) + shift * p
        curvature = xp.sum(p * product, axis=1, keepdims=True)
        alpha = rr / xp.where(curvature > 0, curvature, xp.ones_like(curvature))
        weights, r = weights + alpha * p, r - alpha * product
        new = xp.sum(r * r, axis=1, keepdims=True)
        if bool(xp.all(new <= tolerance**2 * start)):
            break
        p, rr = r + new / xp.where(rr > 0, rr, xp.ones_like(rr)) * p, new
    return weights
