"""Distractors, possibly millions: pooled once, in shards, and counted in rankings; never all in memory at once.

For each shard, and for the costly part of each encoder, pooled vectors are stored in half precision. An image that
cannot be read, or that has no local features, is ranked last for every query.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from faemb.arrays import Array, to_numpy
from faemb.benchmark.scoring import Scores, distractors_before
from faemb.benchmark.workbench import Workbench, kept, load_vectors, stem_of
from faemb.encoder import Encoder
from faemb.features import Extractor
from faemb.runtime.parallel import spread

SHARD = 1024


def pool_distractors(bench: Workbench, encoders: Iterable[Encoder]) -> None:
    """Pool all distractors with all of these encoders in one pass, since extracting features takes longest."""
    stems = {bench.key_of(stem): stem for stem in map(stem_of, encoders)}
    poolers: dict[str, Callable[[list[np.ndarray]], Array]] = {}
    done = 0
    for number, paths in enumerate(_shards(bench)):
        bench.progress("distractors", done, bench.checked.distractors.files)
        missing = [key for key, stem in stems.items() if not _file(bench, stem, number).exists()]
        if missing:
            sets = _descriptors(paths, bench)
            for key in missing:
                pool = poolers.get(key) or poolers.setdefault(key, bench.fitted(stems[key]).pooler(bench.jobs))
                vectors = to_numpy(pool(sets)).astype(np.float16)
                kept(_file(bench, stems[key], number), lambda vectors=vectors: vectors)  # type: ignore[misc]
        done += len(paths)
    bench.progress("distractors", done, done)


def counted_before(
    bench: Workbench,
    encoder: Encoder,
    finish: Callable[[np.ndarray], np.ndarray],
    scores: Scores,
    score: Callable[[np.ndarray], Scores],
) -> Int[np.ndarray, "Q N"]:
    """Number of distractors ranked before each image, for each query; `finish` and `score` are those of the row."""
    total = np.zeros(scores.shape, np.int64)
    stem = stem_of(encoder)
    for number, _ in enumerate(_shards(bench)):
        pooled: Float[np.ndarray, "n D"] = load_vectors(_file(bench, stem, number)).astype(np.float32)
        total += distractors_before(scores, score(finish(pooled)))
    return total


def _shards(bench: Workbench) -> Iterator[list[Path]]:
    images = bench.dataset.distractor_images()
    while shard := list(islice(images, SHARD)):
        yield shard


def _file(bench: Workbench, stem: Encoder, number: int) -> Path:
    key = bench.key_of(stem, bench.checked.distractors.checksum, str(SHARD))
    return bench.cache / "distractors" / key / f"{number:06}.npy"


def _descriptors(paths: list[Path], bench: Workbench) -> list[np.ndarray]:
    found = dict.fromkeys(paths, np.zeros((0, bench.images[0].shape[1]), np.float32))
    for path, outcome in spread(_Describe(bench.extractor), paths, jobs=bench.jobs):
        if not isinstance(outcome, Exception):
            found[path] = outcome
    return list(found.values())


@dataclass(frozen=True)
class _Describe:
    """The task of the worker processes."""

    extractor: Extractor

    def __call__(self, path: Path) -> np.ndarray:
        return self.extractor.extract(path).descriptors
