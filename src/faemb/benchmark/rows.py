"""Kinds of rows of a table; each computes its measures on a workbench."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from jaxtyping import Bool, Float
from threadpoolctl import threadpool_limits

from faemb.benchmark.distractors import counted_before
from faemb.benchmark.published import POOLING
from faemb.benchmark.run import Row, Value
from faemb.benchmark.scoring import Scores, measured, similarities
from faemb.benchmark.workbench import Pooled, Workbench
from faemb.binary import ITQ, hamming
from faemb.embedding import FAemb, FastFAemb
from faemb.encoder import Encoder

PER_DESCRIPTOR = "µs per descriptor"
_TIMED, _LEARNED = 2000, 50_000
"""Number of descriptors to time an embedding, and number to run Algorithm 1 on."""


@dataclass(frozen=True)
class RequestedRow(ABC):
    settings: Mapping[str, Value]
    """Settings shown in the table that distinguish this row."""

    @abstractmethod
    def answer(self, bench: Workbench) -> Row: ...

    @abstractmethod
    def key(self, bench: Workbench) -> str:
        """A key of this row and its data, by which its result is cached."""

    def _named(self) -> tuple[str, str]:
        return type(self).__name__, json.dumps(dict(self.settings), sort_keys=True)


@dataclass(frozen=True)
class _EncoderRow(RequestedRow):
    encoder: Encoder
    published: Mapping[str, float] = field(default_factory=dict)

    def key(self, bench: Workbench) -> str:
        return bench.key_of(self.encoder, *self._named())


@dataclass(frozen=True)
class Retrieval(_EncoderRow):
    """Retrieval by an encoder's vectors or, with `bits`, by binary codes of that length."""

    bits: int | None = None

    def answer(self, bench: Workbench) -> Row:
        start = time.monotonic()
        pooled = bench.pooled(self.encoder)
        middle = time.monotonic()
        last = self._last_steps(pooled)
        vectors = Pooled(*map(last.finish, pooled))
        score = _scorer(vectors, self.bits, self.encoder.seed)
        scores, before = score(vectors.images), None
        if bench.dataset.distractors:
            before = counted_before(bench, self.encoder, last.finish, scores, score)
        return Row(
            settings={**self.settings, "pooling": self.encoder.pooling, "D": int(vectors.images.shape[1])},
            measures=measured(bench.dataset, scores, before),
            published=self.published,
            published_with={"pooling": POOLING} if self.published else {},
            seconds={"fit and pool": middle - start, "finish and search": time.monotonic() - middle},
            encoder=repr(self.encoder),
        )

    def vectors(self, bench: Workbench) -> Pooled:
        """Final vectors of learning images, images and queries."""
        pooled = bench.pooled(self.encoder)
        return Pooled(*map(self._last_steps(pooled).finish, pooled))

    def _last_steps(self, pooled: Pooled) -> Encoder:
        return deepcopy(self.encoder).fit_rotation(_nonzero(pooled.learning))

    def key(self, bench: Workbench) -> str:
        return f"{super().key(bench)}-{self.bits or 0}-{bench.checked.distractors.checksum[:12]}"


@dataclass(frozen=True)
class Timing(_EncoderRow):
    """Time to embed one descriptor on one core: as a vector, and pooled into a sum."""

    def answer(self, bench: Workbench) -> Row:
        x = bench.projected_sample(self.encoder, _TIMED)
        method = deepcopy(self.encoder.embedding).fit(x)
        ones, few = np.ones(len(x), x.dtype), x[: len(x) // 10]
        with threadpool_limits(1):
            pooled = best_seconds(lambda: method.operator(x).pool(ones)) / len(x)
            alone = best_seconds(lambda: method.operator(few).dense()) / len(few)
        return Row(
            settings={**self.settings, "d": int(x.shape[1]), "D": method.dimension},
            measures={PER_DESCRIPTOR: 1e6 * alone, f"{PER_DESCRIPTOR}, pooled": 1e6 * pooled},
            published=self.published,
            encoder=repr(self.encoder),
        )


@dataclass(frozen=True)
class Convergence(_EncoderRow):
    """The objective of Algorithm 1 after each of its half-steps."""

    def answer(self, bench: Workbench) -> Row:
        start = time.monotonic()
        x = bench.projected_sample(self.encoder, _LEARNED)
        method = cast(FAemb | FastFAemb, deepcopy(self.encoder.embedding).fit(x))
        series = tuple(map(float, method.history_))
        return Row(
            settings={**self.settings, "descriptors": len(x), "half-steps": len(series)},
            measures={"objective, first": series[0], "objective, last": series[-1]},
            seconds={"fit": time.monotonic() - start},
            encoder=repr(self.encoder),
            series=series,
        )


def _scorer(vectors: Pooled, bits: int | None, seed: int) -> Callable[[Float[np.ndarray, "N D"]], Scores]:
    """A function that gives the similarities of the queries to images: inner products, or number of equal bits."""
    if bits is None:
        return lambda images: similarities(vectors.queries, images)
    code = ITQ(bits, seed=seed).fit(_nonzero(vectors.learning))
    queries = code.encode(vectors.queries)

    def score(images: Float[np.ndarray, "N D"]) -> Scores:
        similar = bits - hamming(queries, code.encode(images)).astype(np.float32)
        similar[~_has_features(vectors.queries)] = 0
        return np.where(_has_features(images), similar, -np.inf)

    return score


def best_seconds(run: Callable[[], object], repeats: int = 5) -> float:
    """Time of the fastest of several runs, the one least slowed down by other processes."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def _nonzero(vectors: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "M D"]:
    return vectors[_has_features(vectors)]


def _has_features(vectors: Float[np.ndarray, "N D"]) -> Bool[np.ndarray, " N"]:
    """Whether each image has local features; vectors of images without any are zero."""
    return np.any(vectors != 0, axis=1)
