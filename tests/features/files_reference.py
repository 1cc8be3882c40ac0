"""Files of every format, written one number at a time, and checks that the tests of all readers share."""

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from faemb.errors import FaembError
from faemb.features.local_features import Grids, LocalFeatures


def siftgeo_record(geometry: Sequence[float], descriptor: Sequence[int]) -> bytes:
    return struct.pack("<9fi", *geometry, len(descriptor)) + bytes(descriptor)


def siftgeo_bytes(rng: np.random.Generator, count: int) -> bytes:
    records = []
    for _ in range(count):
        geometry = [*rng.uniform(0, 500, 2), rng.uniform(1, 20), rng.uniform(-3, 3), *rng.normal(0, 1, 4), rng.random()]
        records.append(siftgeo_record(geometry, rng.integers(0, 256, 128).tolist()))
    return b"".join(records)


def vecs_bytes(rows: np.ndarray, kind: str) -> bytes:
    """`kind` is the component's letter in struct: f for .fvecs, B for .bvecs."""
    return b"".join(struct.pack(f"<i{len(row)}{kind}", len(row), *row) for row in rows.tolist())


def oxford_text(forms: np.ndarray, descriptors: np.ndarray) -> str:
    """Rows of x, y, a, b, c, each followed by its descriptor."""
    lines = [str(descriptors.shape[1]), str(len(forms))]
    for form, descriptor in zip(forms.tolist(), descriptors.tolist(), strict=True):
        lines.append(" ".join(repr(value) for value in [*form, *descriptor]))
    return "\n".join(lines) + "\n"


def ellipses(rng: np.random.Generator, count: int) -> np.ndarray:
    """x, y, a, b, c with a positive definite form."""
    roots = rng.normal(0, 0.1, (count, 2, 2)) + 0.05 * np.eye(2)
    forms = roots @ roots.transpose(0, 2, 1) + 1e-3 * np.eye(2)
    return np.concatenate([rng.uniform(0, 500, (count, 2)), forms.reshape(-1, 4)[:, [0, 1, 3]]], axis=1)


def some_features(rng: np.random.Generator, count: int = 5, dimension: int = 4) -> LocalFeatures:
    """Features without grids."""
    return LocalFeatures(
        rng.random((count, dimension), np.float32),
        rng.uniform(0, 100, (count, 6)).astype(np.float32),
        rng.random(count, np.float32),
        (320, 240),
        "a fingerprint",
    )


def some_cells(rng: np.random.Generator, count: int = 5) -> LocalFeatures:
    """Features that are cells of two maps."""
    cells = np.column_stack([rng.integers(0, 2, count), rng.integers(0, 3, (count, 2))]).astype(np.int32)
    return replace(some_features(rng, count), grids=Grids(np.array([[4, 5], [3, 3]], np.int32), cells))


def assert_same(features: LocalFeatures, expected: LocalFeatures) -> None:
    for name in ("descriptors", "frames", "scores"):
        array = getattr(features, name)
        assert array.dtype == np.float32
        assert array.flags.c_contiguous
        np.testing.assert_array_equal(array, getattr(expected, name))
    assert features.image_size == expected.image_size
    assert features.fingerprint == expected.fingerprint
    assert (features.grids is None) == (expected.grids is None)
    if features.grids and expected.grids:
        assert features.grids.sizes.dtype == features.grids.cells.dtype == np.int32
        np.testing.assert_array_equal(features.grids.sizes, expected.grids.sizes)
        np.testing.assert_array_equal(features.grids.cells, expected.grids.cells)


def assert_refused(read: Callable[[Path], object], path: Path, because: str = "") -> None:
    """An error of this package with a message of one line that names the file."""
    with pytest.raises(FaembError) as caught:
        read(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert re.search(because, message), message
