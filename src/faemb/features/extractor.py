"""The interface of all extractors, which compute the local features of an image.

An extractor is a component: its constructor's keywords are its settings. The fingerprint of the settings, and of the
network's weights where there is one, is stored with features and vectors.
"""

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from faemb import persistence
from faemb.component import Component
from faemb.features.image import Image, ImageLike, as_image, require_max_side
from faemb.features.local_features import LocalFeatures, frames_from


class Extractor(Component, ABC):
    """Base class of extractors: a subclass implements `describe`, and has the setting `max_side`."""

    max_side: int | None
    """Images with a longer side are reduced to it first; None: no limit."""

    @property
    def largest_turn(self) -> float | None:
        """Largest rotation, in radians, between two images whose features can still match.

        None if regions lie on a fixed grid, so that their geometry carries no information.
        """
        return np.pi

    @property
    def is_upright(self) -> bool:
        """Whether features are computed from pixels, and those of a picture that lies on its side do not match."""
        return True

    can_mirror = False
    """Whether `mirrored` is implemented."""

    def mirrored(self, features: LocalFeatures) -> LocalFeatures:
        """The features of the image mirrored from left to right, computed from those of the image."""
        raise NotImplementedError

    def enlarging(self) -> "Extractor | None":
        """An extractor of more features of the same kind, from the image at twice its size; None if there is none."""
        return None

    @abstractmethod
    def describe(self, image: Image) -> LocalFeatures:
        """The features of an image, with frames in pixels of `image.pixels`."""

    def check_settings(self) -> None:
        """Raise an InputError for a setting that cannot be used."""
        require_max_side(self.max_side)

    def extract(self, image: ImageLike) -> LocalFeatures:
        """The features of an image file, a Pillow image or an array; frames are in pixels of the original image."""
        self.check_settings()
        reduced = as_image(image, self.max_side)
        features = self.describe(reduced)
        frames = in_original_pixels(features.frames, reduced)
        return replace(features, frames=frames, image_size=reduced.size, fingerprint=self.fingerprint)

    @property
    def fingerprint(self) -> str:
        return persistence.fingerprint(self)


def in_original_pixels(frames: np.ndarray, image: Image) -> np.ndarray:
    """Frames scaled from the reduced to the original image; in both, pixel centres have whole coordinates."""
    height, width = image.pixels.shape[:2]
    scale = np.array([image.size[0] / width, image.size[1] / height])
    centres = (frames[:, :2] + 0.5) * scale - 0.5
    return frames_from(centres, frames[:, 2:].reshape(-1, 2, 2) * scale[:, None])
