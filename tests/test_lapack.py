"""LAPACK called by its address: its answers, what it refuses, and that other threads run meanwhile."""

import threading

import numpy as np
import pytest

from faemb.lapack import dsyevr


@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_eigenvalues_are_those_of_numpy(rng, n):
    half = rng.standard_normal((n, n))
    matrix = half @ half.T
    values, vectors = dsyevr(np.array(matrix, order="F"))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix), atol=1e-10)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n), atol=1e-11)


def test_null_directions_are_orthogonal_too(rng):
    thin = rng.standard_normal((80, 5))
    vectors = dsyevr(np.asfortranarray(thin @ thin.T))[1]
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(80), atol=1e-11)


@pytest.mark.parametrize("matrix", [np.eye(3, dtype=np.float32), np.ones((4, 4))[::2, ::2]], ids=["float32", "strided"])
def test_only_whole_float64_matrices_are_taken(matrix):
    with pytest.raises(ValueError, match="float64 matrix in column order"):
        dsyevr(matrix)


def test_other_threads_run_meanwhile(rng):
    half = rng.standard_normal((900, 900))
    matrix = np.asfortranarray(half @ half.T)
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        dsyevr(matrix)
        ended.set()

    threading.Thread(target=work).start()
    begun.wait()
    steps = 0
    while not ended.wait(0.001):
        steps += 1
    assert steps >= 10
