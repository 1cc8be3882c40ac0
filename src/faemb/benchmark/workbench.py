"""A workbench: a dataset, learning images and an extractor, with a cache of the expensive results computed from them.

    features of all images                  once per extractor and image
    projection, anchors, statistics         once per their settings and learning images
    whitening                               computed from the statistics within a second
    pooled vectors                          once per pooling of these
    power law, rotation, first components   computed for each row: their cost is small

Rows of a table that differ only in the last steps share the results of the others, in one run and across runs.
"""

import functools
import hashlib
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

import faemb
from faemb import persistence
from faemb.arrays import to_numpy
from faemb.benchmark.datasets import Checked, Dataset, checked
from faemb.benchmark.datasets.checking import content_of, summed
from faemb.benchmark.features import FeatureStore, StoredFeatures
from faemb.benchmark.run import Used
from faemb.encoder import Encoder
from faemb.errors import FormatError, InputError, reason
from faemb.features import Extractor, LocalFeatures
from faemb.features.folders import find_images
from faemb.runtime import Progress, silent
from faemb.runtime.limits import require_plain_file
from faemb.runtime.parallel import Jobs
from faemb.runtime.storage import Summed, replacing
from faemb.sets import portions, some
from faemb.whitening import Spectrum, Whitening

FORMAT = 2
"""Version of the cache; increased when results are computed or stored differently."""
LEARNING_DESCRIPTORS = 1_000_000
"""Largest number of descriptors to learn from; each image provides at most an equal share of it."""


class Pooled(NamedTuple):
    """Pooled vectors, not yet normalised."""

    learning: Float[np.ndarray, "L D"]
    images: Float[np.ndarray, "N D"]
    queries: Float[np.ndarray, "Q D"]


