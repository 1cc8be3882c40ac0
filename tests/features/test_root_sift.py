"""RootSIFT."""

import math

import numpy as np
import pytest

from faemb.errors import InputError
from faemb.features.root_sift import root_sift


def root_by_the_book(row: list[float]) -> list[float]:
    total = sum(row)
    return [math.sqrt(value / total) if total else 0.0 for value in row]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_the_formula(rng: np.random.Generator, dtype: type) -> None:
    rows = rng.integers(0, 256, (20, 128)).astype(dtype)
    result = root_sift(rows)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, [root_by_the_book(row) for row in rows.tolist()], rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(result, axis=1), 1, rtol=1e-6)


def test_rows_of_zeros_stay_so_and_the_input_is_unchanged() -> None:
    rows = np.array([[0, 0], [9, 16]], np.float32)
    np.testing.assert_allclose(root_sift(rows), [[0, 0], [0.6, 0.8]])
    assert rows.tolist() == [[0, 0], [9, 16]]
    assert root_sift(np.zeros((0, 128), np.float32)).shape == (0, 128)


@pytest.mark.parametrize("value", [-1, np.nan, np.inf])
def test_what_is_no_histogram_is_explained(value: float) -> None:
    with pytest.raises(InputError, match="1 values that are negative, NaN or infinite"):
        root_sift(np.array([[1, value]], np.float32))
