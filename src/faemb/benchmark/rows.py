"""What a row of a table asks for, and how it is answered on a test bed."""

import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from faemb.benchmark.bed import Bed, Pooled
from faemb.benchmark.run import Row, Value
from faemb.benchmark.scoring import Scores, measured, similarities
from faemb.binary import ITQ, hamming
from faemb.encoder import Encoder


@dataclass(frozen=True)
class Asked:
    settings: Mapping[str, Value]
    """What distinguishes the row, for people."""
    encoder: Encoder
    bits: int | None = None
    """Binary codes of this length in place of vectors."""
    published: Mapping[str, float] = field(default_factory=dict)


def answered(asked: Asked, bed: Bed) -> Row:
    start = time.monotonic()
    pooled = bed.pooled(asked.encoder)
    middle = time.monotonic()
    vectors = finished(asked.encoder, pooled)
    scores = _scores(vectors, asked.bits)
    measures = measured(bed.dataset, scores)
    return Row(
        settings={**asked.settings, "D": int(vectors.images.shape[1])},
        measures=measures,
        published=asked.published,
        seconds={"fit and pool": middle - start, "finish and search": time.monotonic() - middle},
    )


def finished(encoder: Encoder, pooled: Pooled) -> Pooled:
    """Image vectors: the last steps of the encoder, its rotation learned from the learning images."""
    last = deepcopy(encoder)
    last.fit_rotation(pooled.learning[np.any(pooled.learning != 0, axis=1)])
    return Pooled(*map(last.finish, pooled))


def _scores(vectors: Pooled, bits: int | None) -> Scores:
    if bits is None:
        return similarities(vectors.queries, vectors.images)
    code = ITQ(bits).fit(vectors.learning[_shown(vectors.learning)])
    distances = hamming(code.encode(vectors.queries), code.encode(vectors.images))
    similar = bits - distances.astype(np.float32)
    similar[~_shown(vectors.queries)] = 0
    return np.where(_shown(vectors.images), similar, -np.inf)


def _shown(vectors: Float[np.ndarray, "N D"]) -> np.ndarray:
    return np.any(vectors != 0, axis=1)
