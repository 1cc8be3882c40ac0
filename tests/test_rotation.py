"""Rotation normalisation: principal axes completed to an orthogonal matrix that is never formed."""

import itertools

import jaxtyping
import numpy as np
import pytest

from backends import Backend
from faemb import Rotation
from faemb.arrays import to_numpy
from faemb.errors import InputError, NotFittedError
from faemb.rotation import _signs

# Learning vectors, dimensions and axes at most: k << D, k = D - 1 by few vectors, k = D - 1 by request, k = D.
SIZES = {
    "few-axes": (300, 40, 3),
    "one-axis": (2, 17, 99),
    "all-but-one": (12, 12, 99),
    "cut": (99, 8, 7),
    "all": (60, 9, 99),
}


def learning_vectors(rng: np.random.Generator, count: int, width: int) -> np.ndarray:
    return rng.standard_normal((count, width)) @ rng.standard_normal((width, width)) + rng.standard_normal(width)


def rotation_with(axes: np.ndarray, backend: Backend) -> Rotation:
    """A rotation with these axes, as if it had learned them."""
    rotation = Rotation()
    rotation.axes_, rotation.signs_ = axes, _signs(axes)
    rotation.mean_, rotation.scales_ = np.zeros(axes.shape[1]), np.ones(axes.shape[1])
    return rotation.to(backend.device)


def transformed(rotation: Rotation, x: np.ndarray, backend: Backend) -> np.ndarray:
    return to_numpy(rotation.transform(backend.array(x)))


def assert_orthogonal_with_axes_first(rotation: Rotation, axes: np.ndarray, backend: Backend) -> None:
    """The image of the identity is Q itself, row by row."""
    k, width = axes.shape
    q = transformed(rotation, np.eye(width), backend)
    np.testing.assert_allclose(q.T @ q, np.eye(width), atol=1e-10)
    np.testing.assert_allclose(q[:, :k], axes.T, atol=1e-10)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_inner_products_are_preserved(backend: Backend, rng: np.random.Generator, size: tuple[int, int, int]) -> None:
    count, width, max_axes = size
    learning, x = learning_vectors(rng, count, width), rng.standard_normal((20, width))
    rotation = Rotation("rotate", max_axes=max_axes).fit(backend.array(learning))
    assert rotation.axes_.shape == (min(max_axes, count - 1, width), width)
    y = transformed(rotation, x, backend)
    np.testing.assert_allclose(y @ y.T, x @ x.T, atol=1e-10)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_the_first_components_are_projections_on_the_principal_axes(
    backend: Backend, rng: np.random.Generator, size: tuple[int, int, int]
) -> None:
    count, width, max_axes = size
    learning, x = learning_vectors(rng, count, width), rng.standard_normal((20, width))
    rotation = Rotation("rotate", max_axes=max_axes).fit(backend.array(learning))
    k = rotation.axes_.shape[0]
    axes = np.linalg.svd(learning - learning.mean(0))[2][:k]
    components = transformed(rotation, x, backend)[:, :k]
    np.testing.assert_allclose(np.abs(components), np.abs(x @ axes.T), atol=1e-8)
    np.testing.assert_allclose(components, x @ to_numpy(rotation.axes_).T, atol=1e-10)


@pytest.mark.parametrize("variant", ["rotate", "whiten"])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_leading_components_are_the_first_of_all(
    backend: Backend, rng: np.random.Generator, size: tuple[int, int, int], variant: str
) -> None:
    count, width, most = size
    x = backend.array(learning_vectors(rng, count, width))
    rotation = Rotation(variant, max_axes=most).fit(x)
    for leading in range(1, width + 1):
        expected = to_numpy(rotation.transform(x))[:, :leading]
        np.testing.assert_allclose(to_numpy(rotation.leading(x, leading)), expected, atol=1e-8 * np.abs(expected).max())


def test_one_dimension_is_kept(backend: Backend, rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 1))
    rotation = Rotation().fit(backend.array(x))
    np.testing.assert_allclose(transformed(rotation, x, backend), x, atol=1e-14)


def test_one_dimension_is_whitened(backend: Backend, rng: np.random.Generator) -> None:
    x = 7 * rng.standard_normal((5, 1)) + 3
    y = transformed(Rotation("whiten").fit(backend.array(x)), x, backend)
    np.testing.assert_allclose([y.mean(), y.var()], [0, 1], atol=1e-12)


def test_float32_vectors_are_rotated_in_float32(backend: Backend, rng: np.random.Generator) -> None:
    learning = learning_vectors(rng, 30, 100).astype(np.float32)
    x = rng.standard_normal((20, 100)).astype(np.float32)
    y = transformed(Rotation().fit(backend.array(learning)), x, backend)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y @ y.T, x @ x.T, atol=1e-3)


