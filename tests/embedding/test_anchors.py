"""Where anchors come from: k-means, the mixture, and Algorithm 1 with its objective, gradient and curvature."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from backends import Backend
from faemb import FAemb, FastFAemb
from faemb.arrays import to_numpy
from faemb.embedding.anchors import gaussian_mixture, kmeans_anchors, learn_anchors
from faemb.embedding.anchors.alternating import AnchorProblem
from faemb.embedding.codings import FunctionApproximation, Ridge
from faemb.errors import InputError
from faemb.persistence import load, save

D = 4
CODINGS = [FunctionApproximation, Ridge]
METHODS = [FAemb, FastFAemb]


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    """Unit vectors around six directions."""
    x = 2 * rng.standard_normal((6, D))[rng.integers(0, 6, 120)] + rng.standard_normal((120, D))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


# k-means and mixture


def test_kmeans_finds_clusters_that_stand_apart(backend: Backend, rng: np.random.Generator) -> None:
    centres = 100 * np.eye(3, D)
    clusters = centres[:, None] + rng.standard_normal((3, 20, D))
    found = kmeans_anchors(backend.array(clusters.reshape(-1, D)), 3, seed=0, restarts=3)
    expected = clusters.mean(axis=1)
    nearest = np.argmin(np.linalg.norm(to_numpy(found)[:, None] - expected, axis=2), axis=1)
    np.testing.assert_array_equal(np.sort(nearest), range(3))
    np.testing.assert_allclose(to_numpy(found), expected[nearest], rtol=1e-9, atol=1e-9)


def test_kmeans_repeats_itself_for_a_seed_and_differs_for_another(x: np.ndarray) -> None:
    first, again, other = (kmeans_anchors(x, 5, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_more_restarts_of_kmeans_are_no_worse(x: np.ndarray) -> None:
    def error(anchors: np.ndarray) -> float:
        return float(np.sum(np.min(np.linalg.norm(x[:, None] - anchors, axis=2) ** 2, axis=1)))

    assert error(kmeans_anchors(x, 6, seed=0, restarts=10)) <= error(kmeans_anchors(x, 6, seed=0)) * (1 + 1e-9)


def test_every_way_of_learning_tells_when_it_is_done(x: np.ndarray) -> None:
    calls: dict[str, tuple[int, int]] = {}

    def progress(stage: str, done: int, total: int) -> None:
        calls[stage] = done, total

    kmeans_anchors(x, 3, seed=0, restarts=2, progress=progress)
    gaussian_mixture(x, 3, seed=0, progress=progress)
    learn_anchors(x, kmeans_anchors(x, 3, seed=0), Ridge, tolerance=1e3, progress=progress)
    assert calls["anchors: alternating"] == (2, 2), "it stopped after two of at most twenty"
    assert calls["anchors: mixture"][0] > 1
    assert all(done == total for done, total in calls.values())
    runs = ["anchors: k-means, run 1 of 2", "anchors: k-means, run 2 of 2", "anchors: k-means"]
    assert list(calls) == [*runs, "anchors: mixture", "anchors: alternating"]


def test_restarts_are_those_of_scikit_learn(x: np.ndarray) -> None:
    expected = KMeans(5, n_init=4, random_state=7).fit(x).cluster_centers_
    np.testing.assert_array_equal(kmeans_anchors(x, 5, seed=7, restarts=4), expected)


def test_a_mixture_in_portions_is_that_of_one_call(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faemb.embedding.anchors.mixture._AT_ONCE", 3)
    x = rng.standard_normal((400, D))
    whole = GaussianMixture(
        6,
        covariance_type="diag",
        means_init=kmeans_anchors(x, 6, seed=0),
        reg_covar=1e-3 * float(x.var(axis=0).mean()),
        max_iter=200,
        random_state=0,
    ).fit(x)
    assert whole.n_iter_ > 3
    np.testing.assert_array_equal(gaussian_mixture(x, 6, seed=0).means, whole.means_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kmeans_keeps_the_precision_of_the_descriptors(dtype: type, x: np.ndarray) -> None:
    assert kmeans_anchors(x.astype(dtype), 3, seed=0).dtype == dtype


def test_mixture_has_priors_that_sum_to_one_and_positive_deviations(backend: Backend, x: np.ndarray) -> None:
    mixture = gaussian_mixture(backend.array(x), 5, seed=0)
    priors, deviations = to_numpy(mixture.priors), to_numpy(mixture.deviations)
    assert to_numpy(mixture.means).shape == deviations.shape == (5, D)
    np.testing.assert_allclose(priors.sum(), 1, rtol=1e-12)
    assert priors.min() > 0
    assert deviations.min() > 0


def test_mixture_finds_the_components_it_was_drawn_from(rng: np.random.Generator) -> None:
    noise = rng.standard_normal((4000, 2))
    drawn = np.concatenate([noise[:3000] * [1, 2] - 8, noise[3000:] * [3, 1] + 8])
    mixture = gaussian_mixture(drawn, 2, seed=0)
    order = np.argsort(mixture.means[:, 0])
    np.testing.assert_allclose(mixture.means[order], [[-8, -8], [8, 8]], atol=0.3)
    np.testing.assert_allclose(mixture.priors[order], [0.75, 0.25], rtol=1e-3)
    np.testing.assert_allclose(mixture.deviations[order], [[1, 2], [3, 1]], rtol=0.1)


def test_mixture_repeats_itself_for_a_seed(x: np.ndarray) -> None:
    for first, again in zip(gaussian_mixture(x, 5, seed=3), gaussian_mixture(x, 5, seed=3), strict=True):
        np.testing.assert_array_equal(first, again)


def test_a_component_of_one_descriptor_keeps_a_deviation(x: np.ndarray) -> None:
    outlier = np.concatenate([x, 50 * np.ones((1, D))])
    assert gaussian_mixture(outlier, 2, seed=0).deviations.min() > 1e-3


# Algorithm 1


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("n", "mu"), [(3, 1e-2), (10, 1e-3)], ids=["few", "more-anchors-than-dimensions"])
def test_neither_half_step_increases_the_objective(coding: type, order: int, n: int, mu: float, x: np.ndarray) -> None:
    start = kmeans_anchors(x, n, seed=0)
    history = np.array(learn_anchors(x, start, partial(coding, mu=mu, order=order), iterations=5).history)
    assert np.all(np.diff(history) <= 1e-12 * history[:-1])
    assert history[-1] < history[0]


@pytest.mark.parametrize("coding", CODINGS)
def test_learned_anchors_are_better_than_where_they_started(coding: type, x: np.ndarray) -> None:
    start = kmeans_anchors(x, 3, seed=0)
    learned = learn_anchors(x, start, coding, iterations=5)
    begin, end = objective(coding(start), x), objective(coding(learned.anchors), x)
    np.testing.assert_allclose(learned.history[0], begin, rtol=1e-10)
    assert end <= learned.history[-1] * (1 + 1e-12) < begin


def objective(coding: FunctionApproximation | Ridge, x: np.ndarray) -> float:
    """Q at the optimal coefficients, one descriptor at a time."""
    g = coding.weights(x)
    return value_by_the_book(x, g, coding.penalties(g), coding.mu, coding.order, coding.anchors)


def value_by_the_book(x: np.ndarray, g: np.ndarray, p: np.ndarray, mu: float, order: int, v: np.ndarray) -> float:
    """[DC17, Eq. 19 and 27], one descriptor and one anchor at a time."""
    total = 0.0
    for i in range(len(x)):
        total += 0.5 * np.sum((x[i] - sum(g[i, j] * v[j] for j in range(len(v)))) ** 2)
        total += 0.5 * mu * sum(p[i, j] * np.abs(x[i] - v[j]).sum() ** (order + 1) for j in range(len(v)))
    return total / len(x)


def test_iterations_are_a_limit(x: np.ndarray) -> None:
    start = kmeans_anchors(x, 3, seed=0)
    assert len(learn_anchors(x, start, Ridge, iterations=2, tolerance=0).history) == 4
    assert len(learn_anchors(x, start, Ridge, iterations=1).history) == 2


def test_a_large_tolerance_ends_after_the_second_iteration(x: np.ndarray) -> None:
    assert len(learn_anchors(x, kmeans_anchors(x, 3, seed=0), Ridge, tolerance=1e3).history) == 4


def test_learning_leaves_its_start_unchanged(x: np.ndarray) -> None:
    start = kmeans_anchors(x, 3, seed=0)
    before = start.copy()
    learn_anchors(x, start, Ridge, iterations=2)
    np.testing.assert_array_equal(start, before)


# The anchor problem: value, gradient, curvature


def anchor_problem(rng: np.random.Generator, order: int, x: np.ndarray, n: int = 3) -> AnchorProblem:
    g = rng.standard_normal((len(x), n))
    return AnchorProblem(x, g / g.sum(axis=1, keepdims=True), rng.uniform(0.1, 1, g.shape), 0.3, order)


def away_from_kinks(rng: np.random.Generator, count: int = 15, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Descriptors at half-integers, anchors near integers: no residual has a coordinate below 0.3."""
    x = rng.integers(-3, 3, (count, d)) + 0.5
    return x, rng.integers(-2, 3, (3, d)) + rng.uniform(-0.2, 0.2, (3, d))


