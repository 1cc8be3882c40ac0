"""Distractors by the million: pooled once, a shard at a time, and counted; they are never all held at once.

What is kept of a shard are its pooled vectors in half precision, by the costly part of each encoder. An image that
cannot be read, or that has no local features, comes last for every query.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from faemb.arrays import to_numpy
from faemb.benchmark.bed import Bed, kept, stem_of
from faemb.benchmark.scoring import Scores, distractors_before
from faemb.encoder import Encoder
from faemb.features import Extractor
from faemb.parallel import spread

SHARD = 1024


def pool_distractors(bed: Bed, encoders: Iterable[Encoder]) -> None:
    """Pool all of them by all of these encoders in one pass: images are by far the most work."""
    stems = {bed.key_of(stem): stem for stem in map(stem_of, encoders)}
    fitted: dict[str, Encoder] = {}
    done = 0
    for number, paths in enumerate(_shards(bed)):
        bed.report("distractors", done, bed.checked.distractors.files)
        missing = [key for key, stem in stems.items() if not _file(bed, stem, number).exists()]
        if missing:
            sets = _descriptors(paths, bed)
            for key in missing:
                encoder = fitted.get(key) or fitted.setdefault(key, bed.fitted(stems[key]))
                vectors = to_numpy(encoder.pool(sets)).astype(np.float16)
                kept(_file(bed, stems[key], number), lambda vectors=vectors: vectors)  # type: ignore[misc]
        done += len(paths)
    bed.report("distractors", done, done)


def counted_before(
    bed: Bed, encoder: Encoder, finish: Callable[[np.ndarray], np.ndarray], scores: Scores, score: Callable[..., Scores]
) -> Int[np.ndarray, "Q N"]:
    """How many distractors come before each image, for each query; `finish` and `score` are the row's own."""
    total = np.zeros(scores.shape, np.int64)
    stem = stem_of(encoder)
    for number, _ in enumerate(_shards(bed)):
        pooled: Float[np.ndarray, "n D"] = np.load(_file(bed, stem, number), allow_pickle=False).astype(np.float32)
        total += distractors_before(scores, score(finish(pooled)))
    return total


def _shards(bed: Bed) -> Iterator[list[Path]]:
    images = bed.dataset.distractor_images()
    while shard := list(islice(images, SHARD)):
        yield shard


def _file(bed: Bed, stem: Encoder, number: int) -> Path:
    key = bed.key_of(stem, bed.checked.distractors.checksum, str(SHARD))
    return bed.cache / "distractors" / key / f"{number:06}.npy"


def _descriptors(paths: list[Path], bed: Bed) -> list[np.ndarray]:
    found = dict.fromkeys(paths, np.zeros((0, bed.images[0].shape[1]), np.float32))
    for path, outcome in spread(_Describe(bed.extractor), paths, jobs=bed.jobs):
        if not isinstance(outcome, Exception):
            found[path] = outcome
    return list(found.values())


class _Describe:
    """The task that travels to the workers."""

    def __init__(self, extractor: Extractor) -> None:
        self._extractor = extractor

    def __call__(self, path: Path) -> np.ndarray:
        return self._extractor.extract(path).descriptors
