"""INRIA's .siftgeo."""

import math
import struct
from pathlib import Path

import numpy as np
import pytest
from files_reference import assert_refused, siftgeo_bytes, siftgeo_record

from faemb.errors import ReadError
from faemb.features.files import read_features, read_siftgeo

UPRIGHT = [10, 20, 3, 0, 1, 0, 0, 1, 0.5]
SIFT = list(range(128))


def read_by_the_book(raw: bytes) -> list[tuple[list[float], float, list[int]]]:
    """Frame, score and descriptor of one record after the other."""
    features = []
    for start in range(0, len(raw), 168):
        x, y, scale, angle, m11, m12, m21, m22, cornerness = struct.unpack_from("<9f", raw, start)
        (dimension,) = struct.unpack_from("<i", raw, start + 36)
        cosine, sine = math.cos(angle), math.sin(angle)
        shape = [m11 * cosine + m12 * sine, m12 * cosine - m11 * sine, m21 * cosine + m22 * sine]
        shape.append(m22 * cosine - m21 * sine)
        frame = [x, y, *(scale * entry for entry in shape)]
        features.append((frame, cornerness, list(struct.unpack_from(f"<{dimension}B", raw, start + 40))))
    return features


def written(tmp_path: Path, *records: bytes) -> Path:
    path = tmp_path / "image.siftgeo"
    path.write_bytes(b"".join(records))
    return path


def test_features_are_those_of_the_plain_reader(rng: np.random.Generator, tmp_path: Path) -> None:
    raw = siftgeo_bytes(rng, 50)
    features = read_features(written(tmp_path, raw))
    expected = read_by_the_book(raw)
    np.testing.assert_allclose(features.frames, [frame for frame, _, _ in expected], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(features.scores, [np.float32(score) for _, score, _ in expected])
    np.testing.assert_array_equal(features.descriptors, [descriptor for _, _, descriptor in expected])
    assert features.descriptors.dtype == features.frames.dtype == features.scores.dtype == np.float32
    assert features.image_size == (0, 0)
    assert features.fingerprint == ""


def test_the_ellipse_is_the_detectors_own(rng: np.random.Generator, tmp_path: Path) -> None:
    """The detector draws (scale Mi)^-2 for its symmetric Mi; the angle turns the disc within."""
    root = rng.normal(size=(2, 2))
    affine = root @ root.T + 0.1 * np.eye(2)
    geometry = [10, 20, 3, 0.7, *affine.ravel(), 0]
    features = read_siftgeo(written(tmp_path, siftgeo_record(geometry, SIFT)))
    turns = np.linspace(0, 2 * np.pi, 20)
    edge = features.shapes[0] @ np.stack([np.cos(turns), np.sin(turns)])
    form = np.linalg.inv(3 * affine @ (3 * affine))
    np.testing.assert_allclose(np.einsum("in,ij,jn->n", edge, form, edge), 1, rtol=1e-4)


def test_an_angle_turns_x_towards_y(tmp_path: Path) -> None:
    geometry = [10, 20, 3, np.pi / 2, 1, 0, 0, 1, 0.5]
    features = read_siftgeo(written(tmp_path, siftgeo_record(geometry, SIFT)))
    np.testing.assert_allclose(features.shapes[0] @ [1, 0], [0, 3], atol=1e-6)


def test_an_angle_that_was_never_estimated_turns_nothing(tmp_path: Path) -> None:
    geometry = [10, 20, 3, 1000, 1, 0.5, 0.5, 1, 0.5]
    features = read_siftgeo(written(tmp_path, siftgeo_record(geometry, SIFT)))
    np.testing.assert_allclose(features.frames, [[10, 20, 3, 1.5, 1.5, 3]])


@pytest.mark.parametrize("affine", [[0, 0, 0, 0], [1, 1, 1, 1], [0.1, 0.3, 0.2, 0.6]], ids=["zeros", "ones", "rank-1"])
def test_a_singular_matrix_is_a_circle(tmp_path: Path, affine: list[float]) -> None:
    features = read_siftgeo(written(tmp_path, siftgeo_record([10, 20, 3, 0, *affine, 0.5], SIFT)))
    np.testing.assert_allclose(features.frames, [[10, 20, 3, 0, 0, 3]])


def test_a_file_of_no_bytes_is_an_image_without_features(tmp_path: Path) -> None:
    features = read_features(written(tmp_path))
    assert features.descriptors.shape == (0, 128)
    assert features.frames.shape == (0, 6)


def test_another_dimension_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, *[siftgeo_record(UPRIGHT, [1, 2, 3])] * 2)
    np.testing.assert_array_equal(read_siftgeo(path).descriptors, [[1, 2, 3]] * 2)


