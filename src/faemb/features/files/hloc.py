"""hloc's HDF5 files: the local features of many images, one group per image, named like the image ("db/1.jpg").

A group holds keypoints (N, 2), descriptors (d, N), perhaps scores (N), image_size (width, height), scales (N) and oris
(N, degrees); numbers may be half-precision. (0, 0) is the centre of the first pixel in hloc as here; hloc adds 0.5 only
when it writes COLMAP's database. Frames have

    A = scale R(ori);       without scales the extent is unknown, and A is a disc with a radius of one pixel

Files written here also hold `frames` (N, 6), which then replace keypoints, scales and oris, the grids of feature maps
as in .npz files, and the attribute `fingerprint`; reading them again gives the same features. Images are read in the
order of their names. The file attribute `made_by` marks files that this package wrote.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from faemb.errors import FormatError, InputError
from faemb.features.files.hdf5 import entries, h5py, needed, opened, read_values
from faemb.features.files.reading import (
    CURE,
    damage_explained,
    float32,
    numbers,
    require_finite,
    require_shape,
)
from faemb.features.files.stored import STORED, Arrays, features_from, stored_arrays, stored_frames
from faemb.features.local_features import LocalFeatures, discs, frames_from, points
from faemb.runtime.limits import require_memory
from faemb.runtime.storage import AnyPath, replacing

KEYPOINTS = "keypoints"
DATASETS = (KEYPOINTS, "descriptors", "scales", "oris", *STORED)
LONGEST_TEXT = 1024
MADE_BY = "made_by"


def hloc_names(path: AnyPath) -> list[str]:
    """The names of the images in the file, sorted."""
    with _opened(path) as file, damage_explained(path):
        found = list(entries(file, path))
        names = [place for place, name in found if place and name == KEYPOINTS]
    if found and not names:
        raise FormatError(f"{path} holds no local features; expected groups of keypoints and descriptors, as of hloc")
    return sorted(names)


def read_hloc(path: AnyPath) -> Iterator[tuple[str, LocalFeatures]]:
    """The name and the features of each image, read one at a time; a file of another kind raises an error at once."""
    return _each(path, hloc_names(path))


@contextmanager
def new_hloc(path: AnyPath) -> Iterator[Any]:
    """An HDF5 file to write; it appears at `path` when the block ends without an error."""
    with replacing(path) as temporary, h5py().File(temporary, "w") as file:
        file.attrs[MADE_BY] = np.bytes_(b"faemb")
        yield file


def is_our_hloc(path: Path) -> bool:
    """Whether a file was written with `new_hloc`."""
    try:
        with h5py().File(path, "r") as file:
            return _read_text(file, MADE_BY) == "faemb"
    except (OSError, ValueError, RuntimeError, KeyError):  # h5py raises all of them for damaged files
        return False


def write_hloc(path: AnyPath, items: Iterable[tuple[str, LocalFeatures]]) -> int:
    """Write one file, atomically; returns the number of images."""
    count = 0
    with new_hloc(path) as file:
        for name, features in items:
            _write_image(file, name, features)
            count += 1
    return count


def _each(path: AnyPath, names: list[str]) -> Iterator[tuple[str, LocalFeatures]]:
    with _opened(path) as file:
        for name in names:
            yield name, _features(file, name, path)


def _features(file: Any, name: str, path: AnyPath) -> LocalFeatures:
    source = f"{path}, image {name!r}"
    with damage_explained(path, source):
        group = opened(file.id, name, path)
        datasets = {key: found for key in DATASETS if (found := opened(group, key, source)) is not None}
        if "descriptors" not in datasets:
            raise FormatError(f"{source} has keypoints without descriptors; expected both, as hloc writes: {CURE}")
        require_memory(sum(needed(dataset, key, source) for key, dataset in datasets.items()), source)
        arrays = {key: read_values(dataset) for key, dataset in datasets.items()}
        fingerprint = _read_text(h5py().Group(group), "fingerprint")
    return features_from(arrays, arrays["descriptors"].T, _frames(arrays, source), fingerprint, source)


def _frames(arrays: Arrays, source: str) -> Float[np.ndarray, "N 6"]:
    keypoints = float32(arrays["keypoints"], "keypoints", source)
    require_shape(keypoints, (None, 2), "keypoints", source)
    if "frames" in arrays:
        frames = stored_frames(arrays, source)
        require_shape(frames, (len(keypoints), 6), "frames", source)
        return frames
    require_finite(keypoints, "keypoints", source)
    frames = frames_from(keypoints, _shapes(arrays, len(keypoints), source))
    require_finite(frames, "scales", source)
    return frames


def _shapes(arrays: Arrays, count: int, source: str) -> Float[np.ndarray, "N 2 2"]:
    if "scales" not in arrays:
        return points(count)
    scales = numbers(arrays["scales"], "scales", source)
    degrees = numbers(arrays.get("oris", np.zeros(count)), "oris", source)
    for values, name in ((scales, "scales"), (degrees, "oris")):
        require_shape(values, (count,), name, source)
    return discs(scales, np.deg2rad(degrees))


def _read_text(group: Any, name: str) -> str:
    """A text of fixed length, as this module writes it, else "": HDF5 may crash on damaged text of variable length."""
    if name not in group.attrs:
        return ""
    attribute = group.attrs.get_id(name)
    fixed = attribute.dtype.kind == "S" and attribute.shape == () and attribute.dtype.itemsize <= LONGEST_TEXT
    return bytes(group.attrs[name]).decode() if fixed else ""


def _write_image(file: Any, name: str, features: LocalFeatures) -> None:
    parts = name.split("/")
    if "" in parts or "." in parts or "\0" in name:
        raise InputError(f"an image is named {name!r}; expected a name such as 'db/1.jpg', without empty parts")
    try:
        group = file.require_group(name)
        arrays = {"keypoints": features.centres, "descriptors": features.descriptors.T, **stored_arrays(features)}
        for key, array in arrays.items():
            group.create_dataset(key, data=array)
        if features.fingerprint:
            group.attrs["fingerprint"] = np.bytes_(features.fingerprint.encode())
    except (ValueError, TypeError) as error:  # h5py raises either if the name is in use
        raise InputError(f"two images share the name {name!r}; give each a name of its own") from error


@contextmanager
def _opened(path: AnyPath) -> Iterator[Any]:
    library = h5py()
    with damage_explained(path) as target:
        file = library.File(target, "r")
    with file:
        yield file