def test_a_spectrum_of_many_orders_stays_orthogonal(backend: Backend, rng: np.random.Generator) -> None:
    """Few vectors in many dimensions, and variances that span twelve orders."""
    learning = rng.standard_normal((20, 50)) * np.logspace(0, -6, 20)[:, None]
    q = transformed(Rotation().fit(backend.array(learning)), np.eye(50), backend)
    np.testing.assert_allclose(q.T @ q, np.eye(50), atol=1e-10)


@pytest.mark.parametrize("distance", [1e-5, 1e-6, 3e-7])
def test_near_duplicates_do_not_bend_the_rotation(backend: Backend, rng: np.random.Generator, distance: float) -> None:
    """The same photograph twice, saved again: a direction whose variance is barely above rounding."""
    learning = rng.standard_normal((20, 50)) / np.sqrt(50)
    again = learning[:3] + distance * rng.standard_normal((3, 50)) / np.sqrt(50)
    q = transformed(Rotation().fit(backend.array(np.vstack([learning, again]))), np.eye(50), backend)
    np.testing.assert_allclose(q.T @ q, np.eye(50), atol=1e-10)


# Axes that lie badly beside the identity


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("k", "width"), [(3, 8), (7, 8), (8, 8), (1, 2), (1, 1)])
def test_axes_that_are_the_first_unit_vectors(backend: Backend, k: int, width: int, sign: int) -> None:
    axes = sign * np.eye(k, width)
    assert_orthogonal_with_axes_first(rotation_with(axes, backend), axes, backend)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_axes_that_are_permuted_unit_vectors(backend: Backend, order: tuple[int, ...]) -> None:
    for signs in itertools.product([1, -1], repeat=4):
        axes = np.eye(4, 7)[list(order)] * np.array(signs)[:, None]
        assert_orthogonal_with_axes_first(rotation_with(axes, backend), axes, backend)


@pytest.mark.parametrize("start", [1, 2, 4])
def test_axes_that_are_later_unit_vectors(backend: Backend, start: int) -> None:
    axes = np.eye(8)[start : start + 4]
    assert_orthogonal_with_axes_first(rotation_with(axes, backend), axes, backend)


@pytest.mark.parametrize("angle", [1e-12, 1e-8, 1e-4])
def test_axes_that_almost_are_unit_vectors(backend: Backend, rng: np.random.Generator, angle: float) -> None:
    axes = np.linalg.qr(np.eye(9, 5) + angle * rng.standard_normal((9, 5)))[0].T
    for candidate in (axes, -axes, axes[::-1].copy()):
        assert_orthogonal_with_axes_first(rotation_with(candidate, backend), candidate, backend)


def test_unit_vectors_learned_from_data(backend: Backend) -> None:
    learning = np.vstack([np.diag([3.0, 2.0, 1.0, 0, 0, 0]), np.diag([-3.0, -2.0, -1.0, 0, 0, 0])])
    rotation = Rotation().fit(backend.array(learning))
    np.testing.assert_allclose(to_numpy(rotation.axes_), np.eye(3, 6), atol=1e-12)
    assert_orthogonal_with_axes_first(rotation, np.eye(3, 6), backend)


# Variances


def test_components_come_with_the_largest_variance_first(backend: Backend, rng: np.random.Generator) -> None:
    learning = learning_vectors(rng, 200, 10)
    variances = transformed(Rotation().fit(backend.array(learning)), learning, backend).var(0)
    assert (np.diff(variances) <= 0).all()


@pytest.mark.parametrize(("count", "max_axes"), [(200, 99), (200, 4), (6, 99)])
def test_whitening_gives_unit_variance_on_the_learning_set(
    backend: Backend, rng: np.random.Generator, count: int, max_axes: int
) -> None:
    learning = learning_vectors(rng, count, 10)
    rotation = Rotation("whiten", max_axes=max_axes, floor=0).fit(backend.array(learning))
    kept = rotation.axes_.shape[0]
    y = transformed(rotation, learning, backend)[:, :kept]
    np.testing.assert_allclose(np.cov(y.T, bias=True), np.eye(kept), atol=1e-8)
    np.testing.assert_allclose(y.mean(0), 0, atol=1e-8)


def test_completed_components_take_the_smallest_deviation_kept(backend: Backend, rng: np.random.Generator) -> None:
    scales = to_numpy(Rotation("whiten", max_axes=4).fit(backend.array(learning_vectors(rng, 50, 10))).scales_)
    np.testing.assert_allclose(scales[4:], scales[3], rtol=1e-12)


def test_the_floor_bounds_the_scales(backend: Backend) -> None:
    learning = np.vstack([np.diag([100.0, 10.0, 1.0]), -np.diag([100.0, 10.0, 1.0])])
    scales = to_numpy(Rotation("whiten", floor=0.01).fit(backend.array(learning)).scales_)
    np.testing.assert_allclose(scales / scales[0], [1, 10, 10], rtol=1e-10)


