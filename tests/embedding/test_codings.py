"""Each coding against its formula, one descriptor at a time, and against the laws that the formula implies."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from backends import Backend
from faemb import TLCC, FAemb, FastFAemb, Fisher
from faemb.arrays import to_numpy
from faemb.embedding import Embedding
from faemb.embedding.codings import FunctionApproximation, InverseDistance, Nearest, Posterior, Ridge, Tangent
from reference import code_by_the_book

SumToOne = type[FunctionApproximation] | type[Ridge]

SUM_TO_ONE: list[SumToOne] = [FunctionApproximation, Ridge]
TAYLOR: dict[SumToOne, type[FAemb] | type[FastFAemb]] = {FunctionApproximation: FAemb, Ridge: FastFAemb}
MUS = [1e-5, 1e-3, 1e-2, 1.0, 10.0]

few_examples = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def unit_rows(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def unit_problem(rng: np.random.Generator, n: int, d: int, count: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Descriptors and anchors of unit length, as RootSIFT has them."""
    return unit_rows(rng.standard_normal((count, d))), unit_rows(rng.standard_normal((n, d)))


def remainder_by_the_book(x: np.ndarray, anchors: np.ndarray, order: int) -> np.ndarray:
    return np.array([[np.abs(p - v).sum() ** (order + 1) for v in anchors] for p in x])


