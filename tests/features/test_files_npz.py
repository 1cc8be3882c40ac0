"""This package's own .npz, and the common convention of other tools."""

import io
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files_reference import assert_refused, assert_same, some_cells, some_features

from faemb.errors import FaembError
from faemb.features.files import read_features, read_npz, read_npz_header, write_npz
from faemb.features.local_features import LocalFeatures, without_geometry


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "image.npz"


def npy(array: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asanyarray(array), **options)
    return file.getvalue()


def archive(path: Path, compression: int = zipfile.ZIP_STORED, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)


def plain(rng: np.random.Generator, count: int = 5, dimension: int = 3) -> dict[str, Any]:
    return {"keypoints": rng.uniform(0, 9, (count, 2)), "descriptors": rng.random((count, dimension))}


def test_what_is_written_is_read_again(rng: np.random.Generator, path: Path) -> None:
    features = some_features(rng)
    write_npz(path, features, image_hash="abc")
    assert_same(read_features(path), features)
    assert read_npz_header(path) == ("a fingerprint", "abc")


@pytest.mark.parametrize("count", [0, 5])
def test_grids_are_read_again(rng: np.random.Generator, path: Path, count: int) -> None:
    features = some_cells(rng, count)
    write_npz(path, features)
    assert_same(read_npz(path), features)


def refused_grids() -> dict[str, dict[str, np.ndarray]]:
    sizes, cells = np.array([[4, 5], [3, 3]]), np.zeros((5, 3), int)
    return {
        "sizes alone": {"grid_sizes": sizes},
        "cells alone": {"grid_cells": cells},
        "another shape": {"grid_sizes": sizes[:, :1], "grid_cells": cells},
        "too few cells": {"grid_sizes": sizes, "grid_cells": cells[:4]},
        "no such map": {"grid_sizes": sizes, "grid_cells": np.full((5, 3), [2, 0, 0])},
        "no such row": {"grid_sizes": sizes, "grid_cells": np.full((5, 3), [1, 3, 0])},
        "negative": {"grid_sizes": sizes, "grid_cells": np.full((5, 3), [0, 0, -1])},
        "empty map": {"grid_sizes": sizes * [1, 0], "grid_cells": cells},
        "fractions": {"grid_sizes": sizes, "grid_cells": cells + 0.5},
    }


@pytest.mark.parametrize("case", refused_grids())
def test_grids_that_do_not_fit_the_features_are_refused(rng: np.random.Generator, path: Path, case: str) -> None:
    arrays = {"frames": np.zeros((5, 6)), "descriptors": np.zeros((5, 3))} | refused_grids()[case]
    archive(path, zipfile.ZIP_STORED, **{name: npy(array) for name, array in arrays.items()})
    assert_refused(read_npz, path, "grid")


@pytest.mark.parametrize("dimension", [0, 128])
def test_an_image_without_features_is_read_again(path: Path, dimension: int) -> None:
    features = LocalFeatures.none(dimension, (3, 2))
    write_npz(path, features)
    assert_same(read_npz(path), features)
    assert read_npz_header(path) == ("", "")


def test_as_many_features_as_columns_are_read_again_as_rows(rng: np.random.Generator, path: Path) -> None:
    features = some_features(rng, count=4, dimension=4)
    write_npz(path, features)
    assert_same(read_npz(path), features)


def test_descriptors_without_geometry_stay_so(path: Path) -> None:
    features = LocalFeatures(np.ones((2, 3), np.float32), without_geometry(2), np.zeros(2, np.float32), (0, 0))
    write_npz(path, features)
    assert_same(read_npz(path), features)


def test_float64_features_are_stored_as_float32(rng: np.random.Generator, path: Path) -> None:
    single = some_features(rng)
    descriptors, frames, scores = (
        getattr(single, name).astype(np.float64) for name in ("descriptors", "frames", "scores")
    )
    write_npz(path, LocalFeatures(descriptors, frames, scores, single.image_size, single.fingerprint))
    assert_same(read_npz(path), single)


def test_the_same_features_give_the_same_bytes(rng: np.random.Generator, path: Path) -> None:
    features = some_features(rng)
    write_npz(path, features)
    first = path.read_bytes()
    write_npz(path, features)
    assert path.read_bytes() == first


def test_arrays_that_are_read_can_be_written_to(rng: np.random.Generator, path: Path) -> None:
    write_npz(path, some_features(rng))
    features = read_npz(path)
    assert features.descriptors.flags.writeable
    assert features.frames.flags.writeable
    assert features.scores.flags.writeable


