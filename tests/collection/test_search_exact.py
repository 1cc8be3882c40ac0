"""Exact search, compared with a plain sort of all products."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faemb.collection import nearest as nearest_module
from faemb.collection.nearest import Neighbours, nearest


def nearest_by_sorting(queries: np.ndarray, vectors: np.ndarray, live: np.ndarray, k: int) -> Neighbours:
    """All products of one query at a time, sorted; the earlier row first among equals."""
    k = min(k, len(live))
    scores, rows = np.zeros((len(queries), k), np.float32), np.zeros((len(queries), k), np.int64)
    for place, query in enumerate(queries):
        products = vectors[live] @ query
        order = np.argsort(-products, kind="stable")[:k]
        scores[place], rows[place] = products[order], live[order]
    return Neighbours(scores, rows)


def whole_numbers(rng: np.random.Generator, *shape: int, most: int = 3) -> np.ndarray:
    """Products of small whole numbers are exact in whatever order they are added up, and many of them are equal."""
    return rng.integers(-most, most + 1, shape).astype(np.float32)


def assert_same(found: Neighbours, expected: Neighbours) -> None:
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_array_equal(found.scores, expected.scores)


@pytest.fixture(params=[1 << 24, 1], ids=["one block", "blocks of 256"])
def block(request, monkeypatch):
    monkeypatch.setattr(nearest_module, "_BLOCK_BYTES", request.param)


@pytest.mark.usefixtures("block")
class TestAgainstSorting:
    @pytest.mark.parametrize("most", [1, 1000], ids=["many ties", "few ties"])
    @pytest.mark.parametrize("k", [1, 7, 256, 5000])
    def test_all_rows(self, rng, k, most):
        vectors, queries = whole_numbers(rng, 1000, 12, most=most), whole_numbers(rng, 5, 12, most=most)
        live = np.arange(1000)
        assert_same(nearest(queries, vectors, live, k), nearest_by_sorting(queries, vectors, live, k))

    @pytest.mark.parametrize("alive", [0.01, 0.5, 0.99])
    def test_dead_rows_are_never_seen(self, rng, alive):
        vectors, queries = whole_numbers(rng, 1000, 6), whole_numbers(rng, 3, 6)
        live = np.flatnonzero(rng.random(1000) < alive)
        found = nearest(queries, vectors, live, 20)
        assert np.isin(found.rows, live).all()
        assert_same(found, nearest_by_sorting(queries, vectors, live, 20))

    @pytest.mark.parametrize("dead", [slice(0, 256), slice(256, 512), slice(200, 600), slice(1, None)], ids=str)
    def test_whole_blocks_that_are_dead(self, rng, dead):
        """The faster path takes whole blocks as they are, the other one picks rows: both in one search."""
        vectors, queries = whole_numbers(rng, 700, 6), whole_numbers(rng, 3, 6)
        live = np.delete(np.arange(700), dead)
        assert_same(nearest(queries, vectors, live, 9), nearest_by_sorting(queries, vectors, live, 9))

    @pytest.mark.parametrize("count", [1, 255, 256, 257, 512, 513])
    def test_at_the_ends_of_blocks(self, rng, count):
        vectors, queries = whole_numbers(rng, count, 4), whole_numbers(rng, 2, 4)
        live = np.arange(count)
        assert_same(nearest(queries, vectors, live, 5), nearest_by_sorting(queries, vectors, live, 5))

    def test_equal_scores_are_in_order_of_row(self, rng):
        vectors = np.ones((1000, 3), np.float32)
        vectors[[300, 900]] = 2
        found = nearest(np.ones((1, 3), np.float32), vectors, np.arange(1000), 6)
        np.testing.assert_array_equal(found.rows, [[300, 900, 0, 1, 2, 3]])

    def test_the_best_may_be_the_last(self, rng):
        """Every block is better than all before it."""
        vectors = np.arange(2000, dtype=np.float32)[:, None]
        found = nearest(np.ones((1, 1), np.float32), vectors, np.arange(2000), 3)
        np.testing.assert_array_equal(found.rows, [[1999, 1998, 1997]])

    def test_many_queries_are_answered_as_each_alone(self, rng):
        vectors, queries = whole_numbers(rng, 600, 5), whole_numbers(rng, 40, 5)
        together = nearest(queries, vectors, np.arange(600), 8)
        for place in range(40):
            alone = nearest(queries[place : place + 1], vectors, np.arange(600), 8)
            np.testing.assert_array_equal(alone.rows[0], together.rows[place])


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32), count=st.integers(0, 900), k=st.integers(1, 40), share=st.floats(0, 1))
def test_anything(seed, count, k, share):
    rng = np.random.default_rng(seed)
    vectors, queries = whole_numbers(rng, count, 3), whole_numbers(rng, int(rng.integers(0, 4)), 3)
    live = np.flatnonzero(rng.random(count) < share)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest_module, "_BLOCK_BYTES", 1)
        assert_same(nearest(queries, vectors, live, k), nearest_by_sorting(queries, vectors, live, k))


def test_real_numbers(rng):
    """Scores within rounding, and rows wherever scores are further apart than that."""
    vectors, queries = rng.standard_normal((500, 64)), rng.standard_normal((4, 64))
    vectors, queries = vectors.astype(np.float32), queries.astype(np.float32)
    found, expected = (f(queries, vectors, np.arange(500), 10) for f in (nearest, nearest_by_sorting))
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
    clear = np.diff(expected.scores, axis=1, append=-np.inf) < -1e-3
    clear &= np.diff(expected.scores, axis=1, prepend=np.inf) < -1e-3
    np.testing.assert_array_equal(found.rows[clear], expected.rows[clear])


@pytest.mark.parametrize("count", [0, 5], ids=["no rows", "all dead"])
def test_nothing_to_find(count):
    found = nearest(np.ones((2, 3), np.float32), np.ones((count, 3), np.float32), np.zeros(0, np.int64), 4)
    assert found.scores.shape == found.rows.shape == (2, 0)


def test_mapped_rows_are_found_as_those_in_memory(rng, tmp_path):
    vectors, queries = whole_numbers(rng, 300, 4), whole_numbers(rng, 2, 4)
    vectors.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", np.float32, "r", shape=(300, 4))
    for live in (np.arange(300), np.arange(0, 300, 3)):
        assert_same(nearest(queries, mapped, live, 5), nearest(queries, vectors, live, 5))
