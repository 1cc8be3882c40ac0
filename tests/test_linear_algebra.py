"""Decompositions against NumPy's SVD, and distances that know where their digits end."""

import numpy as np
import pytest

from backends import Backend
from faemb.arrays import to_numpy
from faemb.errors import InputError
from faemb.linear_algebra import (
    add_gram,
    gram_matrix,
    mirror,
    numerical_rank,
    principal_axes,
    squared_distances,
    symmetric_eigen,
)

EPSILON = np.finfo(np.float64).eps


def symmetric(rng: np.random.Generator, size: int) -> np.ndarray:
    a = rng.standard_normal((size, size))
    return a @ a.T


def largest_components(vectors: np.ndarray) -> np.ndarray:
    """The component of largest magnitude of each row."""
    return np.take_along_axis(vectors, np.abs(vectors).argmax(1)[:, None], axis=1)


def axes_of(x: np.ndarray, count: int, backend: Backend) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    mean, variances, axes = principal_axes(backend.array(x), count)
    return to_numpy(mean), to_numpy(variances), to_numpy(axes)


# Eigenvectors


@pytest.mark.parametrize("size", [1, 2, 7])
def test_eigenvectors_rebuild_the_matrix(backend: Backend, rng: np.random.Generator, size: int) -> None:
    matrix = symmetric(rng, size)
    values, vectors = (to_numpy(a) for a in symmetric_eigen(backend.array(matrix)))
    np.testing.assert_allclose((vectors * values) @ vectors.T, matrix, atol=1e-10)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(size), atol=1e-12)
    assert (np.diff(values) <= 0).all()


def test_a_float32_matrix_is_decomposed_in_float64(backend: Backend, rng: np.random.Generator) -> None:
    values, vectors = symmetric_eigen(backend.array(symmetric(rng, 4).astype(np.float32)))
    assert to_numpy(values).dtype == to_numpy(vectors).dtype == np.float64


def test_the_largest_component_of_an_eigenvector_is_positive(backend: Backend, rng: np.random.Generator) -> None:
    vectors = to_numpy(symmetric_eigen(backend.array(symmetric(rng, 9)))[1])
    assert (largest_components(vectors.T) > 0).all()


def test_signs_do_not_depend_on_the_sign_of_the_data(backend: Backend, rng: np.random.Generator) -> None:
    for shape in ((30, 5), (5, 30)):
        x = rng.standard_normal(shape)
        np.testing.assert_allclose(axes_of(-x, 3, backend)[2], axes_of(x, 3, backend)[2], atol=1e-10)


@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("large", [False, True])
def test_a_matrix_is_kept_unless_it_may_be_overwritten(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, order: str, overwrite: bool, large: bool
) -> None:
    if large:
        monkeypatch.setattr("faemb.linear_algebra._QUICK", 0)
    matrix = symmetric(rng, 6)
    layouts = {"C": matrix.copy(), "F": np.asfortranarray(matrix), "strided": np.repeat(matrix, 2, axis=0)[::2]}
    given = layouts[order]
    values, vectors = symmetric_eigen(given, overwrite=overwrite)
    np.testing.assert_allclose((vectors * values) @ vectors.T, matrix, atol=1e-10)
    if not overwrite:
        np.testing.assert_array_equal(given, matrix)


def test_a_matrix_with_nan_is_refused() -> None:
    with pytest.raises(InputError, match="4 NaN or infinite"):
        symmetric_eigen(np.full((2, 2), np.nan))


# Principal axes


@pytest.mark.parametrize(
    "shape", [(50, 6), (6, 50), (6, 6), (2, 9), (9, 1)], ids=["tall", "wide", "square", "two", "thin"]
)
def test_principal_axes_are_those_of_the_svd(
    backend: Backend, rng: np.random.Generator, shape: tuple[int, int]
) -> None:
    x = rng.standard_normal(shape) * np.linspace(1, 2, shape[1]) + 5
    rank = min(shape[0] - 1, shape[1])
    mean, variances, axes = axes_of(x, 99, backend)
    _, singular, right = np.linalg.svd(x - x.mean(0), full_matrices=False)
    assert axes.shape == (rank, shape[1])
    np.testing.assert_allclose(mean, x.mean(0), rtol=1e-12)
    np.testing.assert_allclose(variances, singular[:rank] ** 2 / shape[0], rtol=1e-8)
    np.testing.assert_allclose(axes.T @ axes, right[:rank].T @ right[:rank], atol=1e-9)
    np.testing.assert_allclose(np.abs(np.sum(axes * right[:rank], axis=1)), 1, atol=1e-9)
    assert (largest_components(axes) > 0).all()


def test_tall_and_wide_agree(backend: Backend, rng: np.random.Generator) -> None:
    """Two more rows at the mean tip the choice of the Gram matrix; axes stay, variances shrink by the count."""
    x = rng.standard_normal((7, 8)) * np.arange(8, 0, -1)
    x -= x.mean(0)
    _, wide_variances, wide = axes_of(x, 99, backend)
    _, tall_variances, tall = axes_of(np.vstack([x, np.zeros((2, 8))]), 99, backend)
    np.testing.assert_allclose(tall, wide, atol=1e-9)
    np.testing.assert_allclose(tall_variances * 9, wide_variances * 7, rtol=1e-9)


def test_at_most_count_axes_are_given(backend: Backend, rng: np.random.Generator) -> None:
    for shape in ((30, 8), (8, 30)):
        x = rng.standard_normal(shape)
        some, every = axes_of(x, 3, backend), axes_of(x, 99, backend)
        np.testing.assert_allclose(some[1], every[1][:3], rtol=1e-12)
        np.testing.assert_allclose(some[2], every[2][:3], atol=1e-12)


