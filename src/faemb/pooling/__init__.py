"""Pooling of the embedded descriptors of an image into one vector: their sum, weighted by one of these methods.

sum         every weight 1
democratic  each descriptor contributes the same to the image's self-similarity (convex, matrix-free)
sinkhorn    the same with negative similarities set to zero and 10 Sinkhorn iterations, as published
gmp         generalised max pooling: each descriptor is equally similar to the image vector
"""

from functools import partial

from jaxtyping import Float

from faemb.arrays import Array, namespace
from faemb.pooling.democratic import TOLERANCE, Democratic, democratic, sinkhorn
from faemb.pooling.generalised_max import generalised_max
from faemb.pooling.gram import Gram
from faemb.settings import require_choice

POOLINGS = ("sum", "democratic", "sinkhorn", "gmp")

__all__ = ["POOLINGS", "TOLERANCE", "Democratic", "Gram", "democratic", "generalised_max", "sinkhorn", "weights"]


def weights(
    gram: Gram, pooling: str, like_x: Array, *, tolerance: float = TOLERANCE
) -> tuple[Float[Array, "B N"], Float[Array, " B"]]:
    """The weight of each descriptor of each image, 0 for padded rows and for zero vectors; and the ridge of each image.

    `tolerance` is the largest residual of the democratic equation. The ridge is 0 except for images whose democratic
    equation has no solution, or is not solved within the largest number of steps (democratic.py).
    """
    require_choice("pooling", pooling, POOLINGS)
    none = namespace(like_x).zeros_like(like_x[:, 0, 0])
    if pooling == "democratic":
        solved = democratic(
            gram.times, gram.usable, diagonal=partial(gram.diagonal, like_x), like_x=like_x, tolerance=tolerance
        )
        return solved.weights, solved.ridge
    if pooling == "sinkhorn":
        return sinkhorn(gram.kernel(), gram.usable), none
    if pooling == "gmp":
        return generalised_max(gram.times, gram.usable, diagonal=gram.diagonal(like_x)), none
    return namespace(like_x).astype(gram.real, like_x.dtype), none
