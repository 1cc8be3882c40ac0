"""INRIA's .siftgeo, the format of the features of Holidays and Flickr60K: records of 168 bytes, no header.

    x, y, scale, angle, mi11, mi12, mi21, mi22, cornerness: float32;   d = 128: int32;   d bytes of SIFT

Mikolajczyk's detector, which wrote these files, samples the patch at p = (x, y) + scale Mi R(angle) u, with Mi of
determinant 1, and draws the region's ellipse from scale Mi alone. So

    A = scale Mi R(angle),      R(t) = [[cos t, -sin t], [sin t, cos t]]

maps the unit disc to the detected region; the described region is larger by a factor that the file does not give.
An angle beyond a full turn (the detector writes 1000) means that it was not estimated: R = I. A singular Mi (circular
detectors write zeros) is replaced by I. The file does not contain the size of the image.
"""

import numpy as np
from jaxtyping import Float

from faemb.errors import FormatError
from faemb.features.files.reading import CURE, UNKNOWN_SIZE, numbers, require_finite
from faemb.features.files.records import read_records
from faemb.features.local_features import LocalFeatures, discs, frames_from
from faemb.runtime.storage import AnyPath

GEOMETRY = 9
SIFT_DIMENSION = 128
LEAST_ASPECT = 1e-6
"""A matrix whose axes have a smaller ratio than this is treated as singular."""


def read_siftgeo(path: AnyPath) -> LocalFeatures:
    """The features in the file's order, scored by cornerness; an empty file is an image without features."""
    source = str(path)
    records = read_records(path, GEOMETRY, "u1", SIFT_DIMENSION)
    geometry = numbers(records["before"], "geometry", source)
    if (geometry[:, 2] < 0).any():
        row = int(np.argmax(geometry[:, 2] < 0))
        raise FormatError(f"{source} is damaged: record {row + 1} has the scale {geometry[row, 2]:g}; {CURE}")
    with np.errstate(over="ignore", invalid="ignore"):
        frames = frames_from(geometry[:, :2], _shapes(geometry.astype(np.float64)))
    require_finite(frames, "geometry", source)
    descriptors = records["components"].astype(np.float32)
    return LocalFeatures(descriptors, frames, np.ascontiguousarray(geometry[:, 8]), UNKNOWN_SIZE)


def _shapes(geometry: Float[np.ndarray, "N 9"]) -> Float[np.ndarray, "N 2 2"]:
    angle = np.where(np.abs(geometry[:, 3]) <= 2 * np.pi, geometry[:, 3], 0.0)
    affine = geometry[:, 4:8].reshape(-1, 2, 2)
    area = np.abs(affine[:, 0, 0] * affine[:, 1, 1] - affine[:, 0, 1] * affine[:, 1, 0])
    singular = area <= LEAST_ASPECT * (affine**2).sum(axis=(1, 2))
    affine = np.where(singular[:, None, None], np.eye(2), affine)
    return affine @ discs(geometry[:, 2], angle)
