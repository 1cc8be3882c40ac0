"""Whitening: its statistics, its null space, its floor, and why all of it is done in float64."""

import tracemalloc
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends import Backend
from faemb.arrays import to_numpy
from faemb.errors import InputError, NotFittedError
from faemb.whitening import Moments, Spectrum, Whitening

Fit = Callable[..., Whitening]

# The backend is a constant, so it may be shared by the examples that hypothesis tries.
examples = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def y(rng: np.random.Generator) -> np.ndarray:
    """Three hundred rows with a full covariance, correlated, and away from the origin."""
    return rng.standard_normal((300, 6)) @ rng.standard_normal((6, 6)) + 3


@pytest.fixture
def fit(backend: Backend) -> Fit:
    """A whitening of some rows, fitted on the backend under test."""
    return lambda rows, **options: Whitening(**options).fit(Moments.of(backend.array(rows)))


def with_spectrum(rng: np.random.Generator, variances: np.ndarray, rows: int) -> np.ndarray:
    """Rows whose covariance has exactly these eigenvalues, in axes at random."""
    width = len(variances)
    white = rng.standard_normal((rows, width))
    white -= white.mean(0)
    white = np.linalg.qr(white)[0] * np.sqrt(rows)
    return white * np.sqrt(variances) @ np.linalg.qr(rng.standard_normal((width, width)))[0].T


def whitened(whitening: Whitening, rows: np.ndarray, backend: Backend) -> np.ndarray:
    """W (y - mean), as pooling would centre it, in float64."""
    return to_numpy(whitening.apply(backend.array(rows - to_numpy(whitening.mean_).astype(np.float64))))


def variances_of(rows: np.ndarray) -> np.ndarray:
    return rows.var(0)


def covariance(moments: Moments) -> np.ndarray:
    return to_numpy(moments.scatter) / moments.count


