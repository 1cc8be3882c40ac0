"""Query expansion by vectors alone, for searches without verification.

    average     the query becomes        q + sum_i s(q, i) x_i,         i its 2 nearest images          [CPSIZ07, RTC19]
    augmented   each image x becomes     x + sum_j s(x, j) x_j,         j its 2 nearest images          [AZ12]
    scaled      a similarity becomes     s(q, x) - mean_j s(x, j) / 2,  j the 10 nearest images of x    [CLRDJ18]
    reciprocal  a similarity becomes     0.3 s(q, x) + 0.7 J(q, x),     J from mutual nearest neighbours [ZZCL17]

The first two are scaled to unit length. `average` searches again with the new query; the others re-rank the best
candidates: `scaled` lowers images that resemble many others, and `reciprocal` raises those whose neighbours among the
candidates are the query's. The numbers of neighbours are small because few images may show the same thing: with more
neighbours, wrong ones outweigh the query (docs/expansion.md).

[CPSIZ07]: Chum et al., "Total recall: automatic query expansion ...", ICCV 2007.
[AZ12]: Arandjelovic and Zisserman, "Three things everyone should know to improve object retrieval", CVPR 2012.
[CLRDJ18]: Conneau et al., "Word translation without parallel data", ICLR 2018 (cross-domain similarity local scaling).
[RTC19]: Radenovic et al., "Fine-tuning CNN image retrieval with no human annotation", TPAMI 2019 (weights s ** alpha;
alpha is 1 here, since similarities are small: 3 changes nothing).
[ZZCL17]: Zhong et al., "Re-ranking person re-identification with k-reciprocal encoding", CVPR 2017.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from faemb.normalise import unit_length

BY_VECTORS = {"average": 2, "augmented": 2, "scaled": 10, "reciprocal": 4}
"""Number of neighbours that each method uses."""
RANKED = 100
"""Number of candidates that are re-ranked; `augmented` and `scaled` re-rank more if more results are requested."""
_SHARE = 0.5
"""Share of the mean similarity that `scaled` subtracts."""
_ALIKE, _OWN = 2, 0.3
"""Of `reciprocal`: how many neighbourhoods are averaged, an image's own and those of its nearest (k2 in [ZZCL17]), and
the weight of the similarity (lambda)."""


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


def reciprocal(similarities: Float[np.ndarray, " k"], among: Float[np.ndarray, "k k"]) -> Float[np.ndarray, " k"]:
    """Similarities of a query to images, mixed with the overlap of their mutual neighbourhoods [ZZCL17, Eqs. 2 to 12].

    `among` holds the similarities of the images to each other. Neighbours are those among the query and the images, so
    the cost does not depend on the size of the collection. Distances are 1 - s: the paper leaves them open.
    """
    similar = np.block([[np.ones((1, 1)), similarities[None]], [similarities[:, None], among]])
    order = similar.copy()
    np.fill_diagonal(order, np.inf)  # each is its own nearest, also beside a copy
    rank = np.argsort(np.argsort(-order, axis=1, kind="stable"), axis=1)
    weights = np.where(_mutual_neighbours(rank, BY_VECTORS["reciprocal"]), np.exp(similar), 0)  # [ZZCL17, Eq. 7]
    weights /= weights.sum(1, keepdims=True)
    alike = rank < _ALIKE
    weights = alike @ weights / alike.sum(1, keepdims=True)  # [ZZCL17, Eq. 11]
    common = np.minimum(weights[:1], weights[1:]).sum(1)
    overlap = common / (2 - common)  # the Jaccard index, since each row sums to 1 [ZZCL17, Eq. 10]
    return with_overlap(similarities, overlap)


def with_overlap(
    similarities: Float[np.ndarray, " k"], overlap: Float[np.ndarray, " k"] | float
) -> Float[np.ndarray, " k"]:
    """[ZZCL17, Eq. 12]. Images that are not compared with the query's neighbourhood have no overlap."""
    return _OWN * similarities + (1 - _OWN) * overlap


def _mutual_neighbours(rank: Int[np.ndarray, "n n"], count: int) -> Bool[np.ndarray, "n n"]:
    """Images among each other's `count` nearest, and the mutual neighbours of those, if most of them are known.

    `rank` holds the places of all images in the list of each.
    """
    larger = np.maximum(rank, rank.T)
    mutual, close = larger <= count, larger <= count // 2  # [ZZCL17, Eq. 3]
    # At least two thirds of the closest mutual neighbours of a neighbour are mutual neighbours already [ZZCL17, Eq. 4].
    known = mutual.astype(np.float32) @ close.T
    joining = mutual & (3 * known >= 2 * close.sum(1))
    return np.asarray(mutual | (joining.astype(np.float32) @ close > 0))
