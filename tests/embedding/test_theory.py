"""The paper's theory as equalities: what generalises what, and what a linear function of phi can represent.

A coding whose coefficients sum to one reproduces polynomials up to the order of its Taylor terms, and misses a smooth
function by no more than the remainder that the coding minimises [DC17, Eq. 12-15, 24-26].
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faemb import TLCC, VLAD, VLAT, FAemb, FastFAemb
from faemb.embedding import Embedded, Embedding
from faemb.embedding.codings import FunctionApproximation, Nearest, Ridge, Tangent
from faemb.embedding.terms import Constant, Linear

D = 5


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((20, D))


@pytest.fixture
def anchors(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((4, D))


# One-nonzero codings: TLCC generalises VLAD, FAemb generalises VLAT [DC17, Sec. 2.3 and 3.3]


def with_nearest(method: Embedding, x: np.ndarray, anchors: np.ndarray) -> Embedded:
    """The method's terms, with |gamma|_0 = 1 put in place of its own coding [DC17, Eq. 6]."""
    return Embedded(x, anchors, Nearest(anchors).weights(x), method.terms())


def test_tlcc_with_one_nonzero_is_vlad(x: np.ndarray, anchors: np.ndarray) -> None:
    ones = np.ones(len(x))
    vlad = VLAD(4).with_anchors(anchors).embed(x).pool(ones)
    np.testing.assert_allclose(with_nearest(TLCC(4, constant_scale=0), x, anchors).pool(ones), vlad, atol=1e-12)


def test_tlcc_without_the_components_attached_to_s_is_vlad(x: np.ndarray, anchors: np.ndarray) -> None:
    ones = np.ones(len(x))
    pooled = with_nearest(TLCC(4, constant_scale=3), x, anchors).pool(ones).reshape(4, 1 + D)
    vlad = VLAD(4).with_anchors(anchors).embed(x).pool(ones)
    np.testing.assert_allclose(pooled[:, 1:].ravel(), vlad, atol=1e-12)


def test_the_components_attached_to_s_count_the_descriptors_of_each_cell(x: np.ndarray, anchors: np.ndarray) -> None:
    pooled = with_nearest(TLCC(4, constant_scale=3), x, anchors).pool(np.ones(len(x))).reshape(4, 1 + D)
    np.testing.assert_allclose(pooled[:, 0], 3 * Nearest(anchors).weights(x).sum(axis=0))


@pytest.mark.parametrize("method", [FAemb(4), FastFAemb(4)], ids=["faemb", "ffaemb"])
def test_faemb_with_one_nonzero_is_vlat(method: Embedding, x: np.ndarray, anchors: np.ndarray) -> None:
    ones = np.ones(len(x))
    vlat = VLAT(4).with_anchors(anchors).embed(x).pool(ones)
    np.testing.assert_allclose(with_nearest(method, x, anchors).pool(ones), vlat, atol=1e-12)


def test_faemb_without_the_components_attached_to_s1_and_s2_is_vlat(x: np.ndarray, anchors: np.ndarray) -> None:
    ones = np.ones(len(x))
    pooled = with_nearest(FAemb(4, constant_scale=2, linear_scale=3), x, anchors).pool(ones).reshape(4, -1)
    vlat = VLAT(4).with_anchors(anchors).embed(x).pool(ones)
    np.testing.assert_allclose(pooled[:, 1 + D :].ravel(), vlat, atol=1e-12)


# Linear functions of phi


@dataclass(frozen=True)
class Quadratic:
    """f(x) = c + b'x + 1/2 x'Hx, with H symmetric."""

    c: float
    b: np.ndarray
    hessian: np.ndarray

    def value(self, x: np.ndarray) -> float:
        return self.c + self.b @ x + 0.5 * x @ self.hessian @ x

    def gradient(self, x: np.ndarray) -> np.ndarray:
        return self.b + self.hessian @ x

    def second(self, x: np.ndarray) -> np.ndarray:
        return self.hessian


@dataclass(frozen=True)
class Waves:
    """f(x) = sum_l b_l cos(w_l'x + p_l); every partial derivative of order q is at most sum_l |b_l| |w_l|_inf^q."""

    b: np.ndarray
    w: np.ndarray
    p: np.ndarray

    def value(self, x: np.ndarray) -> float:
        return self.b @ np.cos(self.w @ x + self.p)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        return -(self.b * np.sin(self.w @ x + self.p)) @ self.w

    def second(self, x: np.ndarray) -> np.ndarray:
        return -(self.w.T * (self.b * np.cos(self.w @ x + self.p))) @ self.w

    def bound(self, order: int) -> float:
        return float(np.abs(self.b) @ np.abs(self.w).max(axis=1) ** order)


