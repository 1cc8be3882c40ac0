"""The family of pooling methods on embedded, whitened descriptors, against explicit matrices."""

from typing import Any

import numpy as np
import pytest

from backends import Backend
from faemb import VLAD, FAemb, FastFAemb, Fisher, Triangulation, Whitening
from faemb.arrays import to_numpy
from faemb.embedding import Embedded
from faemb.errors import InputError
from faemb.pooling import Gram, weights
from faemb.sets import as_sets, batches
from faemb.whitening import Moments


@pytest.fixture(params=["whitened", "not centred", "plain"])
def gram(request: pytest.FixtureRequest, backend: Backend, rng: np.random.Generator) -> Gram:
    """Three images of different size in one padded batch."""
    training = rng.standard_normal((400, 5))
    method = FastFAemb(3).fit(backend.array(training))
    whitening = Whitening(discard=2, centre=request.param == "whitened")
    whitening.fit(Moments.of(method.embed(backend.array(training)).dense()))
    images = [backend.array(rng.standard_normal((n, 5)).astype(np.float64)) for n in (9, 4, 1)]
    (batch,) = batches(as_sets(images), 8)
    return Gram(method.operator(batch.x, batch.real), batch.real, None if request.param == "plain" else whitening)


def descriptors_of(gram: Gram) -> Any:
    """The padded batch that was embedded."""
    assert isinstance(gram.embedded, Embedded)
    return gram.embedded._x


def explicit_rows(gram: Gram) -> np.ndarray:
    """The whitened rows from the dense embedding, as printed."""
    dense = to_numpy(gram.embedded.dense())
    if gram.whitening is not None:
        dense = (dense - to_numpy(gram.whitening.mean_)) @ to_numpy(gram.whitening.matrix_).T.astype(np.float64)
    return dense * to_numpy(gram.real)[..., None]


def test_products_equal_the_explicit_gram_matrix(gram: Gram, backend: Backend, rng: np.random.Generator) -> None:
    rows = explicit_rows(gram)
    w = rng.standard_normal(rows.shape[:2]) * to_numpy(gram.real)
    expected = np.einsum("bnd,bmd,bm->bn", rows, rows, w)
    got = to_numpy(gram.times(backend.array(w))) * to_numpy(gram.real)
    np.testing.assert_allclose(got, expected, atol=1e-9 * np.abs(expected).max())


def test_kernel_and_vector_equal_the_explicit_way(gram: Gram, backend: Backend, rng: np.random.Generator) -> None:
    rows = explicit_rows(gram)
    kernel = np.einsum("bnd,bmd->bnm", rows, rows)
    np.testing.assert_allclose(to_numpy(gram.kernel()), kernel, atol=1e-9 * np.abs(kernel).max())
    w = rng.random(rows.shape[:2]) * to_numpy(gram.real)
    expected = np.einsum("bnd,bn->bd", rows, w)
    np.testing.assert_allclose(to_numpy(gram.vector(backend.array(w))), expected, atol=1e-9 * np.abs(expected).max())


def test_the_diagonal_is_roughly_known(gram: Gram) -> None:
    exact = (explicit_rows(gram) ** 2).sum(-1)
    real = to_numpy(gram.real)
    ratio = to_numpy(gram.diagonal(descriptors_of(gram)))[real] / exact[real]
    assert ((ratio > 0.2) & (ratio < 3)).all()
    np.testing.assert_allclose(ratio.mean(), 1, atol=0.25)


SPARSE_AND_DENSE = [VLAD(7), FAemb(6, constant_scale=1.0, linear_scale=1.0), Fisher(3), FastFAemb(3)]


