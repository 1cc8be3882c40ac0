"""How improbable an agreement of matches is by chance (a-contrario reasoning, Moisan and Stival 2004).

A wrong match agrees with a transform with probability p: the share of the image's area within the tolerance. The
probability that k or more of M wrong matches agree is at most exp(-M KL(k/M || p)); M transforms are tried.
"""

import numpy as np
from jaxtyping import Bool, Float, Int, Num

CELL = 0.02
"""Side of the cells, in diagonals; all matches in one cell count as one."""


def improbability(
    agreeing: Num[np.ndarray, "..."], of: Float[np.ndarray, "..."], chance: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """Minus the logarithm of the bound on the probability that so many agree; 0 if no more agree than by chance."""
    share = np.clip(agreeing / np.maximum(of, 1e-9), 1e-12, 1 - 1e-12)
    divergence = share * np.log(share / chance) + (1 - share) * np.log((1 - share) / (1 - chance))
    return np.where(share > chance, of * divergence, 0.0)


class Places:
    """Counts the distinct places of matches, in both images: many matches on text or water lie in few places."""

    def __init__(self, x: Float[np.ndarray, "M 2"], y: Float[np.ndarray, "M 2"]) -> None:
        self._in_x, self._in_y = _cells(x), _cells(y)

    def count(self, chosen: Bool[np.ndarray, "H M"]) -> Int[np.ndarray, " H"]:
        """The smaller number of occupied cells of the two images."""
        weights = chosen.astype(np.float32)
        return np.minimum((weights @ self._in_x > 0).sum(1), (weights @ self._in_y > 0).sum(1))


def _cells(points: Float[np.ndarray, "M 2"]) -> Float[np.ndarray, "M C"]:
    """Indicator of the cell of each point."""
    column, row = np.floor(points / CELL).astype(np.int64).T
    _, cell = np.unique(column * (1 << 32) + row, return_inverse=True)
    return (cell[:, None] == np.arange(cell.max(initial=-1) + 1)).astype(np.float32)