def central_differences(
    function: Callable[[np.ndarray], np.ndarray | float], v: np.ndarray, h: float = 1e-5
) -> np.ndarray:
    """Derivative of `function` in each coordinate of v, along the first axes of the answer."""
    steps = h * np.eye(v.size).reshape(v.size, *v.shape)
    slopes = [(np.asarray(function(v + step)) - function(v - step)) / (2 * h) for step in steps]
    return np.array(slopes).reshape(*v.shape, *np.shape(slopes[0]))


@pytest.mark.parametrize("order", [1, 2])
def test_value_is_the_formula(order: int, rng: np.random.Generator) -> None:
    problem, v = anchor_problem(rng, order, rng.standard_normal((10, 3))), rng.standard_normal((3, 3))
    expected = value_by_the_book(problem.x, problem.coefficients, problem.penalties, problem.mu, order, v)
    np.testing.assert_allclose(problem.value(v), expected, rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_gradient_is_the_slope_of_value(order: int, rng: np.random.Generator) -> None:
    x, v = away_from_kinks(rng)
    problem = anchor_problem(rng, order, x)
    np.testing.assert_allclose(problem.gradient(v), central_differences(problem.value, v), rtol=1e-7, atol=1e-7)


def hessian(problem: AnchorProblem, v: np.ndarray) -> np.ndarray:
    """The matrix of the operator `curvature`, column by column."""
    steps = np.eye(v.size).reshape(v.size, *v.shape)
    return np.stack([problem.curvature(v, step).ravel() for step in steps], axis=1)


@pytest.mark.parametrize("order", [1, 2])
def test_curvature_is_the_slope_of_gradient_away_from_kinks(order: int, rng: np.random.Generator) -> None:
    x, v = away_from_kinks(rng)
    # The premise: no coordinate of a descriptor within the smoothing window, a tenth of the deviation.
    assert np.abs(x[:, None] - v).min() > 0.1 * x.std(axis=0).max()
    problem = anchor_problem(rng, order, x)
    slopes = central_differences(problem.gradient, v).reshape(v.size, v.size)
    np.testing.assert_allclose(hessian(problem, v), slopes, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("order", [1, 2])
def test_curvature_is_symmetric_and_never_negative(order: int, rng: np.random.Generator) -> None:
    problem, v = anchor_problem(rng, order, rng.standard_normal((40, 3))), rng.standard_normal((3, 3))
    matrix = hessian(problem, v)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    assert np.linalg.eigvalsh(matrix).min() > -1e-12


def test_curvature_is_linear_in_the_step(rng: np.random.Generator) -> None:
    problem, v = anchor_problem(rng, 2, rng.standard_normal((40, 3))), rng.standard_normal((3, 3))
    step, other = rng.standard_normal((2, 3, 3))
    expected = 2 * problem.curvature(v, step) - 3 * problem.curvature(v, other)
    np.testing.assert_allclose(problem.curvature(v, 2 * step - 3 * other), expected, atol=1e-12)


def test_curvature_follows_the_anchors(rng: np.random.Generator) -> None:
    """The blocks are remembered for one place; another place must not get them."""
    x, (v, other, step) = rng.standard_normal((40, 3)), rng.standard_normal((3, 3, 3))
    problem, fresh = anchor_problem(rng, 2, x), anchor_problem(rng, 2, x)
    fresh.coefficients, fresh.penalties = problem.coefficients, problem.penalties
    problem.curvature(v, step)
    np.testing.assert_array_equal(problem.curvature(other, step), fresh.curvature(other, step))


def test_data_at_the_anchor_adds_curvature(rng: np.random.Generator) -> None:
    """The kinks of the l1 norm: a descriptor moved into the window makes the model steeper."""
    x, v = away_from_kinks(rng)
    problem = anchor_problem(rng, 2, x)
    smooth = np.trace(hessian(problem, v))
    x[0] = v[0] + 0.01
    assert np.trace(hessian(AnchorProblem(x, problem.coefficients, problem.penalties, 0.3, 2), v)) > smooth


# Through the methods


@pytest.mark.parametrize("method", METHODS)
def test_alternating_keeps_its_history_through_save_and_load(
    method: type[FAemb] | type[FastFAemb], x: np.ndarray, tmp_path: Path
) -> None:
    fitted = method(3, anchor_learning="alternating").fit(x)
    assert len(fitted.history_) >= 2
    assert fitted.history_[-1] < fitted.history_[0]
    save(fitted, tmp_path / "method.safetensors")
    loaded = load(tmp_path / "method.safetensors")
    assert isinstance(loaded, method)
    np.testing.assert_array_equal(loaded.history_, fitted.history_)
    np.testing.assert_array_equal(loaded.anchors_, fitted.anchors_)


@pytest.mark.parametrize("method", METHODS)
def test_alternating_starts_from_kmeans_and_improves_its_objective(method: type, x: np.ndarray) -> None:
    learned, start = method(3, anchor_learning="alternating").fit(x), method(3).fit(x)
    np.testing.assert_allclose(learned.history_[0], objective(start.coding(x), x), rtol=1e-10)
    assert objective(learned.coding(x), x) < objective(start.coding(x), x)


def test_alternating_on_another_library_is_the_same(backend: Backend, x: np.ndarray) -> None:
    fitted = FastFAemb(3, anchor_learning="alternating").fit(backend.array(x))
    expected = FastFAemb(3, anchor_learning="alternating").fit(x)
    assert type(fitted.history_) is type(fitted.anchors_) is type(backend.array(x))
    np.testing.assert_allclose(to_numpy(fitted.anchors_), expected.anchors_, atol=1e-9)
    np.testing.assert_allclose(to_numpy(fitted.history_), expected.history_, rtol=1e-9)


def test_kmeans_anchors_have_no_history(x: np.ndarray) -> None:
    assert FastFAemb(3).fit(x).history_.shape == (0,)


BAD_SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "order": ({"order": 3}, r"order is 3; expected a whole number, 1 to 2"),
    "mu": ({"mu": 0}, r"mu is 0; expected a number, more than 0"),
    "anchor_learning": ({"anchor_learning": "x"}, r"anchor_learning is 'x'; expected one of kmeans, alternating"),
    "constant_scale": ({"constant_scale": -1}, r"scale is -1; expected a number, at least 0"),
    "linear_scale": ({"linear_scale": -1}, r"scale is -1; expected a number, at least 0"),
    "linear_scale at order 1": ({"linear_scale": 1, "order": 1}, "linear_scale belongs to order 2"),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("setting", "message"), BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_fit_explains_a_bad_setting(method: type, setting: dict, message: str, x: np.ndarray) -> None:
    with pytest.raises(InputError, match=message):
        method(3, **setting).fit(x)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("setting", ["order", "mu", "constant_scale", "linear_scale"])
def test_a_bad_setting_is_explained_before_given_anchors_embed(method: type, setting: str, x: np.ndarray) -> None:
    options, message = BAD_SETTINGS[setting]
    with pytest.raises(InputError, match=message):
        method(3, **options).with_anchors(x[:3]).embed(x)


@pytest.mark.parametrize("method", METHODS)
def test_no_anchors_at_all_are_refused(method: type, x: np.ndarray) -> None:
    with pytest.raises(InputError, match="n_anchors is 0; expected a whole number, 1 or more"):
        method(0).fit(x)