@pytest.mark.parametrize("method", SPARSE_AND_DENSE, ids=str)
@pytest.mark.parametrize("upper", [False, True], ids=["W", "triangle"])
def test_the_kernel_of_sparse_and_dense_codings(method, upper, backend: Backend, rng: np.random.Generator, monkeypatch):
    """Cell by cell or all at once, by W or by the triangle that has the same inner products."""
    monkeypatch.setattr("faemb.pooling.gram._BLOCK", 5)
    x = rng.standard_normal((300, 4))
    method.fit(backend.array(x))
    whitening = Whitening(discard=1).fit(Moments.of(method.embed(backend.array(x)).dense()))
    if upper:
        whitening.prepare_triangle(1000)
    assert whitening.factor[1] == (upper and backend.name == "numpy")
    (batch,) = batches(as_sets([backend.array(rng.standard_normal((n, 4))) for n in (9, 2)]), 8)
    gram = Gram(method.operator(batch.x, batch.real), batch.real, whitening)
    rows = explicit_rows(gram)
    kernel = np.einsum("bnd,bmd->bnm", rows, rows)
    np.testing.assert_allclose(to_numpy(gram.kernel()), kernel, atol=1e-5 * np.abs(kernel).max())


def test_a_triangle_is_made_for_many_images_only(rng: np.random.Generator) -> None:
    whitening = Whitening().fit(Moments.of(rng.standard_normal((50, 6))))
    whitening.prepare_triangle(3)
    assert whitening.factor == (whitening.matrix_, False)
    whitening.prepare_triangle(1000)
    factor, upper = whitening.factor
    assert upper
    np.testing.assert_allclose(factor.T @ factor, whitening.matrix_.T @ whitening.matrix_, atol=1e-5)
    np.testing.assert_array_equal(np.tril(factor, -1), 0)
    assert not whitening.fit(Moments.of(rng.standard_normal((50, 6)))).factor[1]


def test_sum_gives_every_descriptor_weight_one(gram: Gram) -> None:
    np.testing.assert_array_equal(to_numpy(weights(gram, "sum", descriptors_of(gram))[0]), to_numpy(gram.real))


def test_democratic_makes_contributions_equal(gram: Gram) -> None:
    rows, w = explicit_rows(gram), to_numpy(weights(gram, "democratic", descriptors_of(gram))[0])
    for image in (1, 2):  # the first has more descriptors than the whitened space can hold on one side
        on = to_numpy(gram.real)[image]
        kernel = rows[image, on] @ rows[image, on].T
        np.testing.assert_allclose(w[image, on] * (kernel @ w[image, on]), 1, atol=0.011)


def test_sinkhorn_is_ten_sinkhorn_iterations_on_the_clipped_matrix(gram: Gram) -> None:
    rows, got = explicit_rows(gram), to_numpy(weights(gram, "sinkhorn", descriptors_of(gram))[0])
    for image, real in enumerate(to_numpy(gram.real)):
        kernel = np.maximum(rows[image, real] @ rows[image, real].T, 0)
        w = np.ones(real.sum())
        for _ in range(10):
            w = w / np.sqrt(w * (kernel @ w))
        np.testing.assert_allclose(got[image, real], w, rtol=1e-6)
        np.testing.assert_array_equal(got[image, ~real], 0)


def test_generalised_max_solves_its_linear_system(gram: Gram) -> None:
    rows, got = explicit_rows(gram), to_numpy(weights(gram, "gmp", descriptors_of(gram))[0])
    for image, real in enumerate(to_numpy(gram.real)):
        kernel = rows[image, real] @ rows[image, real].T
        n = len(kernel)
        shift = to_numpy(gram.diagonal(descriptors_of(gram)))[image, real].mean()
        expected = np.linalg.solve(kernel + shift * np.eye(n), np.ones(n))
        np.testing.assert_allclose(got[image, real], expected, atol=2e-3 * np.abs(expected).max())


def test_a_descriptor_with_a_zero_embedding_has_no_vote(backend: Backend) -> None:
    anchors = np.array([[1.0, 0.0]])
    method = Triangulation(1).with_anchors(backend.array(anchors))
    x = backend.array(np.array([[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]]))
    real = backend.array(np.ones((1, 3), bool))
    gram = Gram(method.operator(x, real), real)
    np.testing.assert_array_equal(to_numpy(gram.usable)[0], [False, True, True])
    w = to_numpy(weights(gram, "democratic", x)[0])[0]
    assert w[0] == 0
    assert (w[1:] > 0).all()


def test_an_unknown_name_is_explained(gram: Gram) -> None:
    with pytest.raises(InputError, match="expected one of sum, democratic, sinkhorn, gmp"):
        weights(gram, "max", descriptors_of(gram))