def assert_same(moments: Moments, expected: Moments) -> None:
    assert moments.count == expected.count
    np.testing.assert_allclose(to_numpy(moments.mean), to_numpy(expected.mean), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(to_numpy(moments.scatter), to_numpy(expected.scatter), rtol=1e-9, atol=1e-8)


# Moments


def test_moments_are_those_of_numpy(backend: Backend, y: np.ndarray) -> None:
    moments = Moments.of(backend.array(y))
    assert moments.count == 300
    np.testing.assert_allclose(to_numpy(moments.mean), y.mean(0), rtol=1e-12)
    np.testing.assert_allclose(covariance(moments), np.cov(y.T, bias=True), rtol=1e-10)


def test_moments_of_float32_rows_are_taken_in_float64(backend: Backend, y: np.ndarray) -> None:
    rows = y.astype(np.float32)
    moments = Moments.of(backend.array(rows))
    assert to_numpy(moments.scatter).dtype == np.float64
    np.testing.assert_allclose(covariance(moments), np.cov(rows.T.astype(np.float64), bias=True), rtol=1e-10)


@examples
@given(cuts=st.sets(st.integers(1, 39), max_size=12), order=st.randoms(use_true_random=False))
def test_parts_merge_to_the_whole_in_any_grouping(backend: Backend, cuts: set[int], order: Any) -> None:
    rows = np.random.default_rng(0).standard_normal((40, 4)) * [1, 10, 100, 0.1] + [0, 5, -50, 1]
    parts = [Moments.of(backend.array(part)) for part in np.split(rows, sorted(cuts))]
    while len(parts) > 1:
        order.shuffle(parts)
        parts.append(parts.pop() + parts.pop())
    assert_same(parts[0], Moments.of(backend.array(rows)))


@examples
@given(cuts=st.sets(st.integers(0, 40), max_size=12))
def test_parts_give_what_the_whole_gives(backend: Backend, cuts: set[int]) -> None:
    rows = np.random.default_rng(0).standard_normal((40, 4)) * [1, 10, 100, 0.1] + [0, 5, -50, 1]
    parts = (backend.array(part.copy()) for part in np.split(rows, sorted(cuts)))  # parts are overwritten
    assert_same(Moments.of_parts(parts), Moments.of(backend.array(rows)))


def test_rows_are_not_changed(backend: Backend, rng: np.random.Generator) -> None:
    rows = rng.standard_normal((40, 4))
    given = backend.array(rows.copy())
    Moments.of(given)
    np.testing.assert_array_equal(to_numpy(given), rows)


def test_learning_needs_no_more_than_three_large_arrays(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 16,560 dimensions one D x D array takes 2.2 GB; there were five of them, and a workspace of two more."""
    size = 800
    monkeypatch.setattr("faemb.linear_algebra._QUICK", 80)
    monkeypatch.setattr("faemb.linear_algebra._COLUMNS", 80)
    monkeypatch.setattr("faemb.linear_algebra._SIGNS_AT_ONCE", 80)
    monkeypatch.setattr("faemb.whitening._ROWS", 80)
    Whitening().fit_spectrum(Spectrum.of(Moments.of_parts([rng.standard_normal((50, 100))]), centre=True))  # imports
    tracemalloc.start()
    moments = Moments.of_parts(rng.standard_normal((50, size)) for _ in range(20))
    statistics = tracemalloc.get_traced_memory()[1]
    spectrum = Spectrum.of(moments, centre=True, overwrite=True)
    Whitening().fit_spectrum(spectrum)
    learning = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert statistics < 1.5 * 8 * size**2
    assert learning < 3 * 8 * size**2


@pytest.mark.parametrize("centre", [True, False])
def test_statistics_are_kept_unless_they_may_be_overwritten(y: np.ndarray, centre: bool) -> None:
    moments = Moments.of(y)
    before = moments.scatter.copy()
    spectrum = Spectrum.of(moments, centre=centre)
    np.testing.assert_array_equal(moments.scatter, before)
    second = np.cov(y.T, bias=True) if centre else y.T @ y / len(y)
    np.testing.assert_allclose(spectrum.values, np.linalg.eigvalsh(second)[::-1], rtol=1e-9)


def test_forming_the_product_tells_how_far_it_is(y: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faemb.whitening._ROWS", 4)
    whitening, told = Whitening().fit(Moments.of(y)), []
    plain = whitening.metric(y)
    whitening.prepare_metric(1000, lambda *call: told.append(call))
    assert told == [("preparing to encode", done, 6) for done in (0, 4, 6)]
    np.testing.assert_allclose(whitening.metric(y), plain, rtol=1e-4)


def test_single_rows_merge_to_the_whole(backend: Backend, y: np.ndarray) -> None:
    merged = reduce(Moments.__add__, (Moments.of(backend.array(row[None])) for row in y))
    assert_same(merged, Moments.of(backend.array(y)))


def test_a_single_row_has_no_scatter(backend: Backend, y: np.ndarray) -> None:
    moments = Moments.of(backend.array(y[:1]))
    np.testing.assert_array_equal(to_numpy(moments.mean), y[0])
    np.testing.assert_array_equal(to_numpy(moments.scatter), np.zeros((6, 6)))


def test_merging_changes_neither_part(backend: Backend, y: np.ndarray) -> None:
    first, second = Moments.of(backend.array(y[:100])), Moments.of(backend.array(y[100:]))
    before = [to_numpy(a).copy() for a in (first.mean, first.scatter, second.mean, second.scatter)]
    _ = first + second
    after = [to_numpy(a) for a in (first.mean, first.scatter, second.mean, second.scatter)]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(new, old)


def test_a_large_mean_keeps_the_digits_of_a_tiny_variance(backend: Backend, rng: np.random.Generator) -> None:
    rows = 1e6 + 1e-3 * rng.standard_normal((2000, 3)) @ rng.standard_normal((3, 3))
    expected = np.cov((rows - 1e6).T, bias=True)
    whole = Moments.of(backend.array(rows))
    merged = reduce(Moments.__add__, (Moments.of(backend.array(part)) for part in np.array_split(rows, 7)))
    tolerance = 1e-4 * expected.diagonal().min()
    np.testing.assert_allclose(covariance(whole), expected, atol=tolerance)
    np.testing.assert_allclose(covariance(merged), expected, atol=tolerance)


def test_the_naive_formula_would_lose_those_digits(rng: np.random.Generator) -> None:
    rows = 1e6 + 1e-3 * rng.standard_normal((2000, 3))
    mean = rows.mean(0)
    naive = rows.T @ rows / len(rows) - np.outer(mean, mean)
    assert np.abs(naive - np.cov((rows - 1e6).T, bias=True)).max() > 1e-6


def test_statistics_of_nothing_are_refused(backend: Backend) -> None:
    with pytest.raises(InputError, match="no embedded descriptors"):
        Moments.of(backend.array(np.zeros((0, 3))))


def test_statistics_of_nan_are_refused(backend: Backend, y: np.ndarray) -> None:
    y[3, 2] = np.nan
    with pytest.raises(InputError, match="1 NaN or infinite"):
        Moments.of(backend.array(y))


# What whitening is


def test_whitened_training_rows_have_the_identity_as_covariance(fit: Fit, backend: Backend, y: np.ndarray) -> None:
    rows = whitened(fit(y, floor=0), y, backend)
    np.testing.assert_allclose(np.cov(rows.T, bias=True), np.eye(6), atol=1e-4)
    np.testing.assert_allclose(rows.mean(0), 0, atol=1e-4)


def test_eigenvalues_are_kept_in_float64_largest_first(fit: Fit, y: np.ndarray) -> None:
    values = to_numpy(fit(y, floor=0.5).eigenvalues_)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, np.linalg.eigvalsh(np.cov(y.T, bias=True))[::-1], rtol=1e-9)


def test_truncation_drops_exactly_the_leading_components(fit: Fit, y: np.ndarray) -> None:
    every, truncated = fit(y), fit(y, discard=2)
    assert truncated.dimension == every.dimension - 2 == 4
    np.testing.assert_array_equal(to_numpy(truncated.matrix_), to_numpy(every.matrix_)[2:])


def test_the_callers_discard_counts_only_where_the_setting_is_none(y: np.ndarray) -> None:
    moments = Moments.of(y)
    assert Whitening().fit(moments, discard=2).dimension == 4
    assert Whitening(discard=1).fit(moments, discard=2).dimension == 5
    assert Whitening(discard=0).fit(moments, discard=2).dimension == 6


def test_without_centring_the_second_moment_is_whitened(fit: Fit, backend: Backend, y: np.ndarray) -> None:
    whitening = fit(y, centre=False, floor=0)
    rows = whitened(whitening, y, backend)
    np.testing.assert_array_equal(to_numpy(whitening.mean_), np.zeros(6))
    np.testing.assert_allclose(rows.T @ rows / len(y), np.eye(6), atol=1e-4)


def test_signs_are_fixed_by_the_largest_component(fit: Fit, y: np.ndarray) -> None:
    matrix = to_numpy(fit(y).matrix_)
    largest = np.take_along_axis(matrix, np.abs(matrix).argmax(1)[:, None], axis=1)
    assert (largest > 0).all()


def test_equal_rows_give_equal_bits(fit: Fit, y: np.ndarray) -> None:
    np.testing.assert_array_equal(to_numpy(fit(y).matrix_), to_numpy(fit(y.copy()).matrix_))


def test_an_unfitted_whitening_says_so() -> None:
    with pytest.raises(NotFittedError, match="Whitening has learned nothing yet"):
        _ = Whitening().dimension
    with pytest.raises(NotFittedError, match="Whitening has learned nothing yet"):
        Whitening().prepare_metric(10)


# The null space


def test_linearly_dependent_columns_are_null_directions_and_left_out(fit: Fit, backend: Backend, y: np.ndarray) -> None:
    rows = np.hstack([y, y[:, :1] + y[:, 1:2], y[:, 2:3] - 2 * y[:, 3:4]])
    whitening = fit(rows, floor=0)
    assert rows.shape[1] - whitening.dimension == 2
    np.testing.assert_allclose(variances_of(whitened(whitening, rows, backend)), 1, atol=1e-4)


def test_coefficients_that_sum_to_one_have_one_null_direction(fit: Fit, rng: np.random.Generator) -> None:
    coefficients = rng.dirichlet(np.ones(16), 400)
    assert fit(coefficients, floor=0).dimension == 16 - 1


def test_a_full_covariance_has_no_null_directions(fit: Fit, y: np.ndarray) -> None:
    assert fit(y).dimension == y.shape[1]


def test_fewer_rows_than_dimensions_span_one_direction_less_than_their_count(
    fit: Fit, backend: Backend, rng: np.random.Generator
) -> None:
    rows = rng.standard_normal((10, 40))
    whitening = fit(rows, floor=0)
    assert whitening.dimension == 9
    np.testing.assert_allclose(np.cov(whitened(whitening, rows, backend).T, bias=True), np.eye(9), atol=1e-4)


def test_without_centring_few_rows_span_as_many_directions_as_there_are(fit: Fit, rng: np.random.Generator) -> None:
    assert fit(rng.standard_normal((10, 40)), floor=0, centre=False).dimension == 10


def test_discarding_all_directions_is_explained_with_the_numbers(fit: Fit, rng: np.random.Generator) -> None:
    rows = rng.standard_normal((10, 40))
    assert fit(rows, discard=8).dimension == 1
    with pytest.raises(InputError, match=r"10 embedded descriptors span 9 directions, and 9 are to be discarded"):
        fit(rows, discard=9)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e5, 1 / 3])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_equal_rows_span_nothing(fit: Fit, count: int, value: float) -> None:
    with pytest.raises(InputError, match="are equal"):
        fit(np.full((count, 4), value))


def test_a_negative_discard_is_refused(fit: Fit, y: np.ndarray) -> None:
    with pytest.raises(InputError, match="-1"):
        fit(y, discard=-1)


# The small end of the spectrum


def test_the_floor_holds_small_eigenvalues_up(fit: Fit, backend: Backend, rng: np.random.Generator) -> None:
    variances = np.array([4.0, 1.0, 0.1, 0.02, 0.001])
    rows = with_spectrum(rng, variances, 200)
    floor = 0.01
    expected = variances / np.maximum(variances, floor * 4)
    np.testing.assert_allclose(variances_of(whitened(fit(rows, floor=floor), rows, backend)), expected, rtol=1e-4)


@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_the_last_eigenvalues_are_raised_to_the_one_before_them(
    fit: Fit, backend: Backend, rng: np.random.Generator, count: int
) -> None:
    variances = np.array([8.0, 5.0, 3.0, 1.0, 0.5, 0.1])
    rows = with_spectrum(rng, variances, 200)
    expected = variances / np.maximum(variances, variances[len(variances) - 1 - count])
    result = variances_of(whitened(fit(rows, floor=0, raise_last=count), rows, backend))
    np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_null_directions_are_raised_with_the_last(fit: Fit, rng: np.random.Generator) -> None:
    rows = with_spectrum(rng, np.array([8.0, 5.0, 3.0, 1.0, 0.0, 0.0]), 200)
    whitening = fit(rows, floor=0, raise_last=3)
    lengths = np.linalg.norm(to_numpy(whitening.matrix_), axis=1)
    np.testing.assert_allclose(lengths, 1 / np.sqrt([8, 5, 3, 3, 3, 3]), rtol=1e-5)


def test_null_directions_beyond_the_last_are_left_out_all_the_same(fit: Fit, rng: np.random.Generator) -> None:
    rows = with_spectrum(rng, np.array([8.0, 5.0, 3.0, 1.0, 0.0, 0.0]), 200)
    whitening = fit(rows, floor=0, raise_last=1)
    assert whitening.dimension == 4
    assert np.isfinite(to_numpy(whitening.matrix_)).all()


@pytest.mark.parametrize("count", [4, 128])
def test_raising_every_eigenvalue_is_refused(fit: Fit, rng: np.random.Generator, count: int) -> None:
    rows = with_spectrum(rng, np.array([8.0, 5.0, 3.0, 0.0]), 200)
    with pytest.raises(InputError, match="raise_last"):
        fit(rows, floor=0, raise_last=count)


def in_float32(rows: np.ndarray) -> np.ndarray:
    """The same whitening with float32 statistics and float32 eigenvectors."""
    y = rows.astype(np.float32)
    y = y - y.mean(0)
    values, vectors = np.linalg.eigh(y.T @ y / np.float32(len(y)))
    return vectors.T / np.sqrt(np.maximum(values, np.finfo(np.float32).tiny))[:, None]


def test_a_spectrum_of_nine_orders_is_whitened_in_every_direction(
    fit: Fit, backend: Backend, rng: np.random.Generator
) -> None:
    rows = with_spectrum(rng, np.logspace(0, -9, 40), 2000)
    whitening = fit(rows, floor=1e-10)
    assert whitening.dimension == 40
    np.testing.assert_allclose(variances_of(whitened(whitening, rows, backend)), 1, atol=1e-2)


def test_float32_statistics_would_miss_it_badly(rng: np.random.Generator) -> None:
    rows = with_spectrum(rng, np.logspace(0, -9, 40), 2000)
    variances = variances_of((rows - rows.mean(0)) @ in_float32(rows).astype(np.float64).T)
    assert np.abs(variances - 1).max() > 1
    assert np.mean(np.abs(variances - 1) > 1e-2) > 0.1


def test_directions_above_the_default_floor_have_unit_variance(
    fit: Fit, backend: Backend, rng: np.random.Generator
) -> None:
    spectrum = np.logspace(0, -9, 40)
    rows = with_spectrum(rng, spectrum, 2000)
    expected = np.minimum(spectrum / 1e-6, 1)
    np.testing.assert_allclose(variances_of(whitened(fit(rows), rows, backend)), expected, atol=1e-2)


# The metric


def test_the_metric_is_the_matrix_transposed_times_the_matrix(fit: Fit, backend: Backend, y: np.ndarray) -> None:
    whitening = fit(y, discard=1)
    matrix = to_numpy(whitening.matrix_).astype(np.float64)
    expected = y @ matrix.T @ matrix
    np.testing.assert_allclose(to_numpy(whitening.metric(backend.array(y))), expected, rtol=1e-9)
    whitening.prepare_metric(images=100)
    np.testing.assert_allclose(to_numpy(whitening.metric(backend.array(y))), expected, rtol=1e-4, atol=1e-4)


def test_a_single_vector_has_a_metric_too(fit: Fit, backend: Backend, y: np.ndarray) -> None:
    whitening = fit(y)
    many, one = whitening.metric(backend.array(y)), whitening.metric(backend.array(y[0]))
    np.testing.assert_allclose(to_numpy(one), to_numpy(many)[0], rtol=1e-12)


def test_the_metric_is_formed_once_and_only_when_repaid(fit: Fit, rng: np.random.Generator) -> None:
    whitening = fit(rng.standard_normal((200, 64)))
    whitening.prepare_metric(images=1)
    assert whitening._metric is None
    whitening.prepare_metric(images=64)
    formed = whitening._metric
    assert formed is not None
    whitening.prepare_metric(images=1000)
    assert whitening._metric is formed


def test_a_metric_that_costs_more_than_two_thin_products_is_not_formed(fit: Fit, rng: np.random.Generator) -> None:
    """With D' below D/2, two products with W take fewer operations than one with W'W, for any number of images."""
    whitening = fit(rng.standard_normal((10, 64)))
    whitening.prepare_metric(images=1_000_000)
    assert whitening._metric is None


def test_fitting_again_forgets_the_metric(backend: Backend, y: np.ndarray) -> None:
    whitening = Whitening().fit(Moments.of(backend.array(y)))
    whitening.prepare_metric(images=100)
    whitening.fit(Moments.of(backend.array(2 * y)))
    matrix = to_numpy(whitening.matrix_)
    np.testing.assert_allclose(to_numpy(whitening.metric(backend.array(y))), y @ matrix.T @ matrix, rtol=1e-4)


def test_moving_to_a_device_drops_the_metric(fit: Fit, backend: Backend, y: np.ndarray) -> None:
    whitening = fit(y)
    whitening.prepare_metric(images=100)
    assert whitening.to(backend.device) is whitening
    assert whitening._metric is None


def test_apply_is_the_matrix_without_the_mean(fit: Fit, backend: Backend, y: np.ndarray) -> None:
    whitening = fit(y)
    expected = y @ to_numpy(whitening.matrix_).T.astype(np.float64)
    np.testing.assert_allclose(to_numpy(whitening.apply(backend.array(y))), expected, rtol=1e-9, atol=1e-9)


def test_no_metric_is_formed_where_it_would_be_inexact(rng: np.random.Generator) -> None:
    """With eigenvalues from 1 to 1e-12, products with W and W' keep digits that W'W in float32 has lost."""
    rows = rng.standard_normal((400, 8)) * 10.0 ** -np.arange(0, 6.4, 0.8)
    whitening = Whitening(floor=0).fit(Moments.of(rows))
    whitening.prepare_metric(images=1000)
    assert whitening._metric is None
