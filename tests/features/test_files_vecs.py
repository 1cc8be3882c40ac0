"""Descriptors alone: .fvecs and .bvecs."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files_reference import assert_refused, vecs_bytes

from faemb.errors import FaembError, InputError
from faemb.features.files import read_features, read_vecs, write_fvecs


def read_by_the_book(raw: bytes, kind: str) -> list[list[float]]:
    """One row after the other."""
    rows, place = [], 0
    while place < len(raw):
        (dimension,) = struct.unpack_from("<i", raw, place)
        layout = f"<{dimension}{kind}"
        rows.append(list(struct.unpack_from(layout, raw, place + 4)))
        place += 4 + struct.calcsize(layout)
    return rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "image.fvecs"


@pytest.mark.parametrize(("suffix", "kind"), [(".fvecs", "f"), (".bvecs", "B"), (".BVECS", "B")])
def test_rows_are_those_of_the_plain_reader(rng: np.random.Generator, tmp_path: Path, suffix: str, kind: str) -> None:
    path = tmp_path / f"image{suffix}"
    path.write_bytes(vecs_bytes(rng.integers(0, 256, (20, 7)), kind))
    rows = read_vecs(path)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, read_by_the_book(path.read_bytes(), kind))
    np.testing.assert_array_equal(read_features(path).descriptors, rows)


def test_what_is_written_is_read_again(rng: np.random.Generator, path: Path) -> None:
    rows = rng.standard_normal((20, 7)).astype(np.float32)
    write_fvecs(path, rows)
    assert path.read_bytes() == vecs_bytes(rows, "f")
    np.testing.assert_array_equal(read_vecs(path), rows)


def test_no_rows_are_a_file_of_no_bytes(path: Path) -> None:
    write_fvecs(path, np.zeros((0, 128)))
    assert path.read_bytes() == b""
    assert read_vecs(path).shape == (0, 0)
    assert len(read_features(path)) == 0


def test_features_have_no_geometry_and_a_box_says_so(path: Path) -> None:
    write_fvecs(path, np.ones((3, 4)))
    features = read_features(path)
    assert features.image_size == (0, 0)
    assert np.isnan(features.frames).all()
    with pytest.raises(InputError, match="descriptors without geometry"):
        features.inside((0, 0, 10, 10))


def test_another_suffix_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ends in '.ivecs'; expected .fvecs or .bvecs"):
        read_vecs(tmp_path / "image.ivecs")


@pytest.mark.parametrize("rows", [[1.0, 2.0], [[1.0, np.nan]], [["a"]], [[1, 2], [3]], np.zeros((2, 0)), [[1j]]])
def test_what_cannot_be_written_is_explained(path: Path, rows: Any) -> None:
    with pytest.raises(InputError):
        write_fvecs(path, rows)
    assert not path.exists()


def test_a_folder_that_does_not_exist_is_explained(path: Path) -> None:
    with pytest.raises(FaembError, match="does not exist"):
        write_fvecs(path.parent / "none" / "image.fvecs", [[1.0]])


@pytest.mark.parametrize("length", [1, 3, 4, 11, 13, 23])
def test_a_cut_file_is_refused(path: Path, length: int) -> None:
    path.write_bytes(vecs_bytes(np.ones((2, 2)), "f")[:length])
    assert_refused(read_vecs, path, "truncated")


@pytest.mark.parametrize("dimension", [0, -1, -(1 << 31), 65_537, (1 << 31) - 1])
def test_an_absurd_dimension_is_refused(path: Path, dimension: int) -> None:
    path.write_bytes(struct.pack("<i", dimension) + bytes(100))
    assert_refused(read_vecs, path, f"declares {dimension} components")


def test_dimensions_that_vary_are_refused(path: Path) -> None:
    path.write_bytes(struct.pack("<iffifffi", 2, 1, 1, 2, 1, 1, 1, 1))  # three rows by size; the third declares another
    assert_refused(read_vecs, path, "truncated|record")
    path.write_bytes(struct.pack("<iffiff", 2, 1, 1, 3, 1, 1))
    assert_refused(read_vecs, path, "record 2 declares 3 components, the first 2")


def test_nan_is_refused(path: Path) -> None:
    path.write_bytes(struct.pack("<iff", 2, float("nan"), 1))
    assert_refused(read_features, path, "1 NaN or infinite values in its descriptors")


def test_a_missing_file_is_refused(path: Path) -> None:
    assert_refused(read_features, path, "there is no file")
