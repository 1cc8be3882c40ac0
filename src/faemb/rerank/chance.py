"""How improbable an agreement of matches is by chance (a-contrario reasoning, Moisan and Stival 2004).

If M matches were wrong, each would agree with a transform by chance p: the share of the image that its tolerance
covers. That k or more agree has a probability of at most exp(-M KL(k/M || p)); M transforms were tried.
"""

import numpy as np
from jaxtyping import Bool, Float, Int, Num

CELL = 0.02
"""Side of the cells, in diagonals: matches in one cell are one piece of evidence, however many they are."""


def improbability(
    agreeing: Num[np.ndarray, "..."], of: Float[np.ndarray, "..."], chance: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """Minus the logarithm of the bound on the probability that so many agree; 0 if as many do by chance."""
    share = np.clip(agreeing / np.maximum(of, 1e-9), 1e-12, 1 - 1e-12)
    divergence = share * np.log(share / chance) + (1 - share) * np.log((1 - share) / (1 - chance))
    return np.where(share > chance, of * divergence, 0.0)


class Places:
    """Counts the distinct places of matches, in both images: repeated windows, text or water are few places."""

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
