"""What every embedding method promises, whatever its formula, on every array library."""

import numpy as np
import pytest
from sklearn.base import clone

from backends import Backend
from faemb import TLCC, VLAD, VLAT, BoW, FAemb, FastFAemb, Fisher, Triangulation
from faemb.arrays import to_numpy
from faemb.embedding import Embedding
from faemb.errors import InputError, NotFittedError
from faemb.persistence import load, save
from reference import embed_by_the_book

METHODS = {
    "bow": BoW(5),
    "vlad": VLAD(5),
    "vlad-unit-lcs": VLAD(5, unit_residuals=True, local_axes=True),
    "vlat": VLAT(4),
    "vlat-unit": VLAT(4, unit_residuals=True),
    "temb": Triangulation(5),
    "fisher": Fisher(4),
    "tlcc": TLCC(5),
    "tlcc-without-constant": TLCC(5, constant_scale=0),
    "faemb": FAemb(5),
    "faemb-order-1": FAemb(5, order=1, constant_scale=0.5),
    "faemb-all-terms": FAemb(4, constant_scale=0.5, linear_scale=2, mu=1e-3),
    "ffaemb": FastFAemb(5),
    "ffaemb-unit": FastFAemb(5, unit_residuals=True),
    "ffaemb-all-terms-unit": FastFAemb(4, constant_scale=0.5, linear_scale=2, unit_residuals=True),
    "ffaemb-order-1": FastFAemb(5, order=1),
}
WIDTH = 6


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    """Forty descriptors of unit length around a few directions, as RootSIFT has them."""
    centres = rng.standard_normal((6, WIDTH))
    x = centres[rng.integers(0, 6, 40)] + 0.6 * rng.standard_normal((40, WIDTH))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.fixture(params=METHODS, ids=str)
def method(request: pytest.FixtureRequest, backend: Backend, rng: np.random.Generator) -> Embedding:
    training = rng.standard_normal((300, WIDTH))
    training /= np.linalg.norm(training, axis=1, keepdims=True)
    return clone(METHODS[request.param]).fit(backend.array(training))


def test_dense_is_the_formula(method: Embedding, backend: Backend, x: np.ndarray) -> None:
    dense = to_numpy(method.embed(backend.array(x)).dense())
    np.testing.assert_allclose(dense, embed_by_the_book(method, x), atol=1e-10)


def test_pool_is_the_transposed_product(
    method: Embedding, backend: Backend, x: np.ndarray, rng: np.random.Generator
) -> None:
    embedded = method.embed(backend.array(x))
    weights = rng.standard_normal(len(x))
    expected = to_numpy(embedded.dense()).T @ weights
    np.testing.assert_allclose(to_numpy(embedded.pool(backend.array(weights))), expected, atol=1e-11)


def test_project_is_the_product(method: Embedding, backend: Backend, x: np.ndarray, rng: np.random.Generator) -> None:
    embedded = method.embed(backend.array(x))
    t = rng.standard_normal(method.dimension)
    expected = to_numpy(embedded.dense()) @ t
    np.testing.assert_allclose(to_numpy(embedded.project(backend.array(t))), expected, atol=1e-11)


def test_shape_and_dimension_agree_with_dense(method: Embedding, backend: Backend, x: np.ndarray) -> None:
    embedded = method.embed(backend.array(x))
    assert embedded.shape == tuple(embedded.dense().shape) == (len(x), method.dimension)


def test_the_dimension_is_known_before_fit(method: Embedding) -> None:
    assert clone(method).dimension_for(WIDTH) == method.dimension


