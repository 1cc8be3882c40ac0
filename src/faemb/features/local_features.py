"""The local features of one image, which every extractor returns: descriptors with their geometry.

A frame is x, y, a11, a12, a21, a22: the centre, and the matrix A that maps the unit disc to the described region,
p = (x, y) + A u. Both are in pixels of the original image, as a viewer shows it (EXIF orientation applied), and
(0, 0) is the centre of its first pixel. An image may have no features. Angles turn x towards y, clockwise as displayed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from faemb.errors import InputError
from faemb.features.region import checked_box

ANY_SIZE = (1 << 31, 1 << 31)
"""Used for an unknown image size when a box is checked."""


@dataclass(frozen=True, eq=False)
class Grids:
    """The feature maps, one per scale, that features are cells of."""

    sizes: Int[np.ndarray, "S 2"]
    """Rows and columns of each map."""
    cells: Int[np.ndarray, "N 3"]
    """For each feature the index of its map, and its row and column there."""

    def __repr__(self) -> str:
        maps = ", ".join(f"{rows} x {columns}" for rows, columns in self.sizes.tolist())
        return f"Grids({len(self.cells)} cells of maps of {maps})"

    def select(self, rows: np.ndarray | slice) -> "Grids":
        return replace(self, cells=self.cells[rows])


@dataclass(frozen=True, eq=False)
class LocalFeatures:
    """N features, the strongest first where the extractor ranks them."""

    descriptors: Float[np.ndarray, "N d"]
    frames: Float[np.ndarray, "N 6"]
    scores: Float[np.ndarray, " N"]
    image_size: tuple[int, int]
    """Width and height of the original image; (0, 0) if another tool's file does not give them."""
    fingerprint: str = ""
    """Fingerprint of the extractor and its settings; empty for features of unknown origin, such as another tool's."""
    grids: Grids | None = None
    """The maps, for features that are cells of feature maps."""

    @classmethod
    def none(cls, dimension: int, image_size: tuple[int, int]) -> "LocalFeatures":
        """The features of an image that has none; `dimension` is the length of a descriptor."""
        none = np.zeros(0, np.float32)
        return cls(none.reshape(0, dimension), none.reshape(0, 6), none, image_size)

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        """One line, however many features there are."""
        width, height = self.image_size
        image = f"image of {width} x {height} pixels" if any(self.image_size) else "image of unknown size"
        cells = "" if self.grids is None else f", {self.grids!r}"
        return f"LocalFeatures({len(self)} of {self.descriptors.shape[1]} dimensions, {image}{cells})"

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

    def and_more(self, more: "LocalFeatures") -> "LocalFeatures":
        """These features followed by `more` features of the same image."""
        return replace(
            self,
            descriptors=np.concatenate([self.descriptors, more.descriptors]),
            frames=np.concatenate([self.frames, more.frames]),
            scores=np.concatenate([self.scores, more.scores]),
            grids=None,
        )

    def inside(self, box: Sequence[float]) -> "LocalFeatures":
        """The features whose centres lie in the box x1, y1, x2, y2."""
        if np.isnan(self.centres).any():
            raise InputError(
                "these features are descriptors without geometry, which a box cannot select; "
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
    """Shapes of keypoints of unknown extent: discs with a radius of one pixel."""
    return np.tile(np.eye(2, dtype=np.float32), (count, 1, 1))


def without_geometry(count: int) -> Float[np.ndarray, "count 6"]:
    """Frames of descriptors without geometry: NaN."""
    return np.full((count, 6), np.nan, np.float32)