class Workbench:
    def __init__(
        self,
        dataset: Dataset,
        learning: Sequence[Path],
        extractor: Extractor,
        cache: Path,
        *,
        device: str = "cpu",
        jobs: Jobs = None,
        progress: Progress | None = None,
    ) -> None:
        self.dataset, self.extractor, self.cache = dataset, extractor, cache
        self.device, self.jobs = device, jobs
        self.progress: Progress = progress or silent
        self.learning = [(folder, _images_in(folder)) for folder in learning]
        self._content = functools.cache(content_of)

    # Checksums. Each image is read once for all of them.

    @cached_property
    def checked(self) -> Checked:
        return checked(self.dataset, self.progress, self._content)

    @cached_property
    def learned_from(self) -> tuple[Used, ...]:
        sums = ((folder.resolve().name, summed(images, self._content)) for folder, images in self.learning)
        return tuple(Used(name, total.files, total.checksum) for name, total in sums)

    # Features.

    @cached_property
    def images(self) -> StoredFeatures:
        return self._features(self.dataset.images)

    @cached_property
    def query_features(self) -> list[LocalFeatures]:
        """Features of each query, within its box."""
        queries = self.dataset.queries
        stored = self._features([query.image for query in queries]).all()
        found = zip(queries, stored, strict=True)
        return [features if query.box is None else features.inside(query.box) for query, features in found]

    @property
    def query_sets(self) -> list[np.ndarray]:
        return [features.descriptors for features in self.query_features]

    @cached_property
    def learning_sets(self) -> list[StoredFeatures]:
        return [self._features(images) for _, images in self.learning]

    @cached_property
    def _store(self) -> FeatureStore:
        return FeatureStore(self.cache / "features" / self.extractor.fingerprint[:16], self.extractor)

    def _features(self, images: Sequence[Path]) -> StoredFeatures:
        return self._store.features(
            images, lambda image: self._content(image).sha256, jobs=self.jobs, progress=self.progress
        )

    # Encoders.

    def fitted(self, stem: Encoder) -> Encoder:
        """The encoder with fitted projection, anchors and whitening; whitenings of an embedding share statistics."""
        encoder, spectrum = self._learned(stem)
        encoder.set_params(pooling=stem.pooling, whitening=stem.whitening)
        if spectrum is not None:
            encoder.fit_whitening(spectrum)
        return encoder.to(self.device)

    def _learned(self, stem: Encoder) -> tuple[Encoder, Spectrum | None]:
        bare = _pooling_by("sum", stem)
        if bare.whitening is not None:
            bare.whitening = Whitening(centre=bare.whitening.centre)
        folder = self.cache / "learned" / self._learned_key(bare)
        model, statistics = folder / "encoder.faemb", folder / "spectrum.npz"
        if not model.exists() or (stem.whitening is not None and not statistics.exists()):
            spectrum = bare.to(self.device).fit_embedding(
                self._sample(stem.seed), progress=self.progress, jobs=self.jobs
            )
            bare.whitening = None
            folder.mkdir(parents=True, exist_ok=True)
            if spectrum is not None:
                save_spectrum(spectrum, statistics)
            bare.save(model)
        return Encoder.load(model), load_spectrum(statistics) if stem.whitening is not None else None

    def pooled(self, encoder: Encoder) -> Pooled:
        """Vectors of learning images, images and queries, computed by the expensive part of this encoder.

        Sinkhorn pooling takes about ten times as long as democratic pooling. The vectors of learning images only serve
        to learn the last steps, so they are pooled democratically, which is faster.
        """
        stem = stem_of(encoder)
        fit = functools.cache(lambda pooling: self.fitted(_pooling_by(pooling, stem)))

        def vectors(stage: str, sets: Sequence[np.ndarray], pooling: str = stem.pooling, part: int = 0) -> np.ndarray:
            path = self.cache / "pooled" / self.key_of(_pooling_by(pooling, stem)) / f"{stage}-{part}.npy"
            return kept(path, lambda: self._vectors(fit(pooling), sets, stage))

        faster = "democratic" if stem.pooling == "sinkhorn" else stem.pooling
        learning = [vectors("learning images", sets, faster, part) for part, sets in enumerate(self.learning_sets)]
        images = vectors("images", self.images)
        numbers = [query.number for query in self.dataset.queries if query.box is None and query.number is not None]
        whole = len(numbers) == len(self.dataset.queries)
        queries = images[numbers] if whole else vectors("queries", self.query_sets)
        return Pooled(np.concatenate(learning), images, queries)

    def _vectors(self, encoder: Encoder, sets: Sequence[np.ndarray], stage: str) -> np.ndarray:
        encoder.prepare(len(sets), progress=self.progress)
        pool = encoder.pooler(self.jobs)
        parts, done = [], 0
        for portion in portions(sets):
            self.progress(stage, done, len(sets))
            parts.append(to_numpy(pool(portion)))
            done += len(portion)
        self.progress(stage, done, len(sets))
        return np.concatenate(parts)

    def projected_sample(self, encoder: Encoder, count: int) -> Float[np.ndarray, "m d"]:
        """Some descriptors of the learning images, after the projection of this encoder: the input of its embedding."""
        rows = np.concatenate(self._sample(encoder.seed))
        chosen = np.random.default_rng(encoder.seed).permutation(len(rows))[:count]
        if encoder.projection is None:
            return rows[chosen]
        return deepcopy(encoder.projection).fit(rows).project(rows[chosen])

    def _sample(self, seed: int) -> list[np.ndarray]:
        rng, total = np.random.default_rng(seed), sum(map(len, self.learning_sets))
        most = max(1, LEARNING_DESCRIPTORS // total)
        return [some(sets[place], most, rng) for sets in self.learning_sets for place in range(len(sets))]

    def key_of(self, encoder: Encoder | None, *more: str) -> str:
        """A cache key of settings and data; it depends on the order of images, since vectors are stored by number."""
        images = [path.name for path in self.dataset.images]
        queries = [(query.image.name, query.box) for query in self.dataset.queries]
        order = hashlib.blake2b(repr((images, queries)).encode(errors="surrogateescape")).hexdigest()
        return self._learned_key(encoder, self.checked.images.checksum, self.checked.labels, order, *more)

    def _learned_key(self, encoder: Encoder | None, *more: str) -> str:
        """A cache key of results that depend on the learning images only."""
        learned = [used.checksum for used in self.learned_from]
        settings = "" if encoder is None else persistence.fingerprint(encoder)
        made = [faemb.__version__, str(FORMAT), self.device]
        parts = [*made, settings, self.extractor.fingerprint, *learned, *more]
        return hashlib.blake2b(" ".join(parts).encode(), digest_size=10).hexdigest()


def _pooling_by(pooling: str, encoder: Encoder) -> Encoder:
    return deepcopy(encoder).set_params(pooling=pooling)


def stem_of(encoder: Encoder) -> Encoder:
    """The expensive part of an encoder: all steps up to pooling, without those after it."""
    stem = deepcopy(encoder)
    stem.rotation, stem.keep, stem.power, stem.finishing, stem.discard_after = None, None, 1.0, "paper", 0
    return stem


def _images_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder} to learn from; give one with images")
    images = find_images([folder]).images
    if not images:
        raise InputError(f"{folder} holds no images to learn from; give another folder")
    return images


