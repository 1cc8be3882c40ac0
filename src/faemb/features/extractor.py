"""The one interface of this package: an extractor turns an image into its local features.

An extractor is a component: its constructor's keywords are its settings, and settings (with the network's weights,
where there is one) give a fingerprint that is stored wherever features or vectors are stored.
"""

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from faemb import persistence
from faemb.component import Component
from faemb.features.image import Image, ImageLike, as_image, require_max_side
from faemb.features.local_features import LocalFeatures


class Extractor(Component, ABC):
    max_side: int | None
    """Every extractor has this setting: larger images are first reduced to it; None for no limit."""

    @abstractmethod
    def describe(self, image: Image) -> LocalFeatures:
        """The features of an image as it was read, in its own pixels."""

    def check_settings(self) -> None:
        """Raise an InputError for a setting that cannot be used."""
        require_max_side(self.max_side)

    def extract(self, image: ImageLike) -> LocalFeatures:
        """Read a file, or take an array, and describe it; frames are in pixels of the original image."""
        self.check_settings()
        shown = as_image(image, self.max_side)
        features = self.describe(shown)
        frames = in_original_pixels(features.frames, shown)
        return replace(features, frames=frames, image_size=shown.size, fingerprint=self.fingerprint)

    @property
    def fingerprint(self) -> str:
        return persistence.fingerprint(self)


def in_original_pixels(frames: np.ndarray, image: Image) -> np.ndarray:
    """Undo the reduction of the image: pixel centres are at whole numbers on both sides of it."""
    height, width = image.pixels.shape[:2]
    scale = np.array([image.size[0] / width, image.size[1] / height])
    centres = (frames[:, :2] + 0.5) * scale - 0.5
    shapes = frames[:, 2:].reshape(-1, 2, 2) * scale[:, None]
    return np.concatenate([centres, shapes.reshape(-1, 4)], axis=1).astype(np.float32)
