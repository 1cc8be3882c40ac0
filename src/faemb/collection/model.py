"""Everything between a picture and its place in a collection, as one component: one file, one fingerprint.

    picture -> extractor -> local features -> encoder -> vector -> rotation -> short vector
                                                                -> code (ITQ)

A model learns from unlabelled pictures: the very ones of the collection will do.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, UInt8

from faemb import persistence
from faemb.arrays import on_device
from faemb.binary import ITQ
from faemb.component import Component
from faemb.encoder import Encoder
from faemb.errors import FormatError, InputError
from faemb.features import Extractor, HessianAffine
from faemb.normalise import unit_length
from faemb.presets import COLLECTION, preset, shrunk
from faemb.rotation import Rotation
from faemb.runtime import Progress
from faemb.sets import portions, some

FEATURES = 2000
"""Of an image, the strongest: busy photographs have thousands more, which cost time and room and are found as well."""
SHORT = 1024
BITS = 512
PER_IMAGE = 300
"""Descriptors of an image that the encoder learns from: more images teach more than more of each."""
LESSONS, MOST_PARTS = 600, 16
"""Image vectors wanted to learn short vectors from, and the most parts that an image is split into for them."""
_TOLERANCE = 0.1
"""Of democratic pooling: mAP on 811 photographs is 77.0, and 76.7 at 0.003 for half as much time again."""
_ITQ_ITERATIONS = 20
"""As good as 50 on image vectors (mAP of 512 bits on 811 photographs: 59.9 after none, 65.8 from 5 on)."""


class Coded(NamedTuple):
    """Of B images: all that is kept of them for search."""

    vectors: Float[np.ndarray, "B D"]
    short: Float[np.ndarray, "B s"]
    codes: UInt8[np.ndarray, "B bytes"]


class Model(Component):
    """Parts: `extractor`, `encoder`, `rotation` (its leading components are the short vector), `code`.

    With `shrink`, images with few descriptors teach a smaller encoder.
    """

    def __init__(
        self,
        extractor: Extractor,
        encoder: Encoder,
        *,
        rotation: Rotation | None = None,
        code: ITQ | None = None,
        shrink: bool = False,
    ) -> None:
        self.extractor, self.encoder, self.rotation, self.code = extractor, encoder, rotation, code
        self.shrink = shrink

    @property
    def is_fitted(self) -> bool:
        return self.encoder.is_fitted and self.rotation is not None

    @property
    def fingerprint(self) -> str:
        return persistence.fingerprint(self)

    @property
    def width(self) -> int:
        return self.encoder.dimension

    @property
    def short_width(self) -> int:
        return min(SHORT, self.width)

    @property
    def code_bytes(self) -> int:
        return self.code.bits // 8 if self.code is not None else 0

    def fit(self, images: Sequence[np.ndarray], *, progress: Progress | None = None) -> "Model":
        """Learn from sets of descriptors, each read from `images` only when it is needed."""
        rng = np.random.default_rng(self.encoder.seed)
        sample = [some(images[i], PER_IMAGE, rng) for i in range(len(images))]
        if self.shrink:
            self.encoder = _largest_that_learns(self.encoder, sample, progress)
        else:
            self.encoder.fit(sample, progress=progress)
        vectors = self._vectors(Lessons(images, rng), progress)
        shown = vectors[np.any(vectors != 0, axis=1)]
        if len(shown) < 2:
            raise InputError(
                f"{len(images)} images with few local features are too little to learn from; give more images"
            )
        self.rotation = Rotation("rotate", max_axes=min(SHORT, len(shown) - 1)).fit(shown)
        bits = self._bits(len(self.rotation.axes_))
        self.code = ITQ(bits, iterations=_ITQ_ITERATIONS).fit(self._first(shown)) if bits else None
        return self

    def encode(self, sets: Sequence[np.ndarray]) -> Coded:
        """Of images with descriptors; one without has a vector of zeros, which says nothing."""
        return self.coded(self.encoder.encode(list(sets)))

    def coded(self, vectors: Float[np.ndarray, "B D"]) -> Coded:
        """Vectors, and what is derived from them."""
        short = self._first(vectors)
        codes = self.code.encode(short) if self.code is not None else np.zeros((len(short), 0), np.uint8)
        return Coded(vectors, unit_length(short), codes)

    def save(self, path: Any) -> str:
        return persistence.save(self, path)

    @classmethod
    def load(cls, path: Any, *, device: str = "cpu") -> "Model":
        loaded = persistence.load(path)
        if not isinstance(loaded, Model):
            raise FormatError(
                f"{path} holds a {type(loaded).__name__}, not a model of pictures; make one with: faemb fit"
            )
        return loaded.to(device)

    def to(self, device: str) -> "Model":
        on_device(np.zeros(0), device)  # refuses a device that is not there before any image is read
        self.encoder.to(device)
        return self

    def _vectors(self, images: Sequence[np.ndarray], progress: Progress | None) -> Float[np.ndarray, "B D"]:
        parts, done = [], 0
        for sets in portions(images):
            if progress is not None:
                progress("short vectors", done, len(images))
            parts.append(self.encoder.encode(sets))
            done += len(sets)
        return np.concatenate(parts)

    def _first(self, vectors: Float[np.ndarray, "B D"]) -> Float[np.ndarray, "B s"]:
        assert self.rotation is not None  # noqa: S101
        return self.rotation.leading(vectors, self.short_width)

    def _bits(self, directions: int) -> int:
        """As many as asked for, or as the images can teach, which copies of an image cannot: a multiple of 8, or 0."""
        wanted = self.code.bits if self.code is not None else BITS
        return min(wanted, directions, self.short_width) // 8 * 8


def new_model(extractor: Extractor | None = None, name: str = "small", variant: str | None = None) -> Model:
    """A model that has learned nothing yet, with an encoder by its preset's name."""
    extractor = extractor or HessianAffine(max_features=FEATURES)
    return Model(extractor, preset(name, variant, tolerance=_TOLERANCE), shrink=name in COLLECTION)


class Lessons(Sequence[np.ndarray]):
    """Sets to learn directions of image vectors from: the images, or random parts of them where there are few."""

    def __init__(self, images: Sequence[np.ndarray], rng: np.random.Generator) -> None:
        self._images, self._seed = images, int(rng.integers(1 << 32))
        self._parts = max(1, min(MOST_PARTS, -(-LESSONS // max(len(images), 1))))

    def __len__(self) -> int:
        return len(self._images) * self._parts

    def __getitem__(self, place: Any) -> Any:
        image, part = divmod(range(len(self))[place], self._parts)
        descriptors = self._images[image]
        order = np.random.default_rng([self._seed, image]).permutation(len(descriptors))
        return descriptors[np.sort(order[part :: self._parts])]


def _largest_that_learns(encoder: Encoder, sample: Sequence[np.ndarray], progress: Progress | None) -> Encoder:
    """A copy, fitted: the given one stays as large as it is, for when there is more to learn from."""
    count = sum(map(len, sample))
    chosen = shrunk(deepcopy(encoder), count)
    if sum(map(bool, map(len, sample))) == 1 and chosen.whitening is not None:
        chosen.whitening.centre = False  # less the mean of its own descriptors, nothing is left of an only image
    try:
        return chosen.fit(sample, progress=progress)
    except InputError as error:
        raise InputError(
            f"{len(sample)} images with {count} local features in all are too little to learn from; give more images"
        ) from error
