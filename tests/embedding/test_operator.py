"""The operator works in blocks, leaves out padding and images at rest; none of that may be seen in its products."""

import numpy as np
import pytest

from faemb import FastFAemb, arrays
from faemb.embedding import Embedded

D = 6
LENGTHS = (40, 17, 16, 3, 1, 0)


@pytest.fixture(params=[1, 50, 1000, 10**6], ids="blocks of {} elements".format)
def operator(request, rng, monkeypatch):
    monkeypatch.setattr(arrays, "_CPU_BLOCK", request.param)
    x = rng.standard_normal((len(LENGTHS), max(LENGTHS), D))
    real = np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]
    return FastFAemb(3, unit_residuals=True).with_anchors(rng.standard_normal((3, D))).operator(x, real)


@pytest.fixture
def rows(operator):
    return operator.dense() * (np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None])[..., None]


def test_products_of_images_of_any_length(operator: Embedded, rows, rng):
    w, t = rng.standard_normal(rows.shape[:2]), rng.standard_normal((len(LENGTHS), rows.shape[2]))
    np.testing.assert_allclose(operator.pool(w), np.einsum("bnd,bn->bd", rows, w), atol=1e-10)
    np.testing.assert_allclose(operator.project(t), np.einsum("bnd,bd->bn", rows, t), atol=1e-10)


@pytest.mark.parametrize("at_rest", [0, 2, slice(0, 3), slice(3, 6), slice(None)])
def test_an_image_at_rest_gives_zero_and_leaves_the_others_alone(operator: Embedded, rows, rng, at_rest):
    w, t = rng.standard_normal(rows.shape[:2]), rng.standard_normal((len(LENGTHS), rows.shape[2]))
    w[at_rest], t[at_rest] = 0, 0
    np.testing.assert_allclose(operator.pool(w), np.einsum("bnd,bn->bd", rows, w), atol=1e-10)
    np.testing.assert_allclose(operator.project(t), np.einsum("bnd,bd->bn", rows, t), atol=1e-10)
    assert not operator.pool(w)[at_rest].any()
    assert not operator.project(t)[at_rest].any()


def test_real_rows_may_come_after_padded_ones(rng):
    """Nothing in the package makes such a batch; it is counted all the same."""
    x, real = rng.standard_normal((2, 5, D)), np.array([[0, 1, 0, 0, 1], [1, 0, 0, 0, 0]], bool)
    operator = FastFAemb(3).with_anchors(rng.standard_normal((3, D))).operator(x, real)
    rows = operator.dense() * real[..., None]
    np.testing.assert_allclose(operator.pool(np.ones((2, 5))), rows.sum(axis=1), atol=1e-10)


def test_padding_is_not_worked_on(rng, monkeypatch):
    """One long image beside many short ones costs its own rows, not as many rows for each."""
    monkeypatch.setattr(arrays, "_CPU_BLOCK", 2000)
    counts = np.array([500, *[5] * 40])
    real = np.arange(500) < counts[:, None]
    x = rng.standard_normal((41, 500, D))
    operator = FastFAemb(3).with_anchors(rng.standard_normal((3, D))).operator(x, real)
    worked = sum((images.stop - images.start) * (rows.stop - rows.start) for images, rows in operator._blocks)
    assert worked == counts.sum()
