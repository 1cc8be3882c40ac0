"""Oxford's text files."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from files_reference import assert_refused, ellipses, oxford_text
from hypothesis import given
from hypothesis import strategies as st

from faemb.features.files import oxford, read_features, read_oxford


def read_by_the_book(text: str) -> tuple[list[list[float]], list[list[float]]]:
    """Geometry and descriptors, one line after the other."""
    lines = text.splitlines()
    dimension, count = int(lines[0]), int(lines[1])
    rows = [[float(word) for word in line.split()] for line in lines[2 : 2 + count]]
    return [row[:5] for row in rows], [row[5 : 5 + dimension] for row in rows]


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "image.hesaff.sift"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_features_are_those_of_the_plain_reader(rng: np.random.Generator, tmp_path: Path) -> None:
    text = oxford_text(ellipses(rng, 30), rng.integers(0, 256, (30, 128)))
    features = read_features(written(tmp_path, text))
    geometry, descriptors = read_by_the_book(text)
    np.testing.assert_array_equal(features.descriptors, descriptors)
    np.testing.assert_array_equal(features.centres, np.array(geometry, np.float32)[:, :2])
    np.testing.assert_array_equal(features.scores, np.zeros(30))
    assert features.descriptors.dtype == features.frames.dtype == features.scores.dtype == np.float32
    assert features.image_size == (0, 0)


def test_points_on_the_rim_satisfy_the_quadratic_form(rng: np.random.Generator, tmp_path: Path) -> None:
    rows = ellipses(rng, 30)
    features = read_oxford(written(tmp_path, oxford_text(rows, np.ones((30, 2)))))
    turns = np.linspace(0, 2 * np.pi, 20)
    for (_, _, a, b, c), shape in zip(rows, features.shapes.astype(float), strict=True):
        u, v = shape @ np.stack([np.cos(turns), np.sin(turns)])
        np.testing.assert_allclose(a * u**2 + 2 * b * u * v + c * v**2, 1, rtol=1e-4)


def test_up_stays_up(rng: np.random.Generator, tmp_path: Path) -> None:
    features = read_oxford(written(tmp_path, oxford_text(ellipses(rng, 30), np.ones((30, 2)))))
    np.testing.assert_array_equal(features.shapes[:, 0, 1], 0)
    assert (features.shapes[:, 0, 0] > 0).all()
    assert (features.shapes[:, 1, 1] > 0).all()


@given(a=st.floats(1e-6, 10), c=st.floats(1e-6, 10), slant=st.floats(-0.99, 0.99))
def test_the_shape_is_the_lower_triangular_root_of_the_inverse(a: float, c: float, slant: float) -> None:
    b = slant * np.sqrt(a * c)
    shape = oxford._shapes(np.array([[a, b, c]]))[0]
    np.testing.assert_allclose(shape, np.linalg.cholesky(np.linalg.inv([[a, b], [b, c]])), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("text", ["128\n0\n", "128.0\n0", " 128 0 "])
def test_an_image_without_features(tmp_path: Path, text: str) -> None:
    features = read_oxford(written(tmp_path, text))
    assert features.descriptors.shape == (0, 128)
    assert features.frames.shape == (0, 6)


def test_descriptors_may_be_fractions_and_the_head_too(tmp_path: Path) -> None:
    features = read_oxford(written(tmp_path, "2.0\r\n1\r\n1.5 2.5 1 0 4 0.25 -1e-2\r\n"))
    np.testing.assert_allclose(features.descriptors, [[0.25, -0.01]])
    np.testing.assert_allclose(features.frames, [[1.5, 2.5, 1, 0, 0, 0.5]])


def test_regions_that_nobody_described_are_explained(tmp_path: Path) -> None:
    path = written(tmp_path, "1.0\n2\n10 20 0.1 0 0.1\n30 40 0.1 0 0.1\n")
    assert_refused(read_oxford, path, "2 regions without descriptors; describe them first")


def test_a_descriptor_of_one_number_is_one(tmp_path: Path) -> None:
    assert read_oxford(written(tmp_path, "1.0\n1\n10 20 0.1 0 0.1 7\n")).descriptors.tolist() == [[7]]


@pytest.mark.parametrize(
    "text",
    ["", "128", "-1\n0", "0\n0", "65537\n0", "1e300 0", "2.5\n0", "2\n-1", "2\n0.5", "nan\n0", "inf\n0", "2 inf"],
)
def test_a_head_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    assert_refused(read_oxford, written(tmp_path, text), "begins with.*expected the dimension")


@pytest.mark.parametrize(
    "text", [b"GIF89a", b"\xff\xfe\x00", b"2\n1\n1 2 1 0 1 3 x\n", b"2\n1\n1 2 1 0 1 3 \xc3\xa9\n", b"{}" * 5000]
)
def test_what_is_no_number_is_refused(tmp_path: Path, text: bytes) -> None:
    assert_refused(read_oxford, written(tmp_path, text), "not a text of numbers")


@pytest.mark.parametrize(
    "text", ["2\n1\n1 2 1 0 1 3", "2\n1\n1 2 1 0 1 3 4 5", "2\n99999999999999\n1 2 1 0 1 3 4", "2 1e300", "128\n1\n"]
)
def test_too_few_or_too_many_numbers_are_refused(tmp_path: Path, text: str) -> None:
    assert_refused(read_oxford, written(tmp_path, text), "truncated or damaged")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999"])
@pytest.mark.parametrize("place", range(7))
def test_numbers_that_are_none_are_refused(tmp_path: Path, value: str, place: int) -> None:
    row = ["1", "2", "1", "0", "1", "3", "4"]
    row[place] = value
    assert_refused(read_oxford, written(tmp_path, "2\n1\n" + " ".join(row)), "NaN or infinite")


@pytest.mark.parametrize("form", ["0 0 0", "-1 0 -1", "1 1 1", "1 2 1", "1 0 0", "1e-200 0 1e-200"])
def test_forms_of_no_ellipse_are_refused(tmp_path: Path, form: str) -> None:
    path = written(tmp_path, f"1\n2\n1 2 1 0 1 9\n1 2 {form} 9\n")
    assert_refused(read_oxford, path, "row 2 do not give an ellipse")


@pytest.mark.parametrize("row", ["1e300 2 1 0 1 9", "1 2 1 0 1 1e300", "1 2 1e-150 0 1e-150 9"])
def test_numbers_too_large_for_an_image_are_refused(tmp_path: Path, row: str) -> None:
    assert_refused(read_oxford, written(tmp_path, f"1\n1\n{row}\n"), "NaN or infinite")


@pytest.mark.parametrize("block", [1, 7, 64])
def test_numbers_across_blocks_are_read_whole(
    rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    path = written(tmp_path, oxford_text(ellipses(rng, 5), rng.integers(0, 256, (5, 8))))
    whole = read_oxford(path)
    monkeypatch.setattr(oxford, "_BLOCK", block)
    np.testing.assert_array_equal(read_oxford(path).descriptors, whole.descriptors)
    np.testing.assert_array_equal(read_oxford(path).frames, whole.frames)


def test_a_text_of_many_numbers_takes_the_memory_that_was_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = "1 2 1 0 1 " + "100 " * 1000
    path = written(tmp_path, f"1000\n1000\n{row * 1000}")
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "14MB")
    tracemalloc.start()
    assert len(read_oxford(path)) == 1000
    assert tracemalloc.get_traced_memory()[1] < 25_000_000
    tracemalloc.stop()
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "13MB")
    assert_refused(read_oxford, path, "needs 13.5 MB of memory; one file may take 13 MB")


def test_a_word_without_an_end_is_refused(tmp_path: Path) -> None:
    assert_refused(read_oxford, written(tmp_path, b"1 1 " + b"1" * 3_000_000), "is not a text of numbers")
