"""Expansion by vectors alone: the formulas, one vector at a time."""

import numpy as np
import pytest

from faemb.normalise import unit_length
from faemb.rerank.vector_expansion import averaged, reciprocal, scaled
from reference import reciprocal_by_the_book


def unit(vector):
    return vector / np.linalg.norm(vector)


def test_a_vector_with_its_nearest_weighted_by_similarity(rng):
    vectors, near, weights = rng.standard_normal((3, 8)), rng.standard_normal((3, 2, 8)), rng.uniform(0, 1, (3, 2))
    expected = [unit(vectors[k] + sum(weights[k, n] * near[k, n] for n in range(2))) for k in range(3)]
    np.testing.assert_allclose(averaged(vectors, near, weights), expected)


def test_images_that_are_not_there_or_not_similar_count_nothing(rng):
    vectors, near = rng.standard_normal((1, 8)), rng.standard_normal((1, 3, 8))
    found = averaged(vectors, near, np.array([[0.5, -0.2, -np.inf]]))
    np.testing.assert_allclose(found, averaged(vectors, near[:, :1], np.array([[0.5]])))
    np.testing.assert_allclose(averaged(vectors, near[:, :0], np.empty((1, 0))), [unit(vectors[0])])


def test_half_of_the_mean_similarity_to_its_nearest_is_subtracted():
    found = scaled(np.array([0.5, 0.4, 0.3]), np.array([[0.2, 0.4], [0.1, -np.inf], [-np.inf, -np.inf]]))
    np.testing.assert_allclose(found, [0.35, 0.35, 0.3])


class TestMutualNeighbours:
    def similar(self, vectors):
        return np.round(vectors @ vectors.T, 5)

    def compared(self, similar):
        found = reciprocal(similar[0, 1:], similar[1:, 1:])
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, reciprocal_by_the_book(similar.tolist()), rtol=1e-6)

    @pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 30])
    def test_sets_one_image_at_a_time(self, rng, count):
        """Also with fewer images than neighbours."""
        things = rng.standard_normal((4, 8))
        for _ in range(20):
            self.compared(
                self.similar(unit_length(things[rng.integers(0, 4, count)] + rng.standard_normal((count, 8))))
            )

    def test_copies_are_equally_similar(self, rng):
        vectors = unit_length(rng.standard_normal((9, 8)))
        vectors[4:7] = vectors[3]
        self.compared(self.similar(vectors))
        self.compared(np.ones((9, 9)))

    def test_an_image_among_the_neighbours_of_the_query_is_raised(self):
        """The fifth is nearer to the query than three of its group, but belongs to another one."""
        near = np.full((11, 11), 0.1)
        near[:5, :5] = 0.5
        near[5:, 5:] = 0.9
        near[0, [1, 5]] = near[[1, 5], 0] = 0.6, 0.55
        np.fill_diagonal(near, 1)
        found = reciprocal(near[0, 1:], near[1:, 1:])
        assert min(found[:4]) > max(found[4:])


def test_no_images():
    assert reciprocal(np.empty(0), np.empty((0, 0))).shape == (0,)
    assert scaled(np.empty(0), np.empty((0, 2))).shape == (0,)
    assert averaged(np.empty((0, 4)), np.empty((0, 2, 4)), np.empty((0, 2))).shape == (0, 4)
