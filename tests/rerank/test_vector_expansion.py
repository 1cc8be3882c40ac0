"""Expansion by vectors alone: the formulas, one vector at a time."""

import numpy as np

from faemb.rerank.vector_expansion import averaged, scaled


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


def test_no_images():
    assert scaled(np.empty(0), np.empty((0, 2))).shape == (0,)
    assert averaged(np.empty((0, 4)), np.empty((0, 2, 4)), np.empty((0, 2))).shape == (0, 4)
