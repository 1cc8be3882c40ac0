"""Linear maps of indexes: what they keep of vectors, and from how few vectors they are learned."""

import numpy as np
import pytest

from faemb.collection import linear_maps
from faemb.collection.linear_maps import SHORT, code_map, short_map


def vectors(rng: np.random.Generator, count: int, width: int) -> np.ndarray:
    """Unit vectors whose components have falling variance."""
    rows = rng.standard_normal((count, width)) * np.linspace(2, 0.1, width) + 0.2
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def mapped(linear, rows: np.ndarray) -> np.ndarray:
    return rows @ linear.matrix.T + linear.bias


@pytest.mark.parametrize("width", [1, 50, SHORT])
def test_short_vectors_stay_as_they_are(rng, width):
    rows = vectors(rng, 20, width)
    np.testing.assert_array_equal(mapped(short_map(rows), rows), rows)


def test_few_long_vectors_keep_their_ranking(rng):
    """Products with a query change by the same amount for all."""
    rows, queries = vectors(rng, 30, SHORT + 100), vectors(rng, 5, SHORT + 100)
    linear = short_map(rows)
    assert linear.matrix.shape == (29, SHORT + 100)
    difference = mapped(linear, queries) @ mapped(linear, rows).T - queries @ rows.T
    np.testing.assert_allclose(difference, np.repeat(difference[:, :1], 30, axis=1), atol=1e-5)


def test_many_long_vectors_keep_what_varies_most(rng):
    rows = vectors(rng, 1500, SHORT + 300)
    short = mapped(short_map(rows), rows)
    assert short.shape == (1500, SHORT)
    assert short.var(axis=0).sum() > 0.95 * rows.var(axis=0).sum()


@pytest.mark.parametrize("width", [5, SHORT + 5])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_equal_vectors_need_no_axes(width, count):
    rows = np.full((count, width), width**-0.5, np.float32)
    for learn in (short_map, code_map):
        assert np.isfinite(mapped(learn(rows), rows)).all()


@pytest.mark.parametrize(("count", "bits"), [(2, 1), (8, 7), (9, 8), (20, 16), (60, 40), (200, 40)], ids=str)
def test_as_many_bits_as_the_vectors_have_directions(rng, monkeypatch, count, bits):
    """And no more than the limit."""
    monkeypatch.setattr(linear_maps, "BITS", 40)
    rows = vectors(rng, count, 50)
    linear = code_map(rows)
    assert linear.matrix.shape == (bits, 50)
    shares = (mapped(linear, rows) >= 0).mean(axis=0)
    assert 0.2 < shares.mean() < 0.8


def test_near_vectors_have_near_codes(rng):
    rows = vectors(rng, 300, 64)
    near = rows + 0.02 * rng.standard_normal(rows.shape).astype(np.float32)
    linear = code_map(rows)
    signs, others = mapped(linear, rows) >= 0, mapped(linear, near) >= 0
    assert (signs != others).mean() < 0.25 * (signs != np.roll(signs, 1, axis=0)).mean()
