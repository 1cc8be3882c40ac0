"""A grid of vectors over an image as local features: what feature maps and tokens have in common.

The map (d, h, w) of an image of W x H pixels divides it into h x w equal cells. Location (i, j), row by row, gets

    centre  ((j + 1/2) W / w - 1/2,  (i + 1/2) H / h - 1/2)        shape  diag(W / 2w, H / 2h)

the ellipse that touches the sides of its cell. What the location saw, its receptive field, is larger and depends on
the network; the cell is what the location stands for.
"""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from faemb import normalise
from faemb.errors import InputError
from faemb.features.cnn.extractor import _NetworkExtractor
from faemb.features.cnn.network import Network
from faemb.features.cnn.preprocessing import Size
from faemb.features.image import DEFAULT_MAX_SIDE, Image, ImageLike, as_image
from faemb.features.local_features import LocalFeatures
from faemb.settings import require_number, require_whole

Map = Float[np.ndarray, "d h w"]


class _Grid(_NetworkExtractor):
    """Every location of the network's last map is a feature, the longest vectors first.

    network:      one that takes any size, or one size; see Network
    scales:       the image is described at each of these sizes, relative to its own, and all features are kept
    unit_length:  scale vectors to unit length; a location that excites nothing has no direction and is left out
    max_features: keep so many of the highest score; None for all
    least:        a side that is shorter is stretched to so many pixels, for the network's sake
    max_side:     larger images are first reduced to it

    The score is the length of the vector as it left the network.
    """

    def __init__(
        self,
        network: Network,
        *,
        scales: Sequence[float] = (1.0,),
        unit_length: bool = True,
        max_features: int | None = None,
        least: int = 64,
        max_side: int | None = DEFAULT_MAX_SIDE,
    ) -> None:
        self.network, self.scales, self.unit_length = network, scales, unit_length
        self.max_features, self.least, self.max_side = max_features, least, max_side

    @abstractmethod
    def as_map(self, output: Float[np.ndarray, "1 ..."], size: Size) -> Map:
        """The network's output for one input of this size, as a map."""

    def check_settings(self) -> None:
        super().check_settings()
        if not isinstance(self.scales, list | tuple) or not self.scales:
            raise InputError(f"scales is {self.scales!r}; expected a list of numbers, such as (1.0, 0.6)")
        for scale in self.scales:
            require_number("scales", scale, above=0)
        if self.max_features is not None:
            require_whole("max_features", self.max_features, 1)
        require_whole("least", self.least, 1)
        self._require_any_size()

    def describe(self, image: Image) -> LocalFeatures:
        maps = [self._map(image, scale) for scale in self.scales]
        vectors = np.concatenate([each.reshape(len(each), -1).T for each in maps])
        frames = np.concatenate([cell_frames(each.shape[1], each.shape[2], image) for each in maps])
        features = directed(vectors, frames, image.size, unit=self.unit_length)
        return features.select(np.argsort(-features.scores, kind="stable")[: self.max_features])

    def map(self, image: ImageLike, scale: float = 1.0) -> Map:
        """The map itself, as it left the network: what `spoc` and `rmac` pool."""
        self.check_settings()
        require_number("scale", scale, above=0)
        return self._map(as_image(image, self.max_side), scale)

    def _map(self, image: Image, scale: float) -> Map:
        rgb = image.rgb()
        size = self.network.size_for(rgb.shape[1] * scale, rgb.shape[0] * scale, self.least)
        return self.as_map(self.network.run(self.network.prepare(rgb, size)[None]), size)

    def _require_any_size(self) -> None:
        fixed = self.network.input_size
        if fixed is not None and list(self.scales) != [1]:
            raise InputError(
                f"scales is {self.scales!r}; this network takes {fixed[0]} x {fixed[1]} only: use scales=(1.0,)"
            )


def cell_frames(h: int, w: int, image: Image) -> Float[np.ndarray, "N 6"]:
    """Frames of the cells in pixels of the image as it was read, row by row."""
    height, width = image.pixels.shape[:2]
    x, y = (np.arange(w) + 0.5) * width / w - 0.5, (np.arange(h) + 0.5) * height / h - 0.5
    frames = np.zeros((h, w, 6), np.float32)
    frames[..., 0], frames[..., 1] = x, y[:, None]
    frames[..., 2], frames[..., 5] = width / w / 2, height / h / 2
    return frames.reshape(-1, 6)


def directed(
    vectors: Float[np.ndarray, "N d"], frames: Float[np.ndarray, "N 6"], image_size: Size, *, unit: bool
) -> LocalFeatures:
    """Features with their lengths as scores; of unit length, without those that have none, if asked for."""
    lengths = np.linalg.norm(vectors, axis=1)
    features = LocalFeatures(normalise.unit_length(vectors) if unit else vectors, frames, lengths, image_size)
    return features.select(lengths > 0) if unit else features