def random_quadratic(rng: np.random.Generator) -> Quadratic:
    square = rng.standard_normal((D, D))
    return Quadratic(rng.standard_normal(), rng.standard_normal(D), square + square.T)


def random_affine(rng: np.random.Generator) -> Quadratic:
    return Quadratic(rng.standard_normal(), rng.standard_normal(D), np.zeros((D, D)))


def random_waves(rng: np.random.Generator) -> Waves:
    return Waves(rng.standard_normal(6), rng.standard_normal((6, D)), rng.uniform(0, 2 * np.pi, 6))


def taylor_weights(f: Quadratic | Waves, method: FAemb | FastFAemb) -> np.ndarray:
    """w of [DC17, Sec. 3.1]: w'phi(x) = sum_j gamma_j (Taylor polynomial of f at v_j)(x).

    phi holds the upper triangle of r r' only, so an entry off the diagonal stands for two of 1/2 r'Hr.
    """
    return np.concatenate([_taylor_block(f, v, method) for v in method.anchors_])


def _taylor_block(f: Quadratic | Waves, v: np.ndarray, method: FAemb | FastFAemb) -> np.ndarray:
    constant = [f.value(v) / method.constant_scale]
    if method.order == 1:
        return np.concatenate([constant, f.gradient(v)])
    hessian = f.second(v)
    doubled = 2 * hessian - np.diag(np.diag(hessian))
    return np.concatenate([constant, f.gradient(v) / method.linear_scale, 0.5 * doubled[np.triu_indices(D)]])


def values(f: Quadratic | Waves, x: np.ndarray) -> np.ndarray:
    return np.array([f.value(p) for p in x])


def all_terms(method: type[FAemb] | type[FastFAemb], anchors: np.ndarray, **options: Any) -> FAemb | FastFAemb:
    linear_scale = 0.0 if options.get("order") == 1 else 1.9
    made = method(len(anchors), constant_scale=0.7, linear_scale=linear_scale, **options)
    made.with_anchors(anchors)
    return made


