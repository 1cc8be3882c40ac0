"""Patches of an image, each described by a pass through the network: the paper's CNN features [DC17, Sec. 5.5].

Three levels: the whole image, then all 128 x 128 and all 64 x 64 patches at a stride of 30 pixels, their union taken
"regardless of scale". Patches start at the image's first pixel and lie completely inside it: 1 + 216 + 280 = 497 of
them at 640 x 480. The paper uses a fully connected layer of AlexNet. Departures: a feature map is averaged over its
locations; vectors have unit length unless `unit_length` is off (the paper does not give their length); an image larger
than `max_side` is reduced first.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float, Int

from faemb.errors import FormatError, InputError
from faemb.features.cnn.extractor import _NetworkExtractor, directed
from faemb.features.cnn.network import Network
from faemb.features.image import DEFAULT_MAX_SIDE, Image
from faemb.features.local_features import LocalFeatures
from faemb.settings import require_whole

Boxes = Int[np.ndarray, "N 4"]
"""x and y of the first pixel, width and height."""


class CnnPatches(_NetworkExtractor):
    """One feature per patch: the whole image first, then the patches of each size, row by row.

    network:     a network with a fixed input size, from its program or its setting `size`; patches are resized to it
    sizes:       sides of the square patches; a size larger than the image gives no patches
    stride:      pixels from one patch to the next
    batch:       number of patches per call of the network
    unit_length: scale vectors to unit length and leave out those that are zero
    max_side:    images with a longer side are reduced to it first; None: no limit

    The score is the norm of the vector before it is scaled.
    """

    transient = ("batch",)

    def __init__(
        self,
        network: Network,
        *,
        sizes: Sequence[int] = (128, 64),
        stride: int = 30,
        batch: int = 32,
        unit_length: bool = True,
        max_side: int | None = DEFAULT_MAX_SIDE,
    ) -> None:
        self.network, self.sizes, self.stride, self.batch = network, sizes, stride, batch
        self.unit_length, self.max_side = unit_length, max_side

    def check_loaded(self) -> None:
        super().check_loaded()
        if not isinstance(self.sizes, list | tuple):
            raise InputError(f"sizes is {self.sizes!r}; expected a list of whole numbers, such as (128, 64)")
        for size in self.sizes:
            require_whole("sizes", size, 1)
        require_whole("stride", self.stride, 1)
        require_whole("batch", self.batch, 1)

    def check_settings(self) -> None:
        super().check_settings()
        if self.network.input_size is None:
            raise InputError(
                'patches are resized to the network\'s input; give its size in its .json file: "size": [224, 224]'
            )

    def describe(self, image: Image) -> LocalFeatures:
        rgb = image.rgb()
        boxes = patch_boxes(rgb.shape[1], rgb.shape[0], self.sizes, self.stride)
        vectors = np.concatenate(list(self._vectors(rgb, boxes)))
        return directed(vectors, box_frames(boxes), image.size, unit=self.unit_length)

    def _vectors(self, rgb: np.ndarray, boxes: Boxes) -> Iterator[Float[np.ndarray, "B d"]]:
        size = self.network.size_for(rgb.shape[1], rgb.shape[0], 1)
        for start in range(0, len(boxes), self.batch):
            part = boxes[start : start + self.batch]
            prepared = [self.network.prepare(rgb[y : y + height, x : x + width], size) for x, y, width, height in part]
            yield one_vector_each(self.network.run(np.stack(prepared)))


def patch_boxes(width: int, height: int, sizes: Sequence[int], stride: int) -> Boxes:
    """The whole image, then for every size all patches inside it."""
    boxes = [(0, 0, width, height)]
    for size in sizes:
        rows, columns = range(0, height - size + 1, stride), range(0, width - size + 1, stride)
        boxes += [(x, y, size, size) for y in rows for x in columns]
    return np.array(boxes)


def box_frames(boxes: Boxes) -> Float[np.ndarray, "N 6"]:
    """The ellipse that touches the four sides of a box."""
    x, y, width, height = boxes.T.astype(np.float32)
    none = np.zeros_like(x)
    return np.stack([x + (width - 1) / 2, y + (height - 1) / 2, width / 2, none, none, height / 2], axis=1)


def one_vector_each(output: Float[np.ndarray, "B ..."]) -> Float[np.ndarray, "B d"]:
    """One vector per image: the output itself, or a feature map averaged over its locations."""
    if output.ndim == 3:
        raise FormatError(
            f"the network's output has shape {output.shape}, tokens; use the detector tokens, or another output"
        )
    return output if output.ndim == 2 else output.mean(axis=(2, 3))