def test_a_write_that_fails_leaves_the_old_file(rng: np.random.Generator, path: Path) -> None:
    write_npz(path, some_features(rng))
    before = path.read_bytes()
    with pytest.raises(FaembError, match="does not exist"):
        write_npz(path.parent / "none" / "x.npz", some_features(rng))
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("descriptors", ["descriptors", "desc", "des"])
@pytest.mark.parametrize("keypoints", ["keypoints", "kpts", "xy"])
@pytest.mark.parametrize("as_columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_the_plain_convention_is_read(
    rng: np.random.Generator, path: Path, descriptors: str, keypoints: str, as_columns: bool, save: Any
) -> None:
    rows, places = rng.integers(0, 255, (5, 3)), rng.uniform(0, 100, (5, 2))
    save(path, **{descriptors: rows.T if as_columns else rows, keypoints: places})
    features = read_npz(path)
    np.testing.assert_array_equal(features.descriptors, rows)
    np.testing.assert_allclose(features.centres, places, rtol=1e-6)
    np.testing.assert_array_equal(features.shapes, [np.eye(2)] * 5)
    np.testing.assert_array_equal(features.scores, np.zeros(5))
    assert features.image_size == (0, 0)
    assert features.descriptors.flags.c_contiguous
    assert read_npz_header(path) == ("", "")


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.uint8, ">f4"])
def test_other_numbers_become_float32(rng: np.random.Generator, path: Path, dtype: str) -> None:
    arrays = {name: array.astype(dtype) for name, array in plain(rng).items()}
    np.savez(path, **arrays, scores=np.arange(5).astype(dtype), image_size=np.array([9.0, 8.0]))
    features = read_npz(path)
    np.testing.assert_array_equal(features.descriptors, arrays["descriptors"].astype(np.float32))
    assert features.descriptors.dtype == features.scores.dtype == np.float32
    assert features.image_size == (9, 8)


def test_no_keypoints_tell_rows_from_columns(path: Path) -> None:
    for shape in ((0, 128), (128, 0)):
        np.savez(path, keypoints=np.zeros((0, 2)), descriptors=np.zeros(shape))
        assert read_npz(path).descriptors.shape == (0, 128)


def test_members_of_other_names_are_never_touched(rng: np.random.Generator, path: Path) -> None:
    np.savez(path, **plain(rng), meta=np.array({"a": 1}, dtype=object))
    assert len(read_npz(path)) == 5


def test_rows_and_columns_alike_are_explained(rng: np.random.Generator, path: Path) -> None:
    np.savez(path, **plain(rng, 3, 3))
    assert_refused(read_npz, path, "3 x 3 descriptors of 3 keypoints, which may be rows or columns; add frames")


@pytest.mark.parametrize(
    ("arrays", "because"),
    [
        ({"descriptors": np.ones((5, 7))}, "descriptors of shape .5, 7. for 3 features"),
        ({"descriptors": np.ones(3)}, "descriptors of shape"),
        ({"descriptors": np.array(["a"] * 3)}, "descriptors of shape"),
        ({"descriptors": np.full((3, 1), "a")}, "descriptors of type <U1; expected plain real numbers"),
        ({"descriptors": np.ones((3, 1), complex)}, "descriptors of type complex128"),
        ({"descriptors": np.ones((3, 1), bool)}, "descriptors of type bool"),
        ({"descriptors": np.full((3, 1), np.nan)}, "3 NaN or infinite values in its descriptors"),
        ({"descriptors": np.full((3, 1), 1e300)}, "3 NaN or infinite values in its descriptors"),
        ({"keypoints": np.full((3, 2), np.nan)}, "6 NaN or infinite values in its keypoints"),
        ({"keypoints": np.ones((3, 4))}, "keypoints of shape .3, 4."),
        ({"frames": np.ones((3, 5))}, "frames of shape .3, 5."),
        ({"frames": np.array([[1, 1, 1, 1, 1, np.nan]] * 3)}, "3 NaN or infinite values in its frames"),
        ({"frames": np.ones((3, 6)), "descriptors": np.ones((5, 3))}, "for 3 features"),
        ({"scores": np.ones(2)}, "scores of shape"),
        ({"scores": np.array([1, np.inf, 1])}, "1 NaN or infinite values in its scores"),
        ({"image_size": np.ones(3)}, "an image size of shape"),
        ({"image_size": np.array([-1, 1])}, "the image size .-1, 1."),
        ({"image_size": np.array([0.5, 1])}, "the image size"),
        ({"image_size": np.array([np.nan, 1])}, "the image size"),
        ({"image_size": np.array([1 << 40, 1])}, "the image size"),
        ({"image_size": np.array(["a", "b"])}, "an image size of type"),
        ({"fingerprint": np.ones(3)}, "a fingerprint of type float64; expected one text"),
        ({"fingerprint": np.array(["a", "b"])}, "a fingerprint"),
    ],
)
def test_arrays_that_do_not_fit_are_explained(path: Path, arrays: dict[str, np.ndarray], because: str) -> None:
    np.savez(path, **{"keypoints": np.ones((3, 2)), "descriptors": np.ones((3, 5))} | arrays)
    assert_refused(read_npz, path, because)