@pytest.mark.parametrize("shape", [(40, 12), (12, 40)], ids=["tall", "wide"])
def test_axes_at_rounding_level_are_left_out(
    backend: Backend, rng: np.random.Generator, shape: tuple[int, int]
) -> None:
    x = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1])) + 1
    _, variances, axes = axes_of(x, 99, backend)
    assert len(variances) == len(axes) == 3
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-10)


@pytest.mark.parametrize("shape", [(40, 12), (12, 40)], ids=["tall", "wide"])
@pytest.mark.parametrize("small", [1e-3, 1e-5, 1e-6])
def test_axes_of_small_variance_are_orthonormal_too(
    backend: Backend, rng: np.random.Generator, shape: tuple[int, int], small: float
) -> None:
    """Deviations `small` times the largest: well above rounding, so the axis is kept and must be one."""
    rank = 5
    left, right = (np.linalg.qr(rng.standard_normal((side, rank)))[0] for side in shape)
    x = (left * np.geomspace(1, small, rank)) @ right.T
    axes = axes_of(x, 99, backend)[2]
    np.testing.assert_allclose(axes @ axes.T, np.eye(len(axes)), atol=1e-10)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1])
@pytest.mark.parametrize("shape", [(1, 4), (3, 4), (7, 4)], ids=str)
def test_equal_rows_have_no_axes(backend: Backend, shape: tuple[int, int], value: float) -> None:
    mean, variances, axes = axes_of(np.full(shape, value), 99, backend)
    np.testing.assert_allclose(mean, value)
    assert (variances.shape, axes.shape) == ((0,), (0, 4))


# Rank


@pytest.mark.parametrize(
    ("values", "rank"),
    [
        ([], 0),
        ([0.0, 0.0], 0),
        ([-1e-20, -1e-18], 0),
        ([1.0], 1),
        ([5.0, 1.0, 1e-10], 3),
        ([5.0, 1.0, 1e-17, 0.0, -1e-17], 2),
        ([1e-300, 1e-300], 2),
        ([1e300, 1e280], 1),
    ],
    ids=str,
)
def test_rank_counts_what_stands_above_rounding(backend: Backend, values: list[float], rank: int) -> None:
    assert numerical_rank(backend.array(np.array(values, np.float64)), 3, backend.array(np.zeros(3))) == rank


def test_the_bar_of_rounding_rises_with_the_size(backend: Backend) -> None:
    values = backend.array(np.array([1.0, 50 * EPSILON]))
    assert numerical_rank(values, 10, backend.array(np.zeros(2))) == 2
    assert numerical_rank(values, 100, backend.array(np.zeros(2))) == 1


# Distances


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_squared_distances_are_those_of_the_differences(
    backend: Backend, rng: np.random.Generator, dtype: type[np.floating]
) -> None:
    x, v = rng.standard_normal((9, 5)).astype(dtype), rng.standard_normal((4, 5)).astype(dtype)
    result = to_numpy(squared_distances(backend.array(x), backend.array(v)))
    assert result.dtype == dtype
    expected = ((x[:, None].astype(np.float64) - v) ** 2).sum(2)
    np.testing.assert_allclose(result, expected, atol=100 * float(np.finfo(dtype).eps))


def test_squared_distances_are_never_negative(backend: Backend, rng: np.random.Generator) -> None:
    x = (1000 * rng.standard_normal((50, 7))).astype(np.float32)
    assert (to_numpy(squared_distances(backend.array(x), backend.array(x))) >= 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_descriptor_on_an_anchor_is_at_distance_zero_exactly(
    backend: Backend, rng: np.random.Generator, dtype: type[np.floating]
) -> None:
    x = (rng.standard_normal((200, 64)) * np.logspace(-3, 3, 200)[:, None]).astype(dtype)
    distance = to_numpy(squared_distances(backend.array(x), backend.array(x)))
    assert (distance.diagonal() == 0).all()
    assert (distance > 0)[~np.eye(200, dtype=bool)].all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_just_above_rounding_the_distance_is_right_to_a_few_percent(
    backend: Backend, rng: np.random.Generator, dtype: type[np.floating]
) -> None:
    anchor = rng.standard_normal((100, 64))
    step = rng.standard_normal((100, 64))
    step *= np.sqrt(70 * np.finfo(dtype).eps * 2) * np.linalg.norm(anchor, axis=1, keepdims=True)
    step /= np.linalg.norm(step, axis=1, keepdims=True)
    x, v = (anchor + step).astype(dtype), anchor.astype(dtype)
    result = to_numpy(squared_distances(backend.array(x), backend.array(v))).diagonal()
    exact = ((x.astype(np.float64) - v.astype(np.float64)) ** 2).sum(1)
    np.testing.assert_allclose(result, exact, rtol=0.05)


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 16, 21])
def test_the_gram_matrix_is_the_same_in_blocks(
    backend: Backend, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    x = rng.standard_normal((30, columns))
    monkeypatch.setattr("faemb.linear_algebra._COLUMNS", 8)
    product = to_numpy(gram_matrix(backend.array(x)))
    np.testing.assert_allclose(product, x.T @ x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(product, product.T, rtol=1e-12, atol=1e-12)


def test_gram_matrices_of_parts_add_up(
    backend: Backend, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rng.standard_normal((30, 21))
    monkeypatch.setattr("faemb.linear_algebra._COLUMNS", 8)
    total = backend.array(np.zeros((21, 21)))
    for part in np.split(x, 3):
        add_gram(total, backend.array(part))
    mirror(total)
    np.testing.assert_allclose(to_numpy(total), x.T @ x, rtol=1e-12, atol=1e-12)
