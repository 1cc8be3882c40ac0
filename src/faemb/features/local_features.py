"""What every extractor gives: the local features of one image, descriptors with their geometry.

A frame is x, y, a11, a12, a21, a22: the centre, and the matrix A that takes the unit disc to the measurement region,
p = (x, y) + A u. Both are in pixels of the original image, as a viewer shows it (EXIF orientation applied), and
(0, 0) is the centre of its first pixel. An image may have no features at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from faemb.errors import InputError
from faemb.features.region import checked_box

ANY_SIZE = (1 << 31, 1 << 31)
"""For an image of unknown size: a box is taken as it is."""


@dataclass(frozen=True, eq=False)
class Grids:
    """The feature maps, one per scale, that features are cells of."""

    sizes: Int[np.ndarray, "S 2"]
    """Rows and columns of each map."""
    cells: Int[np.ndarray, "N 3"]
    """For each feature the index of its map, and its row and column there."""

    def select(self, rows: np.ndarray | slice) -> "Grids":
        return replace(self, cells=self.cells[rows])


@dataclass(frozen=True, eq=False)
class LocalFeatures:
    """N features, the strongest first where the extractor ranks them."""

    descriptors: Float[np.ndarray, "N d"]
    frames: Float[np.ndarray, "N 6"]
    scores: Float[np.ndarray, " N"]
    image_size: tuple[int, int]
    """Width and height of the original image; (0, 0) where another tool's file does not say."""
    fingerprint: str = ""
    """Of the extractor and its settings; empty for features of unknown origin, such as another tool's."""
    grids: Grids | None = None
    """Of features that are cells of feature maps; None for all others."""

    @classmethod
    def none(cls, width: int, image_size: tuple[int, int]) -> "LocalFeatures":
        """An image that shows nothing to hold on to."""
        return cls(np.zeros((0, width), np.float32), np.zeros((0, 6), np.float32), np.zeros(0, np.float32), image_size)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def centres(self) -> Float[np.ndarray, "N 2"]:
        return self.frames[:, :2]

    @property
    def shapes(self) -> Float[np.ndarray, "N 2 2"]:
        """The matrices A."""
        return self.frames[:, 2:].reshape(-1, 2, 2)

    def select(self, rows: np.ndarray | slice) -> "LocalFeatures":
        """These features, in this order."""
        return replace(
            self,
            descriptors=self.descriptors[rows],
            frames=self.frames[rows],
            scores=self.scores[rows],
            grids=self.grids and self.grids.select(rows),
        )

    def inside(self, box: Sequence[float]) -> "LocalFeatures":
        """The features whose centre lies in the box x1, y1, x2, y2; nothing is extracted again."""
        if np.isnan(self.centres).any():
            raise InputError(
                "these features carry no geometry, descriptors alone, so a box cannot select among them; "
                "extract them from the image, or leave out the box"
            )
        known = any(self.image_size)
        checked = checked_box(box, self.image_size if known else ANY_SIZE)
        x1, y1, x2, y2 = checked if known else box
        x, y = self.frames[:, 0], self.frames[:, 1]
        return self.select((x >= x1) & (x <= x2) & (y >= y1) & (y <= y2))


def frames_from(centres: Float[np.ndarray, "N 2"], shapes: Float[np.ndarray, "N 2 2"]) -> Float[np.ndarray, "N 6"]:
    return np.concatenate([centres, shapes.reshape(-1, 4)], axis=1).astype(np.float32)


def rotations(radians: Float[np.ndarray, " N"]) -> Float[np.ndarray, "N 2 2"]:
    cosine, sine = np.cos(radians), np.sin(radians)
    return np.stack([cosine, -sine, sine, cosine], axis=-1).reshape(-1, 2, 2)


def discs(radii: Float[np.ndarray, " N"], radians: Float[np.ndarray, " N"]) -> Float[np.ndarray, "N 2 2"]:
    return radii[:, None, None] * rotations(radians)


def points(count: int) -> Float[np.ndarray, "count 2 2"]:
    """Keypoints of unknown extent: a disc of one pixel's radius stands for "here"."""
    return np.tile(np.eye(2, dtype=np.float32), (count, 1, 1))


def without_geometry(count: int) -> Float[np.ndarray, "count 6"]:
    """Frames of descriptors that came alone: NaN, so that nothing can mistake them for a place."""
    return np.full((count, 6), np.nan, np.float32)
