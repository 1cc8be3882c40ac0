"""A model: the extractor and the encoder of a collection as one component, in one file, with one fingerprint.

    image -> extractor -> local features -> encoder -> vector

It is fitted on unlabelled images, for example those of the collection itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from faemb import persistence
from faemb.arrays import on_device
from faemb.component import Component
from faemb.encoder import Encoder
from faemb.errors import FormatError, InputError
from faemb.features import Extractor, HessianAffine, LocalFeatures
from faemb.features.parts import MOST_PER_SIDE, parts_of
from faemb.presets import BEST, COLLECTION, most_per_image, preset, shrunk
from faemb.rerank.confidence import CALIBRATIONS, NEWEST, Confidence
from faemb.runtime import Progress
from faemb.runtime.parallel import Jobs
from faemb.runtime.storage import AnyPath
from faemb.sets import some
from faemb.settings import require_whole

MAX_FEATURES = 2000
"""Largest number of local features per image; more of them take time and space, and improve search little."""
_TOLERANCE = 0.1
"""Tolerance of democratic pooling: mAP on 811 photographs is 77.0; at 0.003 it is 76.7 and takes 1.5 times as long."""

_FEW = 5
"""Parts with fewer features have no vector of their own."""


class Model(Component):
    """Extractor and encoder of a collection. Learned: `encoder_`, the fitted encoder.

    extractor: extracts the local features of an image
    encoder:   settings of the encoder; fitting does not change it
    shrink:    fit a smaller encoder where there are few descriptors to learn from
    parts:     a collection also stores the vectors of n x n overlapping parts of each image; 0: of whole images only
    calibration: number of the weights that make a confidence of evidence and similarity
    """

    learned = ("encoder_",)
    baseline: ClassVar[Mapping[str, object]] = {"parts": 0, "calibration": 1}
    encoder_: Encoder

    def __init__(
        self,
        extractor: Extractor,
        encoder: Encoder,
        *,
        shrink: bool = False,
        parts: int = 0,
        calibration: int = NEWEST,
    ) -> None:
        self.extractor, self.encoder, self.shrink, self.parts = extractor, encoder, shrink, parts
        self.calibration = calibration

    def check_settings(self) -> None:
        super().check_settings()
        if self.parts:
            require_whole("parts", self.parts, 2, MOST_PER_SIDE)
        require_whole("calibration", self.calibration, 1, NEWEST)

    @property
    def fingerprint(self) -> str:
        return persistence.fingerprint(self)

    @property
    def confidence(self) -> Confidence:
        """The weights that make a confidence of evidence and similarity."""
        return CALIBRATIONS[self.calibration]

    @property
    def dimension(self) -> int:
        """Dimension of the image vectors."""
        self.require_fitted()
        return self.encoder_.dimension

    @property
    def vectors_per_image(self) -> int:
        """Number of vectors: one of the whole image, and one of each part."""
        return vectors_per_image(self.parts)

    def fit(self, images: Iterable[np.ndarray], *, progress: Progress | None = None, jobs: Jobs = None) -> "Model":
        """Learn from sets of descriptors, one per image; with a cluster as `jobs`, it computes the statistics."""
        sample = learning_sample(images, np.random.default_rng(self.encoder.seed))
        if self.shrink:
            self.encoder_ = _largest_that_learns(self.encoder, sample, progress, jobs)
        else:
            self.encoder_ = self.encoder.clone().fit(sample, progress=progress, jobs=jobs)
        return self

    def encode(self, sets: Sequence[np.ndarray]) -> Float[np.ndarray, "B D"]:
        """One vector per set of descriptors; zeros for an empty set."""
        self.require_fitted()
        return self.encoder_.encode(list(sets))

    def encode_with_parts(self, images: Sequence[LocalFeatures], per_side: int) -> Float[np.ndarray, "B V D"]:
        """The vectors of each image and of its per_side x per_side parts, the whole image first.

        A part with few features, which could resemble other such parts by chance, gets the vector of the whole image.
        """
        sets = [part for image in images for part in (image, *parts_of(image, per_side))]
        vectors = self.encode([part.descriptors for part in sets]).reshape(len(images), vectors_per_image(per_side), -1)
        few = np.array([len(part) < _FEW for part in sets]).reshape(vectors.shape[:2])
        return np.where(few[..., None], vectors[:, :1], vectors)

    def save(self, path: AnyPath, *, overwrite: bool = False) -> str:
        """Write settings and learned arrays to one file; returns the fingerprint.

        An existing file that is not a model is replaced only with `overwrite`.
        """
        return persistence.save(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: AnyPath, *, device: str = "cpu") -> "Model":
        """Read a file written by `save`; encodes on the given device."""
        loaded = persistence.load(path)
        if not isinstance(loaded, Model):
            raise FormatError(
                f"{path} is a saved {type(loaded).__name__}, not a model of images; "
                "make one with: faemb fit IMAGES --out FILE"
            )
        return loaded.to(device)

    def to(self, device: str) -> "Model":
        """Encode, and learn, on this device: "cpu", or a PyTorch device such as "cuda"."""
        on_device(np.zeros(0), device)  # an unusable device is refused before any image is read
        self.encoder = copy(self.encoder).set_params(device=device)  # the caller's own keeps its device
        return super().to(device)


def vectors_per_image(per_side: int) -> int:
    """Number of vectors: one of the whole image, and one of each part."""
    return 1 + per_side**2


def new_model(
    extractor: Extractor | None = None,
    name: str = "small",
    variant: str | None = None,
    *,
    parts: int = 0,
    device: str = "cpu",
) -> Model:
    """A model that is not fitted yet, with the encoder of the preset `name`."""
    extractor = extractor or HessianAffine(max_features=MAX_FEATURES)
    encoder = preset(name, variant, tolerance=_TOLERANCE, device=device)
    return Model(extractor, encoder, shrink=name in (*COLLECTION, BEST), parts=parts)


def learning_sample(images: Iterable[np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
    """Some descriptors of each image, read one image at a time; the limit is the same for all images."""
    sample = [some(descriptors, most_per_image(number), rng) for number, descriptors in enumerate(images, 1)]
    return [some(descriptors, most_per_image(len(sample)), rng) for descriptors in sample]


def _largest_that_learns(
    encoder: Encoder, sample: Sequence[np.ndarray], progress: Progress | None, jobs: Jobs
) -> Encoder:
    """A fitted copy of the encoder, made smaller where there are few descriptors."""
    count = sum(map(len, sample))
    columns = max((descriptors.shape[1] for descriptors in sample if len(descriptors)), default=None)
    chosen = shrunk(encoder.clone(), count, columns)
    if sum(map(bool, map(len, sample))) == 1 and chosen.whitening is not None:
        chosen.whitening.centre = False  # the only image minus the mean of its own descriptors would be zero
    try:
        return chosen.fit(sample, progress=progress, jobs=jobs)
    except InputError as error:
        raise InputError(
            f"{len(sample)} images with {count} local features in all are too few to learn from; give more images"
        ) from error
