"""One image's features as .npz: this package's own format, and the common convention of other tools.

Our files hold descriptors (N, d), the arrays of stored.py, and two texts: the fingerprint of the extractor and the hash
of the image file.

Files of other tools hold descriptors, desc or des, as rows or as columns, beside keypoints, kpts or xy (N, 2), and
perhaps scores; their keypoints have no extent and become discs with a radius of one pixel.

Nothing is unpickled. Arrays that exceed the memory limit of one item are not read.
"""

import math
import zipfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from faemb.errors import FormatError
from faemb.features.files.reading import CURE, VALUE_BYTES, damage_explained, numbers, require_shape
from faemb.features.files.stored import STORED, Arrays, features_from, stored_arrays, stored_frames
from faemb.features.local_features import LocalFeatures, frames_from, points
from faemb.runtime.limits import require_memory
from faemb.runtime.storage import AnyPath, replacing

DESCRIPTORS = ("descriptors", "desc", "des")
KEYPOINTS = ("keypoints", "kpts", "xy")
TEXTS = ("fingerprint", "image_hash")
_PIECE = 1 << 18


class NpzHeader(NamedTuple):
    """The origin of the features; empty texts in a file of another tool."""

    fingerprint: str
    image_hash: str


def write_npz(path: AnyPath, features: LocalFeatures, image_hash: str = "") -> None:
    """Write the features, replacing `path` in one step; the same features give the same bytes."""
    arrays: dict[str, Any] = {
        "fingerprint": np.array(features.fingerprint),
        "image_hash": np.array(image_hash),
        "descriptors": features.descriptors.astype(np.float32, copy=False),
        **stored_arrays(features),
    }
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)


def is_our_npz(path: Path) -> bool:
    """Whether `write_npz` wrote the file: files of other tools do not have both texts and frames."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {f"{name}.npy" for name in (*TEXTS, "frames")} <= set(archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def read_npz(path: AnyPath) -> LocalFeatures:
    source = str(path)
    arrays = _members(path, (*DESCRIPTORS, *KEYPOINTS, *STORED, *TEXTS))
    frames = _frames(arrays, source)
    descriptors = _rows(arrays, len(frames), source)
    return features_from(arrays, descriptors, frames, _text(arrays, "fingerprint", source), source)


def read_npz_header(path: AnyPath) -> NpzHeader:
    """The two texts alone, without reading the features."""
    texts = _members(path, TEXTS)
    return NpzHeader(*(_text(texts, name, str(path)) for name in TEXTS))


def _frames(arrays: Arrays, source: str) -> Float[np.ndarray, "N 6"]:
    if "frames" in arrays:
        return stored_frames(arrays, source)
    keypoints = numbers(_first_of(KEYPOINTS, arrays, source), "keypoints", source)
    require_shape(keypoints, (None, 2), "keypoints", source)
    return frames_from(keypoints, points(len(keypoints)))


def _rows(arrays: Arrays, count: int, source: str) -> np.ndarray:
    """The descriptors as rows. With `frames` they are stored as rows; otherwise the number of keypoints decides."""
    given = _first_of(DESCRIPTORS, arrays, source)
    require_shape(given, (None, None), "descriptors", source)
    as_rows, as_columns = given.shape[0] == count, given.shape[1] == count
    if as_rows and as_columns and count and "frames" not in arrays:
        raise FormatError(
            f"{source} holds {count} x {count} descriptors of {count} keypoints, which may be rows or columns; "
            "add frames (N, 6), beside which descriptors are rows, or remove one keypoint"
        )
    if as_rows:
        return given
    if as_columns and "frames" not in arrays:
        return given.T
    raise FormatError(f"{source} holds descriptors of shape {given.shape} for {count} features; {CURE}")


def _first_of(names: tuple[str, ...], arrays: Arrays, source: str) -> np.ndarray:
    for name in names:
        if name in arrays:
            return arrays[name]
    raise FormatError(
        f"{source} holds no {names[0]}; expected an array named {', '.join(names)} among {', '.join(arrays) or 'none'}"
    )


def _text(arrays: Arrays, name: str, source: str) -> str:
    array = arrays.get(name, np.array(""))
    if array.dtype.kind != "U" or array.shape != ():
        raise FormatError(f"{source} holds a {name} of type {array.dtype}; expected one text: {CURE}")
    with damage_explained(source):  # NumPy accepts invalid code points
        return array.tobytes().decode("utf-32-le" if array.dtype.str[0] == "<" else "utf-32-be").rstrip("\0")


class _Member(NamedTuple):
    """An array whose header has been read."""

    name: str
    file: Any
    """Open file, positioned at the first value."""
    shape: tuple[int, ...]
    dtype: np.dtype
    order: Literal["C", "F"]

    @property
    def values(self) -> int:
        return math.prod(self.shape)


def _members(path: AnyPath, wanted: Iterable[str]) -> Arrays:
    """The arrays of these names that the file holds; others are not read."""
    source = str(path)
    with damage_explained(path) as target, zipfile.ZipFile(target) as archive, ExitStack() as opened:
        held = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        found = {name: held[name] for name in wanted if name in held}
        files = {name: opened.enter_context(archive.open(info)) for name, info in found.items()}
        members = [_member(name, files[name], info, source) for name, info in found.items()]
        require_memory(sum(each.values * (each.dtype.itemsize + VALUE_BYTES) for each in members), source)
        return {member.name: _read_member(member) for member in members}


def _member(name: str, file: Any, info: zipfile.ZipInfo, source: str) -> _Member:
    shape, by_columns, dtype = _read_array_header(file)
    if dtype.hasobject:
        raise FormatError(
            f"{source} holds {name} as pickled Python objects, which are never loaded; save plain arrays instead"
        )
    size = math.prod(shape) * dtype.itemsize
    # The declared size must be the stored size, so that a false declaration never allocates memory.
    if min(shape, default=0) < 0 or size != info.file_size - file.tell():
        raise FormatError(f"{source} is damaged: its {name} declare {size} bytes, which is not their size; {CURE}")
    return _Member(name, file, shape, dtype, "F" if by_columns else "C")


def _read_member(member: _Member) -> np.ndarray:
    """Read the values in pieces, since zipfile copies all data read so far for every few kilobytes."""
    content = np.empty(member.values * member.dtype.itemsize, np.uint8)
    place = 0
    while place < len(content):
        piece = member.file.read(min(_PIECE, len(content) - place))
        if not piece:
            raise EOFError(f"{member.name} ends early")
        content[place : place + len(piece)] = np.frombuffer(piece, np.uint8)
        place += len(piece)
    member.file.read(1)  # zipfile verifies the checksum at the end of the data
    return np.ndarray(member.shape, member.dtype, content, order=member.order)


def _read_array_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(file)
    raise ValueError(f"version {version} of the array format holds no plain numbers")
