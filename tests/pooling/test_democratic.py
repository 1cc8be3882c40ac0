"""Exact democratic weights: the printed equation holds for every descriptor, on sets hard in different ways."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends import Backend
from faemb.arrays import to_numpy
from faemb.pooling import democratic, sinkhorn

TOLERANCE = 1e-2


def solve(backend: Backend, rows: list[np.ndarray], tolerance: float = TOLERANCE):
    """Weights for sets of rows, padded into one batch; returns them per image, and the solver's own report."""
    longest = max(len(r) for r in rows)
    padded = np.stack([np.pad(r, ((0, longest - len(r)), (0, 0))) for r in rows])
    real = np.stack([np.arange(longest) < len(r) for r in rows])
    y = backend.array(padded)

    def times(w):
        return (y @ (y.swapaxes(1, 2) @ w[..., None]))[..., 0]

    result = democratic(times, backend.array(real), diagonal=lambda _: (y * y).sum(-1), like_x=y, tolerance=tolerance)
    weights = to_numpy(result.weights)
    return [weights[i, : len(r)] for i, r in enumerate(rows)], result, weights[~real]


def contributions(weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """l_i phi_i' sum_j l_j phi_j, as printed."""
    psi = sum(w * row for w, row in zip(weights, rows, strict=True))
    return np.array([w * (row @ psi) for w, row in zip(weights, rows, strict=True)])


def random_set(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((60, 200))


def bursty_set(rng: np.random.Generator) -> np.ndarray:
    """A third are near-copies of one descriptor."""
    rows = rng.standard_normal((60, 200))
    rows[:20] = rng.standard_normal(200) + 0.1 * rows[:20]
    return rows


def identical_set(rng: np.random.Generator) -> np.ndarray:
    return np.repeat(rng.standard_normal((1, 30)), 50, axis=0)


def rank_deficient_set(rng: np.random.Generator) -> np.ndarray:
    """Eighty descriptors in a space of three dimensions, on one side of the origin."""
    basis, _ = np.linalg.qr(rng.standard_normal((40, 3)))
    return (np.array([3.0, 0, 0]) + rng.standard_normal((80, 3)) * 0.5) @ basis.T


SETS = [random_set, bursty_set, identical_set, rank_deficient_set]


def missed(weights: np.ndarray, rows: np.ndarray) -> float:
    """Root mean square of the contributions minus 1."""
    return float(np.sqrt(np.mean((contributions(weights, rows) - 1) ** 2)))


@pytest.mark.parametrize("make", SETS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("tolerance", [1e-2, 1e-6])
def test_every_descriptor_contributes_one(make, tolerance: float, backend: Backend, rng: np.random.Generator) -> None:
    rows = make(rng)
    (weights,), result, _ = solve(backend, [rows], tolerance)
    assert (weights > 0).all()
    assert missed(weights, rows) <= 1.01 * tolerance
    np.testing.assert_allclose(to_numpy(result.residual)[0], missed(weights, rows), atol=0.01 * tolerance)
    assert to_numpy(result.ridge)[0] == 0


def test_images_of_a_batch_are_solved_as_if_alone(backend: Backend, rng: np.random.Generator) -> None:
    sets = [np.pad(make(rng), ((0, 0), (0, 200)))[:, :200] for make in SETS] + [rng.standard_normal((1, 200))]
    together, _, padding = solve(backend, sets, 1e-8)
    for rows, weights in zip(sets, together, strict=True):
        np.testing.assert_allclose(weights, solve(backend, [rows], 1e-8)[0][0], rtol=1e-6)
    np.testing.assert_array_equal(padding, 0)


def test_scaling_a_descriptor_scales_its_weight_inversely(backend: Backend, rng: np.random.Generator) -> None:
    rows = bursty_set(rng)
    scale = 10 ** rng.uniform(-1.5, 1.5, len(rows))
    (plain,), _, _ = solve(backend, [rows], 1e-8)
    (scaled,), _, _ = solve(backend, [rows * scale[:, None]], 1e-8)
    np.testing.assert_allclose(scaled * scale, plain, rtol=1e-5)


def test_one_descriptor_gets_the_inverse_of_its_length(backend: Backend, rng: np.random.Generator) -> None:
    row = rng.standard_normal((1, 30))
    (weights,), _, _ = solve(backend, [row], 1e-8)
    np.testing.assert_allclose(weights, 1 / np.linalg.norm(row), rtol=1e-6)


def test_without_negative_similarities_it_is_sinkhorns_fixed_point(backend: Backend, rng: np.random.Generator) -> None:
    rows = np.abs(rng.standard_normal((40, 20)))
    (weights,), _, _ = solve(backend, [rows], 1e-8)
    real = backend.array(np.ones((1, 40), bool))
    usual = to_numpy(sinkhorn(backend.array((rows @ rows.T)[None]), real, iterations=200))[0]
    np.testing.assert_allclose(usual, weights, rtol=1e-5)


def test_opposite_descriptors_have_no_solution_and_are_solved_with_a_ridge(backend: Backend) -> None:
    rows = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    (weights,), result, _ = solve(backend, [rows])
    ridge = to_numpy(result.ridge)[0]
    assert ridge > 0
    assert np.isfinite(weights).all()
    np.testing.assert_allclose(contributions(weights, rows) + ridge * weights**2, 1, atol=0.02)


def test_more_descriptors_than_dimensions_on_all_sides_end_in_finite_weights(
    backend: Backend, rng: np.random.Generator
) -> None:
    surrounded, fine = rng.standard_normal((200, 5)), np.abs(rng.standard_normal((30, 5)))
    (weights, others), result, _ = solve(backend, [surrounded, fine])
    assert np.isfinite(weights).all()
    assert (weights > 0).all()
    assert (to_numpy(result.residual) <= TOLERANCE).all()
    assert to_numpy(result.ridge)[0] > 0
    assert to_numpy(result.ridge)[1] == 0, "an image that can be solved as printed is not touched by its neighbour"
    np.testing.assert_allclose(contributions(others, fine), 1, atol=TOLERANCE)


@pytest.mark.parametrize("excess", [1.25, 1.6])
def test_more_descriptors_than_dimensions_that_can_be_solved_are_solved_as_printed(
    excess: float, backend: Backend, rng: np.random.Generator
) -> None:
    """On one side of the origin, if barely: slow to solve, and not to be mistaken for what has no solution."""
    rows = rng.standard_normal((int(excess * 60), 60))
    rows[:, 0] = np.abs(rows[:, 0])
    (weights,), result, _ = solve(backend, [rows])
    assert to_numpy(result.ridge)[0] == 0
    assert missed(weights, rows) <= 1.01 * TOLERANCE


def ill_conditioned_set(rng: np.random.Generator) -> np.ndarray:
    """Directions whose variances differ a thousandfold, as after dividing by eigenvalues that are noise."""
    return rng.standard_normal((50, 60)) * np.exp(rng.standard_normal(60))


def test_an_ill_conditioned_set_is_solved_as_printed(backend: Backend, rng: np.random.Generator) -> None:
    rows = ill_conditioned_set(rng)
    (weights,), result, _ = solve(backend, [rows])
    assert to_numpy(result.ridge)[0] == 0
    assert missed(weights, rows) <= 1.01 * TOLERANCE


HARD = {
    "one descriptor": lambda rng: rng.standard_normal((1, 8)),
    "duplicates": lambda rng: np.repeat(rng.standard_normal((3, 8)), 40, axis=0),
    "opposites": lambda rng: np.array([[1.0, 0.0], [-1.0, 0.0]]),
    "one dimension": lambda rng: rng.standard_normal((50, 1)),
    "few dimensions": lambda rng: rng.standard_normal((2000, 5)),
    "on all sides": lambda rng: rng.standard_normal((500, 100)),
    "of all lengths": lambda rng: rng.standard_normal((500, 100)) * np.exp(2 * rng.standard_normal((500, 1))),
    "ill-conditioned": ill_conditioned_set,
    "hopeless": lambda rng: rng.standard_normal((500, 600)) * np.exp(4 * rng.standard_normal(600)),
}


@pytest.mark.parametrize("name", HARD)
def test_no_image_needs_more_than_200_products(name: str, backend: Backend, rng: np.random.Generator) -> None:
    y = backend.array(HARD[name](rng).astype(np.float32)[None])
    products = []

    def times(w):
        products.append(w)
        return (y @ (y.swapaxes(1, 2) @ w[..., None]))[..., 0]

    real = backend.array(np.ones(y.shape[:2], bool))
    result = democratic(times, real, diagonal=lambda _: (y * y).sum(-1), like_x=y)
    assert len(products) <= 200
    assert np.isfinite(to_numpy(result.weights)).all()
    assert (to_numpy(result.weights) > 0).all()
    assert to_numpy(result.residual)[0] <= 3e-3


def test_nobody_votes(backend: Backend) -> None:
    y = backend.array(np.ones((1, 3)))
    result = democratic(lambda w: w, backend.array(np.zeros((1, 3), bool)), diagonal=lambda _: y, like_x=y)
    np.testing.assert_array_equal(to_numpy(result.weights), 0)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 40),
    extra=st.integers(1, 40),
    burst=st.floats(0, 3),
    log=st.floats(-4, 4),
)
def test_the_equation_holds_for_any_independent_set(seed: int, n: int, extra: int, burst: float, log: float) -> None:
    """Linearly independent descriptors always have democratic weights, whatever their scale and burstiness."""
    rng = np.random.default_rng(seed)
    rows = 10**log * (rng.standard_normal((n, n + extra)) + burst * rng.standard_normal(n + extra))
    (weights,), _, _ = solve(Backend("numpy", "cpu"), [rows])
    assert missed(weights, rows) <= 1.01 * TOLERANCE