METHODS = [FAemb, FastFAemb]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mu", [1e-3, 1.0])
def test_every_quadratic_is_a_linear_function_of_phi(
    method: type, mu: float, x: np.ndarray, anchors: np.ndarray, rng: np.random.Generator
) -> None:
    embedding = all_terms(method, anchors, mu=mu)
    for f in (random_quadratic(rng) for _ in range(5)):
        linear = embedding.embed(x).dense() @ taylor_weights(f, embedding)
        np.testing.assert_allclose(linear, values(f, x), atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_project_gives_the_quadratic_without_storing_phi(
    method: type, x: np.ndarray, anchors: np.ndarray, rng: np.random.Generator
) -> None:
    embedding, f = all_terms(method, anchors), random_quadratic(rng)
    projected = embedding.embed(x).project(taylor_weights(f, embedding))
    np.testing.assert_allclose(projected, values(f, x), atol=1e-10)


def test_a_quadratic_is_linear_in_phi_with_more_anchors_than_dimensions(
    x: np.ndarray, rng: np.random.Generator
) -> None:
    embedding, f = all_terms(FastFAemb, rng.standard_normal((9, D))), random_quadratic(rng)
    linear = embedding.embed(x).dense() @ taylor_weights(f, embedding)
    np.testing.assert_allclose(linear, values(f, x), atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_every_affine_function_is_linear_in_phi_of_order_1(
    method: type, x: np.ndarray, anchors: np.ndarray, rng: np.random.Generator
) -> None:
    embedding = all_terms(method, anchors, order=1)
    for f in (random_affine(rng) for _ in range(5)):
        linear = embedding.embed(x).dense() @ taylor_weights(f, embedding)
        np.testing.assert_allclose(linear, values(f, x), atol=1e-11)


def tangents(f: Quadratic, coefficients: np.ndarray, x: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """sum_j a_j (f(v_j) + grad f . (x - v_j)), as a linear function of [a_j ; a_j (x - v_j)]_j."""
    w = np.concatenate([[f.value(v), *f.gradient(v)] for v in anchors])
    return Embedded(x, anchors, coefficients, (Constant(), Linear())).dense() @ w


@pytest.mark.parametrize("coding", [FunctionApproximation, Ridge, Nearest])
def test_codings_that_sum_to_one_reproduce_affine_functions(
    coding: Callable, x: np.ndarray, anchors: np.ndarray, rng: np.random.Generator
) -> None:
    f = random_affine(rng)
    approximated = tangents(f, coding(anchors).weights(x), x, anchors)
    np.testing.assert_allclose(approximated, values(f, x), atol=1e-11)


def test_any_coefficients_that_sum_to_one_reproduce_affine_functions(
    x: np.ndarray, anchors: np.ndarray, rng: np.random.Generator
) -> None:
    f, g = random_affine(rng), rng.standard_normal((len(x), 4))
    g[:, 0] += 1 - g.sum(axis=1)
    np.testing.assert_allclose(tangents(f, g, x, anchors), values(f, x), atol=1e-11)


def test_tlcc_that_leaves_the_constraint_out_does_not_reproduce_affine_functions(
    x: np.ndarray, anchors: np.ndarray, rng: np.random.Generator
) -> None:
    """The price of the missing constraint that [DC17, Sec. 3.3] names, and a sign that the tests above can fail."""
    f = random_affine(rng)
    error = tangents(f, Tangent(anchors).weights(x), x, anchors) - values(f, x)
    assert np.abs(error).max() > 0.1


# Bounds


def error_and_bound(f: Waves, embedding: FAemb | FastFAemb, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both sides of [DC17, Eq. 12]."""
    k, coefficients = embedding.order, embedding.coding(x).weights(x)
    lengths = np.abs(x[:, None] - embedding.anchors_).sum(axis=2)
    remainder = np.sum(np.abs(coefficients) * lengths ** (k + 1), axis=1)
    error = np.abs(embedding.embed(x).dense() @ taylor_weights(f, embedding) - values(f, x))
    return error, f.bound(k + 1) / factorial(k + 1) * remainder


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("order", [1, 2])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), spread=st.floats(0.05, 1))
def test_a_smooth_function_is_missed_by_at_most_the_bound(method: type, order: int, seed: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    embedding = all_terms(method, spread * rng.standard_normal((4, D)), order=order)
    error, bound = error_and_bound(random_waves(rng), embedding, spread * rng.standard_normal((5, D)))
    assert np.all(error <= bound + 1e-12)


def test_the_bound_shrinks_with_the_cube_of_the_spread(rng: np.random.Generator) -> None:
    """So does the error, eight times for each halving: the terms of order 2 are right, not merely bounded."""
    f, anchors, x = random_waves(rng), rng.standard_normal((4, D)), rng.standard_normal((200, D))
    scales = (0.02, 0.01)
    # mu / scale keeps the coefficients of a scaled problem (test_codings.py).
    pairs = [error_and_bound(f, all_terms(FastFAemb, s * anchors, mu=0.01 / s), s * x) for s in scales]
    (wide_error, wide_bound), (narrow_error, narrow_bound) = pairs
    np.testing.assert_allclose(wide_bound / narrow_bound, np.full(200, 8), rtol=1e-6)
    np.testing.assert_allclose(np.median(wide_error) / np.median(narrow_error), 8, rtol=0.15)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 8), spread=st.floats(0, 10))
def test_the_relaxed_bound_is_above_the_bound(seed: int, n: int, spread: float) -> None:
    """[DC17, Eq. 25] without the common M / 6, for any coefficients that sum to one."""
    rng = np.random.default_rng(seed)
    x, anchors = rng.standard_normal((10, D)), rng.standard_normal((n, D))
    g = spread * rng.standard_normal((10, n))
    g += (1 - g.sum(axis=1, keepdims=True)) / n
    cubes = np.abs(x[:, None] - anchors).sum(axis=2) ** 3
    tight = np.sum(FunctionApproximation(anchors).penalties(g) * cubes, axis=1)
    relaxed = n * np.sum(Ridge(anchors).penalties(g) * cubes, axis=1)
    assert np.all(tight <= relaxed * (1 + 1e-12))


def test_with_a_single_anchor_the_two_bounds_are_one(x: np.ndarray, anchors: np.ndarray) -> None:
    one = np.ones((len(x), 1))
    np.testing.assert_array_equal(FunctionApproximation(anchors[:1]).penalties(one), Ridge(anchors[:1]).penalties(one))