def test_features_of_unknown_image_size_can_be_selected_by_a_box(tmp_path: Path) -> None:
    other = [100, 200, *UPRIGHT[2:]]
    features = read_siftgeo(written(tmp_path, siftgeo_record(UPRIGHT, SIFT), siftgeo_record(other, SIFT)))
    np.testing.assert_array_equal(features.inside((50, 50, 5000, 5000)).centres, [[100, 200]])


@pytest.mark.parametrize("length", [1, 39, 40, 167, 169, 335])
def test_a_cut_file_is_refused(rng: np.random.Generator, tmp_path: Path, length: int) -> None:
    assert_refused(read_siftgeo, written(tmp_path, siftgeo_bytes(rng, 2)[:length]), "truncated.*restore it")


@pytest.mark.parametrize("dimension", [0, -1, -(1 << 31), 65_537, (1 << 31) - 1])
def test_an_absurd_dimension_is_refused(tmp_path: Path, dimension: int) -> None:
    path = written(tmp_path, struct.pack("<9fi", *UPRIGHT, dimension), bytes(128))
    assert_refused(read_siftgeo, path, f"declares {dimension} components")


def test_dimensions_that_vary_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, siftgeo_record(UPRIGHT, SIFT), struct.pack("<9fi", *UPRIGHT, 127), bytes(128))
    assert_refused(read_siftgeo, path, "record 2 declares 127 components, the first 128")


@pytest.mark.parametrize("place", range(9))
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_are_refused(tmp_path: Path, place: int, value: float) -> None:
    geometry = [*UPRIGHT[:place], value, *UPRIGHT[place + 1 :]]
    assert_refused(read_siftgeo, written(tmp_path, siftgeo_record(geometry, SIFT)), "NaN or infinite.*geometry")


def test_a_negative_scale_is_refused(tmp_path: Path) -> None:
    records = [siftgeo_record(UPRIGHT, SIFT), siftgeo_record([10, 20, -3, *UPRIGHT[3:]], SIFT)]
    assert_refused(read_siftgeo, written(tmp_path, *records), "record 2 has the scale -3")


def test_a_shape_too_large_for_a_number_is_refused(tmp_path: Path) -> None:
    geometry = [10, 20, 3e38, 0, 3e38, 0, 0, 3e38, 0]
    assert_refused(read_siftgeo, written(tmp_path, siftgeo_record(geometry, SIFT)), "NaN or infinite")


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    assert_refused(read_siftgeo, tmp_path / "none.siftgeo", "there is no file")
    assert_refused(read_siftgeo, tmp_path / ("a" * 300 + ".siftgeo"), "cannot be opened")
    folder = tmp_path / "folder.siftgeo"
    folder.mkdir()
    assert_refused(read_siftgeo, folder, "is a folder")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="this system has no file that fails")
def test_a_file_that_the_system_cannot_read_is_not_called_damaged(tmp_path):
    (tmp_path / "x.siftgeo").symlink_to("/proc/self/mem")
    with pytest.raises(ReadError, match=r"x\.siftgeo cannot be read: Input/output error$"):
        read_siftgeo(tmp_path / "x.siftgeo")
