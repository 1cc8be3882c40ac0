"""Taylor terms, their layout, and what the operator and VLAD make of them."""

import numpy as np
import pytest

from backends import Backend
from faemb import VLAD, VLAT, BoW, FAemb, FastFAemb
from faemb.arrays import to_numpy
from faemb.embedding import Embedded, Embedding
from faemb.embedding.terms import Constant, FisherPair, Linear, LocalLinear, Quadratic, Term
from reference import upper

D = 5
TERMS = {
    "constant": (Constant(2.0), 1),
    "linear": (Linear(3.0), D),
    "local-linear": (LocalLinear(np.ones((4, D, D))), D),
    "quadratic": (Quadratic(), D * (D + 1) // 2),
    "fisher": (FisherPair(np.ones((4, D))), 2 * D),
}


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((12, D))


@pytest.fixture
def anchors(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((4, D))


def embedded(x: np.ndarray, anchors: np.ndarray, *terms: Term, unit_residuals: bool = False) -> Embedded:
    """With coefficients 1: the terms themselves."""
    return Embedded(x, anchors, np.ones((len(x), len(anchors))), terms, unit_residuals=unit_residuals)


def residuals(x: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    return x[:, None] - anchors


@pytest.mark.parametrize(("term", "entries"), TERMS.values(), ids=TERMS)
def test_the_number_of_entries(term: Term, entries: int, x: np.ndarray, anchors: np.ndarray) -> None:
    assert term.entries(D) == entries
    assert embedded(x, anchors, term).dense().shape == (12, 4 * entries)


def test_the_constant_is_its_scale(x: np.ndarray, anchors: np.ndarray) -> None:
    np.testing.assert_array_equal(embedded(x, anchors, Constant(2.5)).dense(), np.full((12, 4), 2.5))


def test_the_linear_term_is_the_scaled_residual(x: np.ndarray, anchors: np.ndarray) -> None:
    dense = embedded(x, anchors, Linear(2.5)).dense().reshape(12, 4, D)
    np.testing.assert_allclose(dense, 2.5 * residuals(x, anchors), rtol=1e-12)


def test_the_upper_triangle_is_stored_row_by_row(x: np.ndarray, anchors: np.ndarray) -> None:
    dense = embedded(x, anchors, Quadratic()).dense().reshape(12, 4, -1)
    r = residuals(x, anchors)
    rows, columns = np.triu_indices(D)
    np.testing.assert_allclose(dense, r[..., rows] * r[..., columns], rtol=1e-12)
    np.testing.assert_allclose(dense[3, 2], upper(r[3, 2]), rtol=1e-12)


def test_pool_keeps_the_order_of_the_upper_triangle(x: np.ndarray, anchors: np.ndarray) -> None:
    pooled = embedded(x, anchors, Quadratic()).pool(np.ones(12)).reshape(4, -1)
    r = residuals(x, anchors)
    moments = np.einsum("ijk,ijl->jkl", r, r)
    np.testing.assert_allclose(pooled, moments[:, *np.triu_indices(D)], atol=1e-12)


def test_terms_of_one_anchor_lie_together(x: np.ndarray, anchors: np.ndarray) -> None:
    """[s1 ; s2 r ; upper(r r')] for the first anchor, then for the second, as in [DC17, Eq. 17]."""
    dense = embedded(x, anchors, Constant(2.0), Linear(3.0), Quadratic()).dense().reshape(12, 4, -1)
    r = residuals(x, anchors)[5, 1]
    np.testing.assert_allclose(dense[5, 1], [2.0, *(3.0 * r), *upper(r)], rtol=1e-12)


# Unit residuals


@pytest.mark.parametrize(("term", "order"), [(Linear(), 1), (Quadratic(), 2)], ids=["linear", "quadratic"])
def test_unit_residuals_divide_by_the_length(term: Term, order: int, x: np.ndarray, anchors: np.ndarray) -> None:
    plain = embedded(x, anchors, term).dense().reshape(12, 4, -1)
    lengths = np.linalg.norm(residuals(x, anchors), axis=2, keepdims=True)
    divided = embedded(x, anchors, term, unit_residuals=True).dense().reshape(12, 4, -1)
    np.testing.assert_allclose(divided, plain / lengths**order, rtol=1e-10)


def test_unit_residuals_have_unit_length(x: np.ndarray, anchors: np.ndarray) -> None:
    dense = embedded(x, anchors, Linear(), unit_residuals=True).dense().reshape(12, 4, D)
    np.testing.assert_allclose(np.linalg.norm(dense, axis=2), np.ones((12, 4)), rtol=1e-10)


def test_unit_residuals_leave_the_constant_alone(x: np.ndarray, anchors: np.ndarray) -> None:
    np.testing.assert_array_equal(embedded(x, anchors, Constant(), unit_residuals=True).dense(), np.ones((12, 4)))


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_unit_residuals_do_not_see_the_scale_of_the_data(scale: float, x: np.ndarray, anchors: np.ndarray) -> None:
    dense = embedded(x, anchors, Linear(), unit_residuals=True).dense()
    scaled = embedded(scale * x, scale * anchors, Linear(), unit_residuals=True).dense()
    np.testing.assert_allclose(scaled, dense, atol=1e-10)


def test_a_descriptor_on_an_anchor_has_no_direction_from_there(anchors: np.ndarray) -> None:
    dense = embedded(anchors, anchors, Linear(), unit_residuals=True).dense().reshape(4, 4, D)
    np.testing.assert_array_equal(np.linalg.norm(dense, axis=2) == 0, np.eye(4, dtype=bool))


# VLAD's local axes and cells


@pytest.fixture
def training(rng: np.random.Generator) -> np.ndarray:
    """Four clusters, each stretched differently along axes of its own."""
    parts = []
    for centre in 20 * rng.standard_normal((4, D)):
        axes = np.linalg.qr(rng.standard_normal((D, D)))[0]
        parts.append(centre + rng.standard_normal((80, D)) * [5, 4, 3, 2, 1] @ axes)
    return np.concatenate(parts)


@pytest.mark.parametrize("unit_residuals", [False, True])
def test_local_axes_are_the_principal_axes_of_each_cell(unit_residuals: bool, training: np.ndarray) -> None:
    vlad = VLAD(4, local_axes=True, unit_residuals=unit_residuals).fit(training)
    cells = np.argmin(np.linalg.norm(residuals(training, vlad.anchors_), axis=2), axis=1)
    for j, (anchor, axes) in enumerate(zip(vlad.anchors_, vlad.rotations_, strict=True)):
        r = training[cells == j] - anchor
        r = r / np.linalg.norm(r, axis=1, keepdims=True) if unit_residuals else r
        principal = np.linalg.svd(r)[2]
        np.testing.assert_allclose(np.abs(axes @ principal.T), np.eye(D), atol=1e-8)


def test_local_axes_are_orthonormal_even_in_cells_of_few_descriptors(x: np.ndarray) -> None:
    rotations = VLAD(8, local_axes=True).fit(x).rotations_
    products = rotations @ rotations.transpose(0, 2, 1)
    np.testing.assert_allclose(products, np.tile(np.eye(D), (8, 1, 1)), atol=1e-12)


def test_local_axes_uncorrelate_the_residuals_of_a_cell(training: np.ndarray) -> None:
    vlad = VLAD(4, local_axes=True).fit(training)
    local = vlad.embed(training).dense().reshape(-1, 4, D)
    moments = np.einsum("ijk,ijl->jkl", local, local)
    spread = np.einsum("jkk->jk", moments)
    np.testing.assert_allclose(moments, np.einsum("jk,kl->jkl", spread, np.eye(D)), atol=1e-9 * spread.max())
    assert np.all(np.diff(spread, axis=1) < 0)


def test_local_axes_keep_lengths_and_inner_products(training: np.ndarray, x: np.ndarray) -> None:
    turned, plain = (VLAD(4, local_axes=axes).fit(training).embed(x).dense() for axes in (True, False))
    np.testing.assert_allclose(turned @ turned.T, plain @ plain.T, rtol=1e-10)


@pytest.mark.parametrize("method", [VLAD(4), VLAD(4, local_axes=True)], ids=["plain", "local-axes"])
def test_vlad_without_normalised_cells_leaves_the_pooled_vector_alone(method: VLAD, rng: np.random.Generator) -> None:
    pooled = rng.standard_normal(4 * D)
    np.testing.assert_array_equal(method.after_pooling(pooled), pooled)


def test_normalised_cells_have_unit_length(backend: Backend, training: np.ndarray) -> None:
    vlad = VLAD(4, normalise_cells=True).fit(backend.array(training))
    pooled = vlad.embed(backend.array(training)).pool(backend.array(np.linspace(0, 1, len(training))))
    cells = to_numpy(vlad.after_pooling(pooled)).reshape(4, D)
    np.testing.assert_allclose(np.linalg.norm(cells, axis=1), np.ones(4), rtol=1e-12)
    directions = to_numpy(pooled).reshape(4, D)
    np.testing.assert_allclose(cells * np.linalg.norm(directions, axis=1, keepdims=True), directions, rtol=1e-10)


def test_an_empty_cell_stays_zero() -> None:
    pooled = np.array([3.0, 4.0, 0.0, 0.0])
    np.testing.assert_allclose(VLAD(2, normalise_cells=True).after_pooling(pooled), [0.6, 0.8, 0, 0])


# Which descriptors have an embedding


@pytest.mark.parametrize("method", [VLAD(4), VLAT(4), VLAT(4, unit_residuals=True), FAemb(4)], ids=repr)
def test_a_descriptor_on_its_only_anchor_has_no_embedding(
    method: Embedding, backend: Backend, x: np.ndarray, anchors: np.ndarray
) -> None:
    """FAemb too: on an anchor its whole coefficient goes there."""
    rows = np.concatenate([x[:2], anchors[2:3], x[2:3]])
    operator = method.with_anchors(backend.array(anchors)).embed(backend.array(rows))
    np.testing.assert_array_equal(to_numpy(operator.nonzero()), [True, True, False, True])


@pytest.mark.parametrize("method", [BoW(4), FastFAemb(4), FastFAemb(4, constant_scale=1)], ids=repr)
def test_a_descriptor_on_an_anchor_has_an_embedding_if_another_entry_is_active(
    method: Embedding, anchors: np.ndarray
) -> None:
    assert method.with_anchors(anchors).embed(anchors).nonzero().all()


def test_padded_rows_have_no_embedding(x: np.ndarray, anchors: np.ndarray) -> None:
    real = np.arange(6) < np.array([6, 2])[:, None]
    operator = VLAD(4).with_anchors(anchors).operator(x.reshape(2, 6, D), real)
    np.testing.assert_array_equal(operator.nonzero(), real)


def test_zero_rows_of_dense_are_those_without_embedding(anchors: np.ndarray, x: np.ndarray) -> None:
    operator = VLAT(4).with_anchors(anchors).embed(np.concatenate([x, anchors]))
    np.testing.assert_array_equal(operator.nonzero(), np.any(operator.dense() != 0, axis=1))
