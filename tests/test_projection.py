"""Descriptors before the embedding: PCA against NumPy's SVD, and unit length before and after it."""

import numpy as np
import pytest

from backends import Backend
from faemb import Projection
from faemb.arrays import to_numpy
from faemb.errors import InputError, NotFittedError


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((200, 8)) @ rng.standard_normal((8, 8)) + 1


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def transformed(projection: Projection, x: np.ndarray, backend: Backend) -> np.ndarray:
    return to_numpy(projection.transform(backend.array(x)))


def axes_by_svd(x: np.ndarray, count: int) -> np.ndarray:
    """Principal axes as columns, the largest component of each positive."""
    axes = np.linalg.svd(x - x.mean(0))[2][:count].T
    return axes * np.sign(np.take_along_axis(axes, np.abs(axes).argmax(0)[None], axis=0))


@pytest.mark.parametrize("dimension", [1, 3, 8])
def test_pca_is_that_of_numpys_svd(backend: Backend, x: np.ndarray, dimension: int) -> None:
    projection = Projection(dimension).fit(backend.array(x))
    axes = axes_by_svd(x, dimension)
    np.testing.assert_allclose(to_numpy(projection.axes_), axes, atol=1e-9)
    np.testing.assert_allclose(transformed(projection, x, backend), (x - x.mean(0)) @ axes, atol=1e-8)


def test_pca_works_with_fewer_descriptors_than_columns(backend: Backend, x: np.ndarray) -> None:
    projection = Projection(4).fit(backend.array(x[:5]))
    np.testing.assert_allclose(to_numpy(projection.axes_), axes_by_svd(x[:5], 4), atol=1e-9)


def test_lists_of_images_are_learned_from_together(backend: Backend, x: np.ndarray) -> None:
    whole = Projection(3).fit(backend.array(x))
    parts = Projection(3).fit([backend.array(part) for part in np.split(x, [0, 20, 90])])
    np.testing.assert_array_equal(to_numpy(parts.axes_), to_numpy(whole.axes_))


def test_unit_before_centres_and_scales_before_the_axes_are_learned(backend: Backend, x: np.ndarray) -> None:
    projection = Projection(3, unit_before=True).fit(backend.array(x))
    scaled = unit(x - x.mean(0))
    axes = axes_by_svd(scaled, 3)
    np.testing.assert_allclose(to_numpy(projection.axes_), axes, atol=1e-9)
    np.testing.assert_allclose(transformed(projection, x, backend), scaled @ axes, atol=1e-9)


def test_unit_after_scales_at_the_end(backend: Backend, x: np.ndarray) -> None:
    plain, scaled = (Projection(3, unit_after=flag).fit(backend.array(x)) for flag in (False, True))
    np.testing.assert_allclose(transformed(scaled, x, backend), unit(transformed(plain, x, backend)), rtol=1e-10)


def test_without_a_dimension_descriptors_stay_as_they_are(backend: Backend, x: np.ndarray) -> None:
    np.testing.assert_array_equal(transformed(Projection().fit(backend.array(x)), x, backend), x)


def test_without_a_dimension_unit_after_scales_without_centring(backend: Backend, x: np.ndarray) -> None:
    projection = Projection(unit_after=True).fit(backend.array(x))
    np.testing.assert_allclose(transformed(projection, x, backend), unit(x), rtol=1e-12)


def test_without_a_dimension_unit_before_centres_and_scales(backend: Backend, x: np.ndarray) -> None:
    projection = Projection(unit_before=True).fit(backend.array(x))
    np.testing.assert_allclose(transformed(projection, x, backend), unit(x - x.mean(0)), rtol=1e-10)


def test_a_descriptor_at_the_mean_becomes_zero_not_nan(backend: Backend, x: np.ndarray) -> None:
    projection = Projection(3, unit_before=True, unit_after=True).fit(backend.array(x))
    mean = to_numpy(projection.mean_)[None]
    np.testing.assert_array_equal(transformed(projection, mean, backend), np.zeros((1, 3)))


def test_no_descriptors_give_no_descriptors(backend: Backend, x: np.ndarray) -> None:
    assert transformed(Projection(3).fit(backend.array(x)), x[:0], backend).shape == (0, 3)


def test_the_precision_of_the_descriptors_is_kept(backend: Backend, x: np.ndarray) -> None:
    projection = Projection(3, unit_before=True).fit(backend.array(x.astype(np.float32)))
    assert transformed(projection, x.astype(np.float32), backend).dtype == np.float32
    assert transformed(projection, x, backend).dtype == np.float64


def test_the_width_is_that_of_the_descriptors_that_go_in(backend: Backend, x: np.ndarray) -> None:
    assert Projection(3).fit(backend.array(x)).descriptor_dimension == 8


def test_inputs_stay_as_they_are(backend: Backend, x: np.ndarray) -> None:
    given = backend.array(x.copy())
    Projection(3, unit_before=True, unit_after=True).fit(given).transform(given)
    np.testing.assert_array_equal(to_numpy(given), x)


@pytest.mark.parametrize("dimension", [0, -1, 9])
def test_an_impossible_dimension_is_explained(backend: Backend, x: np.ndarray, dimension: int) -> None:
    with pytest.raises(InputError, match=f"dimension is {dimension}; expected a whole number, 1 to 8"):
        Projection(dimension).fit(backend.array(x))


@pytest.mark.parametrize(("count", "rank"), [(4, 3), (1, 0)])
def test_too_few_descriptors_are_explained(backend: Backend, x: np.ndarray, count: int, rank: int) -> None:
    with pytest.raises(InputError, match=f"{count} training descriptors span {rank} directions; a PCA to 4"):
        Projection(4).fit(backend.array(x[:count]))


@pytest.mark.parametrize("dimension", [None, 2])
def test_no_descriptors_at_all_are_refused(backend: Backend, x: np.ndarray, dimension: int | None) -> None:
    with pytest.raises(InputError, match="descriptors"):
        Projection(dimension).fit(backend.array(x[:0]))


def test_nan_is_refused(backend: Backend, x: np.ndarray) -> None:
    x[0, 0] = np.nan
    with pytest.raises(InputError, match="descriptors hold 1 NaN or infinite values"):
        Projection(3).fit(backend.array(x))


@pytest.mark.parametrize("dimension", [None, 2])
def test_an_unfitted_projection_says_so(backend: Backend, x: np.ndarray, dimension: int | None) -> None:
    with pytest.raises(NotFittedError, match="Projection has learned nothing yet"):
        _ = Projection(dimension).descriptor_dimension
    with pytest.raises(NotFittedError, match="Projection has learned nothing yet"):
        Projection(dimension, unit_before=True).transform(backend.array(x))


def test_integers_are_projected_as_numbers(backend: Backend, rng: np.random.Generator) -> None:
    sift = rng.integers(0, 200, (40, 8)).astype(np.uint8)
    projection = Projection(3).fit(backend.array(sift))
    expected = to_numpy(projection.transform(backend.array(sift.astype(np.float32))))
    np.testing.assert_array_equal(to_numpy(projection.transform(backend.array(sift))), expected)
    assert np.ptp(expected) > 1


def test_a_projection_checks_its_input(backend: Backend, rng: np.random.Generator) -> None:
    projection = Projection(3).fit(backend.array(rng.standard_normal((40, 8))))
    with pytest.raises(InputError, match="descriptors have 5 columns; this model was fitted on 8"):
        projection.transform(backend.array(np.ones((2, 5))))
    with pytest.raises(InputError, match="NaN"):
        projection.transform(backend.array(np.full((2, 8), np.nan)))