def test_chunks_equal_the_whole(
    method: Embedding,
    backend: Backend,
    x: np.ndarray,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights, t = rng.standard_normal(len(x)), rng.standard_normal(method.dimension)
    whole = method.embed(backend.array(x))
    pooled, projected = (
        to_numpy(whole.pool(backend.array(weights))),
        to_numpy(whole.project(backend.array(t))),
    )
    monkeypatch.setattr("faemb.arrays._CPU_BLOCK", 100)
    monkeypatch.setattr("faemb.arrays._DEVICE_BLOCK", 100)
    chunked = method.embed(backend.array(x))
    np.testing.assert_allclose(to_numpy(chunked.pool(backend.array(weights))), pooled, atol=1e-12)
    np.testing.assert_allclose(to_numpy(chunked.project(backend.array(t))), projected, atol=1e-12)


def test_a_padded_batch_equals_its_images(
    method: Embedding, backend: Backend, x: np.ndarray, rng: np.random.Generator
) -> None:
    counts = [12, 7, 1]
    padded, real = np.zeros((3, 12, WIDTH)), np.arange(12) < np.array(counts)[:, None]
    for image, count in enumerate(counts):
        padded[image, :count] = x[image * 12 : image * 12 + count]
    batch = method.operator(backend.array(padded), backend.array(real))
    weights, t = rng.standard_normal((3, 12)), rng.standard_normal((3, method.dimension))
    pooled, projected = batch.pool(backend.array(weights)), batch.project(backend.array(t))
    for image, count in enumerate(counts):
        single = method.embed(backend.array(padded[image, :count]))
        expected = single.pool(backend.array(weights[image, :count]))
        np.testing.assert_allclose(to_numpy(pooled[image]), to_numpy(expected), atol=1e-11)
        expected = single.project(backend.array(t[image]))
        np.testing.assert_allclose(to_numpy(projected[image, :count]), to_numpy(expected), atol=1e-11)
        np.testing.assert_array_equal(to_numpy(projected[image, count:]), 0)


def test_the_order_of_descriptors_is_irrelevant(
    method: Embedding, backend: Backend, x: np.ndarray, rng: np.random.Generator
) -> None:
    ones, shuffled = backend.array(np.ones(len(x))), backend.array(x[rng.permutation(len(x))])
    pooled = to_numpy(method.embed(backend.array(x)).pool(ones))
    np.testing.assert_allclose(to_numpy(method.embed(shuffled).pool(ones)), pooled, atol=1e-11)


def test_float32_agrees_with_float64(method: Embedding, backend: Backend, x: np.ndarray) -> None:
    single = method.embed(backend.array(x.astype(np.float32)))
    double = method.embed(backend.array(x.astype(np.float32).astype(np.float64)))
    ones32, ones64 = np.ones(len(x), np.float32), np.ones(len(x))
    narrow, wide = to_numpy(single.pool(backend.array(ones32))), to_numpy(double.pool(backend.array(ones64)))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, wide, atol=2e-5 * np.abs(wide).max())


def test_saved_and_loaded_is_identical(method: Embedding, backend: Backend, x: np.ndarray, tmp_path) -> None:
    save(method, tmp_path / "method.safetensors")
    loaded = load(tmp_path / "method.safetensors")
    assert type(loaded) is type(method)
    assert loaded.get_params() == method.get_params()
    again = loaded.to(backend.device).embed(backend.array(x)).dense()
    np.testing.assert_array_equal(to_numpy(again), to_numpy(method.embed(backend.array(x)).dense()))


def test_input_is_left_unchanged(method: Embedding, backend: Backend, x: np.ndarray) -> None:
    given = backend.array(x)
    embedded = method.embed(given)
    weights = backend.array(np.ones(len(x)))
    embedded.project(embedded.pool(weights))
    clone(method).fit(given)
    np.testing.assert_array_equal(to_numpy(given), x)
    np.testing.assert_array_equal(to_numpy(weights), 1)


def test_results_stay_in_the_library_they_came_from(method: Embedding, backend: Backend, x: np.ndarray) -> None:
    given = backend.array(x)
    pooled = method.embed(given).pool(given[:, 0])
    assert type(pooled) is type(given)
    assert pooled.device == given.device


def test_no_descriptors_pool_to_zero(method: Embedding, backend: Backend) -> None:
    embedded = method.embed(backend.array(np.zeros((0, WIDTH))))
    pooled = to_numpy(embedded.pool(backend.array(np.zeros(0))))
    np.testing.assert_array_equal(pooled, np.zeros(method.dimension))
    assert embedded.project(backend.array(np.ones(method.dimension))).shape == (0,)
    assert tuple(embedded.dense().shape) == (0, method.dimension)


