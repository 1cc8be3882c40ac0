"""Query expansion by vectors alone, for searches without verification.

    average     the query becomes        q + sum_i s(q, i) x_i,         i its 2 nearest images          [CPSIZ07, RTC19]
    augmented   each image x becomes     x + sum_j s(x, j) x_j,         j its 2 nearest images          [AZ12]
    scaled      a similarity becomes     s(q, x) - mean_j s(x, j) / 2,  j the 10 nearest images of x    [CLRDJ18]

The first two are scaled to unit length. `average` searches again with the new query; `augmented` and `scaled` re-rank
the best candidates: `scaled` lowers images that resemble many others. The numbers of neighbours are small because few
images may show the same thing: with more neighbours, wrong ones outweigh the query (docs/expansion.md).

[CPSIZ07]: Chum et al., "Total recall: automatic query expansion ...", ICCV 2007.
[AZ12]: Arandjelovic and Zisserman, "Three things everyone should know to improve object retrieval", CVPR 2012.
[CLRDJ18]: Conneau et al., "Word translation without parallel data", ICLR 2018 (cross-domain similarity local scaling).
[RTC19]: Radenovic et al., "Fine-tuning CNN image retrieval with no human annotation", TPAMI 2019 (weights s ** alpha;
alpha is 1 here, since similarities are small: 3 changes nothing).
"""

import numpy as np
from jaxtyping import Float

from faemb.normalise import unit_length

BY_VECTORS = {"average": 2, "augmented": 2, "scaled": 10}
"""Number of neighbours that each method uses."""
RANKED = 100
"""Smallest number of candidates that `augmented` and `scaled` re-rank; more if more results are requested."""
_SHARE = 0.5
"""Share of the mean similarity that `scaled` subtracts."""


def averaged(
    vectors: Float[np.ndarray, "k D"], near: Float[np.ndarray, "k n D"], similarities: Float[np.ndarray, "k n"]
) -> Float[np.ndarray, "k D"]:
    """Each vector plus its neighbours weighted by similarity, of unit length; negative similarities count as 0."""
    weights = np.maximum(similarities, 0)
    return unit_length(vectors + np.einsum("kn,knd->kd", weights, near))


def scaled(similarities: Float[np.ndarray, " k"], of_nearest: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " k"]:
    """Scaled similarities of a query to images.

    `of_nearest`: similarities of these images to their neighbours, not finite where there are fewer than n.
    """
    count = np.isfinite(of_nearest).sum(1)
    total = np.where(np.isfinite(of_nearest), of_nearest, 0).sum(1)
    return similarities - _SHARE * total / np.maximum(count, 1)
