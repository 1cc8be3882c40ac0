"""Arrays that this package writes to both .npz and .h5 files; any of them may be missing in files of other tools.

frames (N, 6)   scores (N)   image_size (2)
grid_sizes (S, 2), grid_cells (N, 3): for features that are cells of S feature maps, rows and columns of each map,
                                      and each feature's map, row and column
"""

import numpy as np
from jaxtyping import Float

from faemb.errors import FormatError
from faemb.features.files.reading import (
    CURE,
    UNKNOWN_SIZE,
    float32,
    numbers,
    require_finite,
    require_numeric,
    require_shape,
)
from faemb.features.local_features import Grids, LocalFeatures

GRIDS = ("grid_sizes", "grid_cells")
STORED = ("frames", "scores", "image_size", *GRIDS)
LARGEST_SIDE = 1 << 31

Arrays = dict[str, np.ndarray]


def stored_arrays(features: LocalFeatures) -> Arrays:
    grids = {} if features.grids is None else {"grid_sizes": features.grids.sizes, "grid_cells": features.grids.cells}
    return {
        "frames": features.frames.astype(np.float32, copy=False),
        "scores": features.scores.astype(np.float32, copy=False),
        "image_size": np.array(features.image_size, np.int64),
        **grids,
    }


def stored_frames(arrays: Arrays, source: str) -> Float[np.ndarray, "N 6"]:
    frames = float32(arrays["frames"], "frames", source)
    require_shape(frames, (None, 6), "frames", source)
    if not np.isnan(frames).all():  # NaN throughout: descriptors without geometry
        require_finite(frames, "frames", source)
    return frames


def features_from(
    arrays: Arrays, descriptors: np.ndarray, frames: np.ndarray, fingerprint: str, source: str
) -> LocalFeatures:
    """Features of these descriptors and frames, with scores, image size and grids from `arrays`."""
    count = len(frames)
    rows = numbers(descriptors, "descriptors", source)
    require_shape(rows, (count, None), "descriptors (as rows)", source)
    scores = numbers(arrays.get("scores", np.zeros(count)), "scores", source)
    require_shape(scores, (count,), "scores", source)
    return LocalFeatures(rows, frames, scores, _image_size(arrays, source), fingerprint, _grids(arrays, count, source))


def _image_size(arrays: Arrays, source: str) -> tuple[int, int]:
    if "image_size" not in arrays:
        return UNKNOWN_SIZE
    values = arrays["image_size"]
    require_shape(values, (2,), "an image size", source)
    require_numeric(values.dtype, "an image size", source)
    if not all(0 <= side < LARGEST_SIDE and side == int(side) for side in values.tolist()):
        raise FormatError(f"{source} holds the image size {values.tolist()}; expected width and height; {CURE}")
    return int(values[0]), int(values[1])


def _grids(arrays: Arrays, count: int, source: str) -> Grids | None:
    if not any(name in arrays for name in GRIDS):
        return None
    sizes, cells = (arrays.get(name, np.zeros(0)) for name in GRIDS)
    require_shape(sizes, (None, 2), GRIDS[0], source)
    require_shape(cells, (count, 3), GRIDS[1], source)
    whole = all(array.dtype.kind in "iu" for array in (sizes, cells)) and (sizes > 0).all() and (cells >= 0).all()
    if not whole or (cells[:, 0] >= len(sizes)).any() or (cells[:, 1:] >= sizes[cells[:, 0]]).any():
        raise FormatError(f"{source} is damaged: its grid_cells do not lie in its grid_sizes; {CURE}")
    return Grids(sizes.astype(np.int32), cells.astype(np.int32))
