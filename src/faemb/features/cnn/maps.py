"""Locations of a network's last feature map, or patch tokens of a vision transformer, as local features.

A map (d, h, w) of an image of W x H pixels divides it into h x w equal cells. The feature of row i and column j has

    centre  ((j + 1/2) W / w - 1/2,  (i + 1/2) H / h - 1/2)        shape  diag(W / 2w, H / 2h)

the ellipse that touches the sides of its cell. The receptive field, which depends on the network, is larger.

The tokens of a transformer are (1, prefix + h w, d): tokens without a position (class, registers), then h rows of w
tokens, one for each patch of `multiple` x `multiple` pixels. The latter are reshaped to a map.
"""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from faemb.errors import FormatError, InputError
from faemb.features.cnn.extractor import _NetworkExtractor, directed
from faemb.features.cnn.network import Network
from faemb.features.cnn.preprocessing import Size
from faemb.features.image import DEFAULT_MAX_SIDE, Image, ImageLike, as_image
from faemb.features.image.levels import MOST_SIDE
from faemb.features.local_features import Grids, LocalFeatures
from faemb.settings import require_number, require_whole

MOST_SCALE = 100
Map = Float[np.ndarray, "d h w"]


class _Grid(_NetworkExtractor):
    """Features on the grid of a map, ordered by decreasing norm."""

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
        """Reshape the network's output for an input of this size to a map."""

    def check_loaded(self) -> None:
        super().check_loaded()
        if not isinstance(self.scales, list | tuple) or not self.scales:
            raise InputError(f"scales is {self.scales!r}; expected a list of numbers, such as (1.0, 0.6)")
        for scale in self.scales:
            require_number("scales", scale, above=0, most=MOST_SCALE)
        if self.max_features is not None:
            require_whole("max_features", self.max_features, 1)
        require_whole("least", self.least, 1, MOST_SIDE)

    def check_settings(self) -> None:
        super().check_settings()
        fixed = self.network.input_size
        if fixed is not None and list(self.scales) != [1]:
            raise InputError(
                f"scales is {self.scales!r}; this network takes {fixed[0]} x {fixed[1]} only: use scales=(1.0,)"
            )

    def describe(self, image: Image) -> LocalFeatures:
        maps = [self._map(image, scale) for scale in self.scales]
        vectors = np.concatenate([each.reshape(len(each), -1).T for each in maps])
        sizes = [each.shape[1:] for each in maps]
        frames = np.concatenate([cell_frames(h, w, image) for h, w in sizes])
        features = directed(vectors, frames, image.size, unit=self.unit_length, grids=grids_of(sizes))
        return features.select(np.argsort(-features.scores, kind="stable")[: self.max_features])

    def map(self, image: ImageLike, scale: float = 1.0) -> Map:
        """The network's output as a map, for `spoc` and `rmac`."""
        self.check_settings()
        require_number("scale", scale, above=0, most=MOST_SCALE)
        return self._map(as_image(image, self.max_side), scale)

    def _map(self, image: Image, scale: float) -> Map:
        rgb = image.rgb()
        size = self.network.size_for(rgb.shape[1] * scale, rgb.shape[0] * scale, self.least)
        return self.as_map(self.network.run(self.network.prepare(rgb, size)[None]), size)


class CnnMap(_Grid):
    """Local features from a network's feature map: one for each cell, ordered by decreasing norm.

    network:      a network with a map (1, d, h, w) as output, for images of any size or of one size; see Network
    scales:       factors by which the image is resized; the features of all scales are joined
    unit_length:  scale vectors to unit length and leave out those that are zero
    max_features: keep this number of features with the highest scores; None: all
    least:        shorter sides are stretched to this number of pixels, which the network may need
    max_side:     images with a longer side are reduced to it first; None: no limit

    The score is the length of the vector before it is scaled.
    """

    def as_map(self, output: Float[np.ndarray, "1 ..."], size: Size) -> Map:
        if output.ndim != 4:
            cure = (
                "use the detector tokens"
                if output.ndim == 3
                else "name its last convolution as output, or use the detector patches"
            )
            raise FormatError(f"the network's output has shape {output.shape}, not a map (1, d, h, w); {cure}")
        return output[0]


class CnnTokens(_Grid):
    """Local features from the patch tokens of a vision transformer: one for each patch, ordered by decreasing norm.

    network:      a network with tokens (1, n, d) as output, for images of any size or of one size; see Network
    scales:       factors by which the image is resized; the features of all scales are joined
    unit_length:  scale vectors to unit length and leave out those that are zero
    max_features: keep this number of features with the highest scores; None: all
    least:        shorter sides are stretched to this number of pixels, which the network may need
    max_side:     images with a longer side are reduced to it first; None: no limit

    Tokens without a position (class, registers) are left out. The score is the length of the vector before it is
    scaled.
    """

    def as_map(self, output: Float[np.ndarray, "1 ..."], size: Size) -> Map:
        if output.ndim != 3:
            cure = "use the detector map" if output.ndim == 4 else "name another output"
            raise FormatError(f"the network's output has shape {output.shape}, not tokens (1, n, d); {cure}")
        side, prefix = self.network.multiple, self.network.prefix_tokens
        w, h = size[0] // side, size[1] // side
        if output.shape[1] != prefix + h * w:
            raise FormatError(
                f"the network gives {output.shape[1]} tokens for {size[0]} x {size[1]} pixels; expected {prefix} + "
                f"{h} * {w}: set prefix_tokens, and multiple to the side of its patches, in its .json file"
            )
        return output[0, prefix:].T.reshape(-1, h, w)


def grids_of(sizes: Sequence[tuple[int, int]]) -> Grids:
    """All cells of maps with these numbers of rows and columns, row by row."""
    cells = [np.insert(np.indices(size).reshape(2, -1).T, 0, index, axis=1) for index, size in enumerate(sizes)]
    return Grids(np.array(sizes, np.int32), np.concatenate(cells).astype(np.int32))


def cell_frames(h: int, w: int, image: Image) -> Float[np.ndarray, "N 6"]:
    """Frames of the cells, row by row, in pixels of `image.pixels`."""
    height, width = image.pixels.shape[:2]
    x, y = (np.arange(w) + 0.5) * width / w - 0.5, (np.arange(h) + 0.5) * height / h - 0.5
    frames = np.zeros((h, w, 6), np.float32)
    frames[..., 0], frames[..., 1] = x, y[:, None]
    frames[..., 2], frames[..., 5] = width / w / 2, height / h / 2
    return frames.reshape(-1, 6)