def test_rotating_only_keeps_the_mean(backend: Backend, rng: np.random.Generator) -> None:
    learning = learning_vectors(rng, 50, 10)
    y = transformed(Rotation("rotate").fit(backend.array(learning)), learning, backend)
    np.testing.assert_allclose(np.linalg.norm(y.mean(0)), np.linalg.norm(learning.mean(0)), rtol=1e-10)


def test_the_zero_vector_stays_zero_when_only_rotated(backend: Backend, rng: np.random.Generator) -> None:
    rotation = Rotation("rotate").fit(backend.array(learning_vectors(rng, 5, 10)))
    np.testing.assert_array_equal(transformed(rotation, np.zeros((2, 10)), backend), np.zeros((2, 10)))


def test_no_vectors_give_no_vectors(backend: Backend, rng: np.random.Generator) -> None:
    for count in (5, 50):
        rotation = Rotation().fit(backend.array(learning_vectors(rng, count, 10)))
        assert transformed(rotation, np.zeros((0, 10)), backend).shape == (0, 10)


def test_equal_vectors_give_equal_bits(backend: Backend, rng: np.random.Generator) -> None:
    learning = learning_vectors(rng, 6, 10)
    first, second = (Rotation().fit(backend.array(learning.copy())) for _ in range(2))
    np.testing.assert_array_equal(to_numpy(first.axes_), to_numpy(second.axes_))


def test_inputs_stay_as_they_are(backend: Backend, rng: np.random.Generator) -> None:
    learning = learning_vectors(rng, 6, 10)
    given = backend.array(learning.copy())
    Rotation("whiten").fit(given).transform(given)
    np.testing.assert_array_equal(to_numpy(given), learning)


# What is refused


def test_one_vector_is_refused(backend: Backend) -> None:
    with pytest.raises(InputError, match="1 image vectors are too few for a rotation; give at least 2"):
        Rotation().fit(backend.array(np.ones((1, 3))))


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1 / 3])
@pytest.mark.parametrize("variant", ["rotate", "whiten"])
def test_equal_vectors_are_refused(backend: Backend, variant: str, value: float) -> None:
    with pytest.raises(InputError, match="all image vectors are equal"):
        Rotation(variant).fit(backend.array(np.full((3, 4), value)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(backend: Backend, rng: np.random.Generator, bad: float) -> None:
    learning = learning_vectors(rng, 6, 4)
    rotation = Rotation().fit(backend.array(learning))
    learning[2, 1] = bad
    with pytest.raises(InputError, match="image vectors hold 1 NaN or infinite values"):
        Rotation().fit(backend.array(learning))
    with pytest.raises(InputError, match="image vectors hold 1 NaN or infinite values"):
        rotation.transform(backend.array(learning))


def test_a_wrong_width_is_explained(backend: Backend, rng: np.random.Generator) -> None:
    rotation = Rotation().fit(backend.array(learning_vectors(rng, 6, 4)))
    with pytest.raises(InputError, match="image vectors have 5 columns; this model was fitted on 4"):
        rotation.transform(backend.array(np.ones((2, 5))))


def test_an_unknown_variant_is_explained(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as users call it: the tests' own check is off
    with pytest.raises(InputError, match="'twist'; expected one of whiten, rotate"):
        Rotation("twist").fit(learning_vectors(rng, 6, 4))


def test_a_single_vector_of_one_axis_is_explained(rng: np.random.Generator) -> None:
    with pytest.raises(InputError, match=r"image vectors have shape \(4,\); expected two axes"):
        Rotation().fit(np.ones(4))
    with pytest.raises(InputError, match=r"image vectors have shape \(4,\); expected two axes"):
        Rotation().fit(learning_vectors(rng, 6, 4)).transform(np.ones(4))


def test_integers_and_lists_are_taken_as_floats(rng: np.random.Generator) -> None:
    learning = learning_vectors(rng, 6, 4)
    rotation = Rotation("whiten").fit(learning)
    x = np.array([[1, -2, 3, 4]])
    expected = rotation.transform(x.astype(np.float64))
    np.testing.assert_allclose(rotation.transform(x), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(rotation.transform(x.tolist()), expected, rtol=1e-4, atol=1e-4)


def test_an_unfitted_rotation_says_so(backend: Backend) -> None:
    with pytest.raises(NotFittedError, match="Rotation has learned nothing yet"):
        Rotation().transform(backend.array(np.ones((2, 3))))


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("variant", ["rotate", "whiten"])
def test_the_adjoint_has_the_same_inner_products(
    backend: Backend, rng: np.random.Generator, size: tuple[int, int, int], variant: str
) -> None:
    count, width, most = size
    rotation = Rotation(variant, max_axes=most).fit(learning_vectors(rng, count, width)).to(backend.device)
    x, y = rng.standard_normal((2, 3, width))
    linear = transformed(rotation, x, backend) - transformed(rotation, np.zeros_like(x), backend)
    back = to_numpy(rotation.transposed(backend.array(y)))
    np.testing.assert_allclose((linear * y).sum(1), (x * back).sum(1), rtol=1e-9, atol=1e-9)