def test_one_descriptor_is_its_own_row(method: Embedding, backend: Backend, x: np.ndarray) -> None:
    embedded = method.embed(backend.array(x[:1]))
    pooled = to_numpy(embedded.pool(backend.array(np.ones(1))))
    np.testing.assert_allclose(pooled, to_numpy(embedded.dense())[0], atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_descriptor_on_an_anchor_is_finite(method: Embedding, backend: Backend, dtype: type[np.floating]) -> None:
    on_anchor = to_numpy(method.anchors_).astype(dtype)
    method.anchors_ = backend.array(on_anchor)
    embedded = method.embed(backend.array(on_anchor))
    ones = backend.array(np.ones(len(on_anchor), dtype))
    expected = embed_by_the_book(method, on_anchor)
    tolerance = 1e-4 if dtype == np.float32 else 1e-8
    np.testing.assert_allclose(to_numpy(embedded.dense()), expected, atol=tolerance * max(1, np.abs(expected).max()))
    assert np.isfinite(to_numpy(embedded.pool(ones))).all()


def test_duplicate_anchors_give_a_finite_embedding(backend: Backend, method: Embedding, x: np.ndarray) -> None:
    anchors = to_numpy(method.anchors_).copy()
    anchors[1] = anchors[0]
    method.anchors_ = backend.array(anchors)
    assert np.isfinite(to_numpy(method.embed(backend.array(x)).dense())).all()


def test_integers_are_taken_as_float32(method: Embedding, backend: Backend) -> None:
    integers = np.arange(5 * WIDTH, dtype=np.uint8).reshape(5, WIDTH)
    expected = to_numpy(method.embed(backend.array(integers.astype(np.float32))).dense())
    np.testing.assert_array_equal(to_numpy(method.embed(backend.array(integers)).dense()), expected)


def test_strided_arrays_are_taken_as_they_are(method: Embedding, backend: Backend, x: np.ndarray) -> None:
    wide = backend.array(np.repeat(np.asfortranarray(x), 2, axis=1))[:, ::2]
    expected = to_numpy(method.embed(backend.array(x)).dense())
    np.testing.assert_allclose(to_numpy(method.embed(wide).dense()), expected, atol=1e-12)


def test_wrong_width_is_explained(method: Embedding, backend: Backend) -> None:
    with pytest.raises(InputError, match="descriptors have 5 columns; this model was fitted on 6"):
        method.embed(backend.array(np.ones((3, 5))))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_no_numbers_are_refused(method: Embedding, backend: Backend, x: np.ndarray, bad: float) -> None:
    x[3, 2] = bad
    with pytest.raises(InputError, match="1 NaN or infinite values"):
        method.embed(backend.array(x))
    with pytest.raises(InputError, match="1 NaN or infinite values"):
        clone(method).fit(backend.array(x))


def test_fewer_descriptors_than_anchors_are_explained(method: Embedding, backend: Backend, x: np.ndarray) -> None:
    with pytest.raises(InputError, match=f"2 training descriptors are too few for {method.n_anchors} anchors"):
        clone(method).fit(backend.array(x[:2]))


def test_too_few_distinct_descriptors_are_explained(method: Embedding, backend: Backend, x: np.ndarray) -> None:
    with pytest.raises(InputError, match="only 2 distinct vectors"):
        clone(method).fit(backend.array(np.repeat(x[:2], 20, axis=0)))


def test_unfitted_is_explained(method: Embedding, backend: Backend, x: np.ndarray) -> None:
    with pytest.raises(NotFittedError, match=r"call fit\(descriptors\) first"):
        clone(method).embed(backend.array(x))


def test_the_same_seed_gives_the_same_bits(method: Embedding, backend: Backend, x: np.ndarray) -> None:
    first, second = (clone(method).fit(backend.array(x)) for _ in range(2))
    np.testing.assert_array_equal(to_numpy(first.anchors_), to_numpy(second.anchors_))