@pytest.mark.parametrize("missing", ["keypoints", "descriptors"])
def test_missing_arrays_are_named(rng: np.random.Generator, path: Path, missing: str) -> None:
    arrays = plain(rng)
    del arrays[missing]
    np.savez(path, **arrays)
    assert_refused(read_npz, path, f"holds no {missing}; expected an array named")


def test_pickled_arrays_are_never_loaded(path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return pytest.fail, ("it was unpickled",)

    np.savez(path, keypoints=np.ones((1, 2)), descriptors=np.array([[Trap()]], dtype=object))
    assert_refused(read_npz, path, "descriptors as pickled Python objects, which are never loaded")


def test_an_array_that_claims_more_than_the_file_has_costs_nothing(path: Path) -> None:
    real = npy(np.ones((1, 2), np.float32))
    header = io.BytesIO()
    shape = (1 << 20, 1 << 9)
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    archive(path, keypoints=real, descriptors=header.getvalue() + bytes(8))
    tracemalloc.start()
    assert_refused(read_npz, path, "its descriptors declare 2147483648 bytes, which is not their size")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_an_archive_that_claims_too_much_is_refused_before_it_is_read(path: Path) -> None:
    archive(path, keypoints=npy(np.ones((1, 2))), descriptors=npy(np.ones((1, 3))))
    raw = bytearray(path.read_bytes())
    directory = raw.rfind(b"PK\x01\x02")
    raw[directory + 24 : directory + 28] = struct.pack("<I", (1 << 32) - 2)
    path.write_bytes(raw)
    assert_refused(read_npz, path, "is not their size")


@pytest.mark.parametrize("dtype", ["u1", "f8"])
def test_a_small_file_of_large_arrays_is_refused_before_it_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    np.savez_compressed(path, keypoints=np.ones((9, 2)), descriptors=np.zeros((9, 1 << 20), dtype))
    assert path.stat().st_size < 200_000
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "40MB")
    tracemalloc.start()
    assert_refused(read_npz, path, "of memory; one file may take 40 MB: .* FAEMB_ITEM_MEMORY=")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_no_more_memory_is_used_than_was_counted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(path, keypoints=np.ones((9, 2)), descriptors=np.zeros((9, 1 << 20), "u1"))
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "57MB")
    tracemalloc.start()
    read_npz(path)
    assert tracemalloc.get_traced_memory()[1] < 58_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("shape", [(-1, -8), (-8,), (1 << 62, 1 << 62)])
def test_shapes_that_are_none_are_refused(path: Path, shape: tuple[int, ...]) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    archive(path, keypoints=npy(np.ones((1, 2))), descriptors=header.getvalue() + bytes(32))
    assert_refused(read_npz, path, "damaged")


@pytest.mark.parametrize("version", [(2, 0), (3, 0)])
def test_versions_of_the_array_format(path: Path, version: tuple[int, int]) -> None:
    array = npy(np.ones((1, 3), np.float32), version=version)
    archive(path, keypoints=npy(np.ones((1, 2))), descriptors=array)
    if version == (2, 0):
        assert read_npz(path).descriptors.tolist() == [[1, 1, 1]]
    else:
        assert_refused(read_npz, path, "version .3, 0. of the array format")


@pytest.mark.parametrize(
    "header",
    [b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff", b"\x93NUMPY\x01\x00\x05\x00{}[]\n", b"x" * 100],
    ids=["empty", "magic", "cut", "no-dictionary", "text"],
)
def test_members_that_are_no_arrays_are_refused(path: Path, header: bytes) -> None:
    archive(path, keypoints=npy(np.ones((1, 2))), descriptors=header)
    assert_refused(read_npz, path, "damaged")


def test_a_text_of_impossible_letters_is_refused(rng: np.random.Generator, path: Path) -> None:
    letters = np.frombuffer(b"\xff" * 8, "<U2").reshape(())
    members = {name: npy(array) for name, array in plain(rng).items()}
    archive(path, zipfile.ZIP_STORED, **members, fingerprint=npy(letters))
    assert_refused(read_npz, path, "damaged")
    assert_refused(read_npz_header, path, "damaged")


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", b"PK\x05\x06" + bytes(18), b"\x80\x04K\x01.", b"text\n" * 100],
    ids=lambda raw: repr(raw[:6]),
)
def test_files_that_are_no_archive_of_features_are_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert_refused(read_npz, path)


def test_a_changed_byte_of_the_numbers_is_noticed(rng: np.random.Generator, path: Path) -> None:
    features = some_features(rng)
    write_npz(path, features)
    raw = bytearray(path.read_bytes())
    raw[raw.find(features.descriptors.tobytes()) + 3] ^= 1
    path.write_bytes(raw)
    assert_refused(read_npz, path, "damaged .*CRC")


@pytest.mark.parametrize("read", [read_npz, read_npz_header])
def test_missing_files_and_folders_are_refused(tmp_path: Path, read: Any) -> None:
    assert_refused(read, tmp_path / "none.npz", "there is no file")
    assert_refused(read, tmp_path, "is a folder")
