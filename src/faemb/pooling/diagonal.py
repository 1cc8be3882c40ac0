"""The size of K's diagonal when K can only be multiplied: a few of its entries, exactly."""

from collections.abc import Callable

from jaxtyping import Float

from faemb.arrays import Array, namespace

_PROBES = 8


def mean_diagonal(times: Callable[[Array], Array], mask: Float[Array, "B N"]) -> Float[Array, "B 1"]:
    """Mean of K_ii over eight descriptors of each image; `mask` is 1 for those with a vote.

    They are spread evenly over the descriptors as ranked by their similarity to the image's sum, so that the order in
    which descriptors come does not matter.
    """
    xp = namespace(mask)
    similarity = xp.where(mask > 0, times(mask), xp.full_like(mask, xp.inf))
    rank = xp.argsort(xp.argsort(similarity, axis=1), axis=1)
    count = xp.sum(mask, axis=1, keepdims=True)
    total = xp.zeros_like(count)
    for probe in range(_PROBES):
        place = xp.astype(xp.floor(count * ((probe + 0.5) / _PROBES)), rank.dtype)
        chosen = xp.astype(rank == place, mask.dtype) * mask
        total = total + xp.sum(chosen * times(chosen), axis=1, keepdims=True)
    return total / _PROBES