def objective(coding: FunctionApproximation, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """[DC17, Eq. 18] for each row."""
    fit = 0.5 * np.sum((x - g @ coding.anchors) ** 2, axis=1)
    bounds = remainder_by_the_book(x, coding.anchors, coding.order)
    return fit + 0.5 * coding.mu * np.sum(np.abs(g) * bounds, axis=1)


def by_the_book(method: Embedding, x: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    return np.array([code_by_the_book(method, p, anchors) for p in x])


# Laws of both sum-to-one codings


@pytest.mark.parametrize("coding", SUM_TO_ONE)
@pytest.mark.parametrize("order", [1, 2])
def test_coefficients_are_those_of_the_formula(coding: SumToOne, order: int, rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, 5, 6, count=8)
    expected = by_the_book(TAYLOR[coding](5, mu=0.02, order=order), x, anchors)
    np.testing.assert_allclose(coding(anchors, mu=0.02, order=order).weights(x), expected, atol=1e-10)


@pytest.mark.parametrize("coding", SUM_TO_ONE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_single_anchor_gets_everything(coding: SumToOne, dtype: type[np.floating], rng: np.random.Generator) -> None:
    x, anchor = (part.astype(dtype) for part in unit_problem(rng, 1, 6))
    on_it = np.concatenate([x, anchor])
    np.testing.assert_allclose(coding(anchor).weights(on_it), np.ones((31, 1)), rtol=4 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("coding", SUM_TO_ONE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_anchors_that_all_coincide_share_equally_even_when_the_descriptor_is_there(
    coding: SumToOne, dtype: type[np.floating], rng: np.random.Generator
) -> None:
    anchors = np.repeat(rng.standard_normal((1, 5)), 3, axis=0).astype(dtype)
    np.testing.assert_allclose(coding(anchors).weights(anchors[:1]), np.full((1, 3), 1 / 3), atol=0.01)


@pytest.mark.parametrize("coding", [*SUM_TO_ONE, Tangent])
def test_no_descriptors_give_no_rows(coding: type, rng: np.random.Generator) -> None:
    assert coding(rng.standard_normal((4, 6))).weights(np.zeros((0, 6))).shape == (0, 4)


@pytest.mark.parametrize("coding", SUM_TO_ONE)
def test_float32_gives_float32_near_the_float64_coefficients(coding: type, rng: np.random.Generator) -> None:
    x, anchors = (part.astype(np.float32) for part in unit_problem(rng, 8, 20))
    narrow = coding(anchors).weights(x)
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, coding(anchors.astype(float)).weights(x.astype(float)), atol=1e-5)


@pytest.mark.parametrize("coding", [*SUM_TO_ONE, Tangent])
@few_examples
@given(seed=seeds)
def test_permuting_the_anchors_permutes_the_coefficients(coding: type, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, anchors = unit_problem(rng, 5, 7, count=3)
    order = rng.permutation(5)
    np.testing.assert_allclose(coding(anchors[order]).weights(x), coding(anchors).weights(x)[:, order], atol=1e-9)


@pytest.mark.parametrize("coding", SUM_TO_ONE)
@few_examples
@given(seed=seeds)
def test_moving_everything_changes_nothing(coding: type, seed: int) -> None:
    """With 1'g = 1 the objective depends on differences x - v_j only."""
    rng = np.random.default_rng(seed)
    x, anchors = unit_problem(rng, 4, 6, count=3)
    shift = rng.standard_normal(6)
    np.testing.assert_allclose(coding(anchors + shift).weights(x + shift), coding(anchors).weights(x), atol=1e-8)


@pytest.mark.parametrize("coding", SUM_TO_ONE)
@pytest.mark.parametrize("order", [1, 2])
@few_examples
@given(seed=seeds, scale=st.floats(0.1, 10))
def test_scaling_everything_is_a_change_of_mu(coding: type, order: int, seed: int, scale: float) -> None:
    """The fit grows as s^2, the bound as s^(k+1): mu s^(1-k) keeps their balance."""
    x, anchors = unit_problem(np.random.default_rng(seed), 4, 6, count=3)
    scaled = coding(scale * anchors, mu=0.01 * scale ** (1 - order), order=order).weights(scale * x)
    np.testing.assert_allclose(scaled, coding(anchors, mu=0.01, order=order).weights(x), atol=1e-8)


@pytest.mark.parametrize("coding", [*SUM_TO_ONE, Tangent])
def test_coefficients_do_not_depend_on_the_companions(coding: type, rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, 8, 12, count=10)
    with_outlier = np.concatenate([x, 100 * x[:1]])
    alone = np.concatenate([coding(anchors).weights(row[None]) for row in with_outlier])
    np.testing.assert_allclose(coding(anchors).weights(with_outlier), alone, atol=1e-9)


# Ridge


@few_examples
@given(st.data())
def test_ridge_sums_to_one(data: st.DataObject) -> None:
    """On a grid, so that descriptors on anchors, duplicates and singular Gram matrices all occur."""
    d, n = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 6))
    grid = st.lists(st.integers(-16, 16), min_size=(n + 3) * d, max_size=(n + 3) * d)
    points = np.array(data.draw(grid)).reshape(n + 3, d) / 8
    x, anchors = points[:3], points[3:]
    # All anchors in one place is the case of test_anchors_that_all_coincide.
    assume(n == 1 or len(np.unique(anchors, axis=0)) > 1)
    np.testing.assert_allclose(Ridge(anchors).weights(x).sum(axis=1), np.ones(3), rtol=1e-9)


@pytest.mark.parametrize("mu", MUS)
def test_ridge_with_more_anchors_than_dimensions_is_the_formula(mu: float, rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, 12, 4, count=10)
    expected = by_the_book(FastFAemb(12, mu=mu), x, anchors)
    np.testing.assert_allclose(Ridge(anchors, mu=mu).weights(x), expected, atol=1e-9 / min(mu, 1))


def test_ridge_gives_duplicate_anchors_equal_shares(rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, 4, 6)
    anchors[2] = anchors[0]
    g = Ridge(anchors).weights(x)
    np.testing.assert_allclose(g[:, 2], g[:, 0], atol=1e-12)
    np.testing.assert_allclose(g, by_the_book(FastFAemb(4), x, anchors), atol=1e-10)


def test_ridge_on_an_anchor_is_the_formula(rng: np.random.Generator) -> None:
    _, anchors = unit_problem(rng, 5, 6)
    expected = by_the_book(FastFAemb(5), anchors, anchors)
    np.testing.assert_allclose(Ridge(anchors).weights(anchors), expected, atol=1e-10)


def test_ridge_is_the_optimum_of_its_objective(rng: np.random.Generator) -> None:
    """[DC17, Eq. 27]: no feasible point near or far does better."""
    x, anchors = unit_problem(rng, 6, 8, count=5)
    coding = Ridge(anchors, mu=0.05)
    total = remainder_by_the_book(x, anchors, 2).sum(axis=1)

    def value(g: np.ndarray) -> np.ndarray:
        return 0.5 * np.sum((x - g @ anchors) ** 2, axis=1) + 0.5 * coding.mu * total * np.sum(g * g, axis=1)

    optimum = coding.weights(x)
    for step in feasible_steps(rng, optimum):
        assert np.all(value(optimum) <= value(optimum + step) + 1e-13)


def feasible_steps(rng: np.random.Generator, g: np.ndarray) -> list[np.ndarray]:
    """200 steps that keep the sum, from tiny to large."""
    steps = rng.standard_normal((200, *g.shape)) * np.logspace(-5, 1, 200)[:, None, None]
    return list(steps - steps.mean(axis=2, keepdims=True))


def test_ridge_penalty_is_the_squared_length_for_every_anchor(rng: np.random.Generator) -> None:
    g = rng.standard_normal((3, 4))
    expected = np.tile(np.sum(g * g, axis=1)[:, None], 4)
    np.testing.assert_allclose(Ridge(np.zeros((4, 2))).penalties(g), expected)


# FAemb's coding


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("n", [1, 2, 8, 16, 32])
@pytest.mark.parametrize("order", [1, 2])
def test_function_approximation_is_optimal(order: int, n: int, mu: float, rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, n, 40)
    coding = FunctionApproximation(anchors, mu=mu, order=order)
    assert coding.kkt_residual(x, coding.weights(x)).max() <= 1e-9


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("n", [8, 16, 32])
def test_function_approximation_is_optimal_with_more_anchors_than_dimensions(
    n: int, mu: float, rng: np.random.Generator
) -> None:
    x, anchors = unit_problem(rng, n, 6)
    coding = FunctionApproximation(anchors, mu=mu)
    assert coding.kkt_residual(x, coding.weights(x)).max() <= 1e-6


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("n", [2, 8, 16])
def test_function_approximation_is_optimal_with_duplicate_anchors(n: int, mu: float, rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, n, 20)
    anchors[n // 2 :] = anchors[: n // 2]
    coding = FunctionApproximation(anchors, mu=mu)
    assert coding.kkt_residual(x, coding.weights(x)).max() <= 1e-6


def test_function_approximation_is_optimal_for_descriptors_of_length_500(rng: np.random.Generator) -> None:
    """Raw SIFT: the cost of an anchor is then a million times the Gram matrix."""
    x, anchors = (512 * np.abs(part) for part in unit_problem(rng, 16, 32))
    coding = FunctionApproximation(anchors)
    scale = remainder_by_the_book(x, anchors, 2).max()
    assert coding.kkt_residual(x, coding.weights(x)).max() <= 1e-12 * scale


def test_function_approximation_on_an_anchor_is_that_anchor(rng: np.random.Generator) -> None:
    _, anchors = unit_problem(rng, 6, 8)
    np.testing.assert_allclose(FunctionApproximation(anchors).weights(anchors), np.eye(6), atol=1e-9)


@pytest.mark.parametrize("order", [1, 2])
def test_a_huge_penalty_leaves_the_anchor_nearest_in_l1(order: int, rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, 6, 8)
    nearest = np.abs(x[:, None] - anchors).sum(axis=2).argmin(axis=1)
    g = FunctionApproximation(anchors, mu=1e5, order=order).weights(x)
    np.testing.assert_allclose(g, np.eye(6)[nearest], atol=1e-9)


@pytest.mark.parametrize(("order", "mu"), [(1, 1e-3), (2, 1e-3), (2, 0.1)])
def test_no_feasible_point_is_below_function_approximation(order: int, mu: float, rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, 6, 8, count=5)
    coding = FunctionApproximation(anchors, mu=mu, order=order)
    optimum = coding.weights(x)
    lowest = objective(coding, x, optimum)
    for step in feasible_steps(rng, optimum):
        assert np.all(lowest <= objective(coding, x, optimum + step) + 1e-13)


def test_coefficients_of_function_approximation_sum_to_one(rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, 16, 20)
    np.testing.assert_allclose(FunctionApproximation(anchors).weights(x).sum(axis=1), np.ones(30), rtol=1e-12)


def test_kkt_residual_sees_a_step_along_the_constraint(rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, 8, 12)
    coding = FunctionApproximation(anchors)
    step = rng.standard_normal((30, 8))
    step = 1e-3 * unit_rows(step - step.mean(axis=1, keepdims=True))
    assert coding.kkt_residual(x, coding.weights(x) + step).min() > 1e-4


def test_kkt_residual_sees_a_sum_other_than_one(rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, 8, 12)
    coding = FunctionApproximation(anchors)
    assert coding.kkt_residual(x, 1.01 * coding.weights(x)).min() > 9e-3
    np.testing.assert_array_less(0.99, coding.kkt_residual(x, np.zeros((30, 8))))


def test_function_approximation_penalty_is_the_magnitude(rng: np.random.Generator) -> None:
    g = rng.standard_normal((3, 4))
    np.testing.assert_array_equal(FunctionApproximation(np.zeros((4, 2))).penalties(g), np.abs(g))


# TLCC's coding


def test_tangent_is_the_optimum_found_by_enumeration(rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, 5, 6, count=8)
    np.testing.assert_allclose(
        Tangent(anchors, mu=0.05).weights(x), by_the_book(TLCC(5, mu=0.05), x, anchors), atol=1e-10
    )


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("n", [1, 2, 8, 16, 32])
def test_tangent_is_optimal(n: int, mu: float, rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, n, 40)
    coding = Tangent(anchors, mu=mu)
    assert coding.kkt_residual(x, coding.weights(x)).max() <= 1e-9


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("n", [8, 32])
def test_tangent_is_optimal_with_more_anchors_than_dimensions(n: int, mu: float, rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, n, 6)
    coding = Tangent(anchors, mu=mu)
    assert coding.kkt_residual(x, coding.weights(x)).max() <= 1e-6


def test_tangent_under_a_huge_penalty_is_zero(rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, 6, 8)
    np.testing.assert_array_equal(Tangent(anchors, mu=1e3).weights(x), np.zeros((30, 6)))


def test_kkt_residual_of_tangent_sees_a_step(rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, 8, 12)
    coding = Tangent(anchors)
    step = 1e-3 * unit_rows(rng.standard_normal((30, 8)))
    assert coding.kkt_residual(x, coding.weights(x) + step).min() > 1e-4


# Posterior


def mixture(rng: np.random.Generator, n: int = 4, d: int = 5) -> Posterior:
    priors = rng.dirichlet(np.ones(n))
    return Posterior(rng.standard_normal((n, d)), priors, np.exp(0.3 * rng.standard_normal((n, d))))


def test_posterior_is_the_ratio_of_densities(rng: np.random.Generator) -> None:
    coding, x = mixture(rng), rng.standard_normal((12, 5))
    fisher = Fisher(4)
    fisher.priors_, fisher.deviations_ = coding.priors, coding.deviations
    np.testing.assert_allclose(coding.weights(x), by_the_book(fisher, x, coding.anchors), rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("distance", [1.0, 1e3, 1e9, 1e18])
def test_posteriors_sum_to_one_however_far_the_descriptor(
    distance: float, dtype: type[np.floating], rng: np.random.Generator
) -> None:
    coding = mixture(rng)
    coding = Posterior(*(part.astype(dtype) for part in (coding.anchors, coding.priors, coding.deviations)))
    x = (distance * rng.standard_normal((12, 5))).astype(dtype)
    posteriors = coding.weights(x) * np.sqrt(coding.priors)
    np.testing.assert_allclose(posteriors.sum(axis=1), np.ones(12), rtol=8 * float(np.finfo(dtype).eps))
    assert posteriors.min() >= 0


def test_posterior_between_two_equal_components_is_their_prior() -> None:
    ones = np.ones((2, 1))
    coding = Posterior(np.array([[-1.0], [1.0]]), np.array([0.2, 0.8]), ones)
    np.testing.assert_allclose(coding.weights(np.zeros((1, 1))), np.sqrt([[0.2, 0.8]]), rtol=1e-12)


# Inverse distance


def test_inverse_distance_is_the_formula(rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, 5, 6)
    expected = [[1 / np.linalg.norm(p - v) for v in anchors] for p in x]
    np.testing.assert_allclose(InverseDistance(anchors).weights(x), expected, rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inverse_distance_on_an_anchor_is_zero_there_only(dtype: type[np.floating], rng: np.random.Generator) -> None:
    anchors = unit_problem(rng, 5, 6)[1].astype(dtype)
    np.testing.assert_array_equal(InverseDistance(anchors).weights(anchors) == 0, np.eye(5, dtype=bool))


def test_inverse_distance_scales_inversely(rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, 5, 6)
    np.testing.assert_allclose(InverseDistance(8 * anchors).weights(8 * x), InverseDistance(anchors).weights(x) / 8)


# Nearest


def test_nearest_marks_one_anchor(rng: np.random.Generator) -> None:
    x, anchors = unit_problem(rng, 5, 6)
    expected = np.eye(5)[[np.argmin([np.linalg.norm(p - v) for v in anchors]) for p in x]]
    np.testing.assert_array_equal(Nearest(anchors).weights(x), expected)


def test_between_two_anchors_the_first_is_nearest(backend: Backend) -> None:
    anchors = backend.array(np.array([[3.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]))
    weights = Nearest(anchors).weights(backend.array(np.zeros((1, 2))))
    np.testing.assert_array_equal(to_numpy(weights), [[0, 1, 0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [6, 14, 20, 30])
def test_of_duplicate_anchors_the_first_is_nearest(
    n: int, dtype: type[np.floating], backend: Backend, rng: np.random.Generator
) -> None:
    x, anchors = (part.astype(dtype) for part in unit_problem(rng, n, 33, count=50))
    anchors[n // 2 :] = anchors[: n // 2]
    weights = to_numpy(Nearest(backend.array(anchors)).weights(backend.array(x)))
    np.testing.assert_array_equal(weights[:, n // 2 :], 0)
