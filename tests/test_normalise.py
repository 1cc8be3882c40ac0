"""Unit length and the power law, on every number that a float can be."""

from typing import Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from backends import Backend
from faemb.arrays import to_numpy
from faemb.normalise import power_law, unit_length, unit_length_cells

# The backend is a constant, so it may be shared by the examples that hypothesis tries.
examples = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def matrices(dtype: type = np.float32, largest: float = 3e38) -> st.SearchStrategy[np.ndarray]:
    """Finite numbers of all sizes, subnormal ones and both zeros included."""
    width: Literal[32, 64] = 32 if dtype is np.float32 else 64
    limit = float(np.dtype(dtype).type(largest))
    numbers = st.floats(-limit, limit, width=width, allow_subnormal=True)
    return arrays(dtype, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=numbers)


def lengths(x: np.ndarray) -> np.ndarray:
    return np.linalg.norm(x.astype(np.float64), axis=-1)


# Unit length


@examples
@given(x=matrices())
def test_every_float32_vector_gets_unit_length_or_stays_zero(backend: Backend, x: np.ndarray) -> None:
    result = to_numpy(unit_length(backend.array(x)))
    assert result.dtype == np.float32
    np.testing.assert_allclose(lengths(result), np.any(x != 0, axis=1), atol=1e-5)


@examples
@given(x=matrices(np.float64, 1e308))
def test_every_float64_vector_gets_unit_length_or_stays_zero(backend: Backend, x: np.ndarray) -> None:
    result = to_numpy(unit_length(backend.array(x)))
    assert result.dtype == np.float64
    np.testing.assert_allclose(lengths(result), np.any(x != 0, axis=1), atol=1e-12)


@examples
@given(x=matrices(largest=1e15))
def test_the_direction_is_kept(backend: Backend, x: np.ndarray) -> None:
    wide = x.astype(np.float64)
    expected = wide / np.where(lengths(wide) > 0, lengths(wide), 1)[:, None]
    np.testing.assert_allclose(to_numpy(unit_length(backend.array(x))), expected, atol=1e-6)


@pytest.mark.parametrize("value", [1e38, 3.4e38, 1e-38, 1e-40, 1e-45], ids=str)
def test_huge_and_subnormal_vectors_get_unit_length(backend: Backend, value: float) -> None:
    x = np.full((1, 4), value, np.float32)
    np.testing.assert_allclose(to_numpy(unit_length(backend.array(x))), 0.5, rtol=1e-6)


def test_zero_vectors_stay_zero(backend: Backend) -> None:
    zeros = np.array([[0.0, -0.0, 0.0]])
    np.testing.assert_array_equal(to_numpy(unit_length(backend.array(zeros))), zeros)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0), (2, 0, 3)], ids=str)
def test_nothing_stays_nothing(backend: Backend, shape: tuple[int, ...]) -> None:
    assert to_numpy(unit_length(backend.array(np.zeros(shape)))).shape == shape


def test_the_last_axis_is_the_vector(backend: Backend, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3, 4))
    np.testing.assert_allclose(lengths(to_numpy(unit_length(backend.array(x)))), np.ones((2, 3)), rtol=1e-12)
    np.testing.assert_allclose(lengths(to_numpy(unit_length(backend.array(x[0, 0])))), 1, rtol=1e-12)


def test_inputs_stay_as_they_are(backend: Backend, rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 4))
    for normalise in (unit_length, power_law, lambda v: unit_length_cells(v, 2)):
        given_x = backend.array(x.copy())
        normalise(given_x)
        np.testing.assert_array_equal(to_numpy(given_x), x)


# Power law


@examples
@given(x=matrices(largest=1e30), exponent=st.floats(0.01, 1))
def test_the_power_law_is_odd(backend: Backend, x: np.ndarray, exponent: float) -> None:
    positive, negative = (to_numpy(power_law(backend.array(v), exponent)) for v in (x, -x))
    np.testing.assert_array_equal(negative, -positive)
    np.testing.assert_array_equal(np.sign(positive), np.sign(x))


@examples
@given(x=matrices())
def test_the_exponent_one_changes_nothing(backend: Backend, x: np.ndarray) -> None:
    np.testing.assert_array_equal(to_numpy(power_law(backend.array(x), 1)), x)
    np.testing.assert_array_equal(to_numpy(power_law(backend.array(x), 1.0)), x)


@examples
@given(x=matrices())
def test_the_exponent_one_half_squares_back(backend: Backend, x: np.ndarray) -> None:
    root = to_numpy(power_law(backend.array(x), 0.5)).astype(np.float64)
    np.testing.assert_allclose(root * np.abs(root), x, rtol=1e-6, atol=1e-45)


@examples
@given(x=matrices(np.float64, 1e6), exponent=st.floats(0.1, 1))
def test_the_power_law_is_the_formula(backend: Backend, x: np.ndarray, exponent: float) -> None:
    expected = [[np.sign(a) * abs(a) ** exponent for a in row] for row in x]
    np.testing.assert_allclose(to_numpy(power_law(backend.array(x), exponent)), expected, rtol=1e-12)


# Cells


def test_each_cell_gets_unit_length_by_itself(backend: Backend, rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 12)).astype(np.float32)
    x[1, 4:8] = 0
    result = to_numpy(unit_length_cells(backend.array(x), 3))
    for cell in range(3):
        part = slice(4 * cell, 4 * cell + 4)
        np.testing.assert_allclose(result[:, part], to_numpy(unit_length(backend.array(x[:, part]))), rtol=1e-6)


def test_an_empty_cell_stays_zero(backend: Backend) -> None:
    x = np.array([[3.0, 4.0, 0.0, 0.0]])
    np.testing.assert_allclose(to_numpy(unit_length_cells(backend.array(x), 2)), [[0.6, 0.8, 0, 0]])


def test_one_cell_is_the_whole_vector(backend: Backend, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3, 6))
    whole, cells = unit_length(backend.array(x)), unit_length_cells(backend.array(x), 1)
    np.testing.assert_array_equal(to_numpy(cells), to_numpy(whole))
