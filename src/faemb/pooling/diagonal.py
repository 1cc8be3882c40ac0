"""The size of K's diagonal when K can only be multiplied: a few of its entries, exactly."""

from collections.abc import Callable

from jaxtyping import Float

from faemb.arrays import Array, namespace

_PROBES = 8


def mean_diagonal(times: Callable[[Array], Array], mask: Float[Array, "B N"]) -> Float[Array, "B 1"]:
    """Mean of K_ii over eight descriptors spread evenly through each image; `mask` is 1 for those with a vote."""
    xp = namespace(mask)
    rank = xp.cumulative_sum(mask, axis=1) * mask  # 1, 2, 3, ... along the descriptors with a vote
    count = xp.sum(mask, axis=1, keepdims=True)
    total = xp.zeros_like(count)
    for probe in range(_PROBES):
        chosen = xp.astype(rank == xp.floor(count * (probe / _PROBES)) + 1, mask.dtype) * mask
        total = total + xp.sum(chosen * times(chosen), axis=1, keepdims=True)
    return total / _PROBES