def save_spectrum(spectrum: Spectrum, path: Path) -> None:
    """Save statistics; eigenvectors in float32, the precision of a whitening."""
    mean, values, vectors = map(to_numpy, (spectrum.mean, spectrum.values, spectrum.vectors))
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, count=np.array(spectrum.count), mean=mean, values=values, vectors=vectors.astype(np.float32))


def load_spectrum(path: Path) -> Spectrum:
    with _damage_explained(path), path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        return Spectrum(int(file["count"]), file["mean"], file["values"], file["vectors"])


def kept(path: Path, make: Callable[[], np.ndarray]) -> np.ndarray:
    """The vectors in the file if it exists; otherwise compute them and save them there, with a checksum at the end."""
    if path.exists():
        return load_vectors(path)
    made = np.ascontiguousarray(make())
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, temporary.open("wb") as file:
        summed_file = Summed(file)
        np.save(summed_file, made)
        file.write(_as_bytes(summed_file.crc))
    return made


def _as_bytes(checksum: int) -> bytes:
    return checksum.to_bytes(4, "little")


def load_vectors(path: Path) -> Float[np.ndarray, "N D"]:
    """Vectors saved by `kept`; they never take more memory than the file has bytes, even if its header is wrong."""
    with _damage_explained(path):
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        if mapped.ndim != 2 or mapped.dtype.kind != "f":
            raise ValueError(f"an array of shape {mapped.shape} and type {mapped.dtype}")
        vectors = np.array(mapped, order="C")
        _require_checksum(path, vectors, mapped.offset)
        if not np.isfinite(vectors).all():
            raise ValueError("NaN or infinite values")
        return vectors


def _require_checksum(path: Path, vectors: np.ndarray, start: int) -> None:
    """The header is included: a changed bit of it may swap the bytes of every number."""
    with path.open("rb") as file:
        header = file.read(start)
        file.seek(start + vectors.nbytes)
        end = file.read(5)
    if end != _as_bytes(zlib.crc32(vectors.data, zlib.crc32(header))):
        raise ValueError("its checksum differs")


@contextmanager
def _damage_explained(path: Path) -> Iterator[None]:
    require_plain_file(path, "a file of an earlier run")
    try:
        with warnings.catch_warnings(action="ignore"):  # NumPy parses headers as Python code, which may warn
            yield
    except MemoryError:
        raise
    except Exception as error:  # NumPy and zipfile raise many kinds
        raise FormatError(f"{path} is damaged ({reason(error)}); delete it, and run the benchmark again") from error
