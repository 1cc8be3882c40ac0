"""Anchors learned for the coding that will use them [DC17, Algorithm 1].

    Q(G, V) = 1/m sum_i [ 1/2 |x_i - V'g_i|^2 + mu/2 sum_j p_ij |x_i - v_j|_1^(k+1) ]

with p_ij = |g_ij| for FAemb [DC17, Eq. 19] and |g_i|^2 for F-FAemb [DC17, Eq. 27]. Each iteration computes the optimal
coefficients G for the anchors V, then takes a few trust-region steps on V for these coefficients. Neither half-step can
increase Q.

m descriptors, d dimensions, n anchors (rows of V). NumPy in float64: SciPy's optimiser runs on the host.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from faemb.runtime import Progress, silent

_ROWS = 2048
_SMOOTHING = 0.1
_STAGE = "anchors: alternating"


@runtime_checkable
class PenalisedCoding(Protocol):
    @property
    def mu(self) -> float: ...

    @property
    def order(self) -> int: ...

    def weights(self, x: np.ndarray) -> np.ndarray: ...

    def penalties(self, g: np.ndarray) -> np.ndarray: ...


class LearnedAnchors(NamedTuple):
    anchors: Float[np.ndarray, "n d"]
    history: list[float]
    """Q after each half-step: coefficients, anchors, coefficients, ... Never increasing."""


def learn_anchors(
    x: Float[np.ndarray, "m d"],
    initial: Float[np.ndarray, "n d"],
    coding: Callable[[np.ndarray], PenalisedCoding],
    *,
    iterations: int = 20,
    tolerance: float = 1e-4,
    steps: int = 10,
    progress: Progress = silent,
) -> LearnedAnchors:
    """Iterate until Q falls by less than the fraction `tolerance`, at most `iterations` times.

    `steps` is the largest number of trust-region steps per iteration.
    """
    x, anchors = np.asarray(x, np.float64), np.asarray(initial, np.float64)
    history: list[float] = []
    for iteration in range(iterations):
        progress(_STAGE, iteration, iterations)
        model = coding(anchors)
        coefficients = model.weights(x)
        problem = AnchorProblem(x, coefficients, model.penalties(coefficients), model.mu, model.order)
        before = problem.value(anchors)
        anchors, after = _descend(problem, anchors, steps)
        history += [before, after]
        if len(history) > 2 and history[-3] - after <= tolerance * after:
            break
    progress(_STAGE, len(history) // 2, len(history) // 2)  # it may have converged before the last iteration
    return LearnedAnchors(anchors, history)


def _descend(problem: "AnchorProblem", anchors: np.ndarray, steps: int) -> tuple[np.ndarray, float]:
    """At most `steps` trust-region steps, each of which lowers the objective."""
    from scipy.optimize import minimize  # here, since importing it takes a third of a second

    shape = anchors.shape
    result = minimize(
        lambda v: problem.value(v.reshape(shape)),
        anchors.ravel(),
        jac=lambda v: problem.gradient(v.reshape(shape)).ravel(),
        hessp=lambda v, p: problem.curvature(v.reshape(shape), p.reshape(shape)).ravel(),
        method="trust-ncg",
        # With the initial radius, one step can move every anchor by about a tenth of the data's standard deviation.
        options={"maxiter": steps, "initial_trust_radius": problem.radius, "max_trust_radius": 10 * problem.radius},
    )
    return result.x.reshape(shape), float(result.fun)


@dataclass(eq=False)
class AnchorProblem:
    """Q as a function of the anchors alone: value, gradient, and products with a model of its Hessian."""

    x: Float[np.ndarray, "m d"]
    coefficients: Float[np.ndarray, "m n"]
    penalties: Float[np.ndarray, "m n"]
    mu: float
    order: int
    _remembered: tuple[np.ndarray, np.ndarray] | None = field(default=None, init=False)

    def value(self, v: Float[np.ndarray, "n d"]) -> float:
        total = 0.0
        for rows in self._parts:
            x = self.x[rows]
            error = x - self.coefficients[rows] @ v
            lengths = np.stack([np.abs(x - anchor).sum(1) for anchor in v], axis=1)
            bound = np.sum(self.penalties[rows] * lengths ** (self.order + 1))
            total += 0.5 * float(np.sum(error * error) + self.mu * bound)
        return total / len(self.x)

    def gradient(self, v: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """-G'(x - G V) from the reconstruction, -mu/2 (k+1) p |r|_1^k sign(r) from the bound."""
        fit = self.coefficients.T @ (self.coefficients @ v - self.x)
        bound = np.zeros_like(v)
        for rows in self._parts:
            for j, anchor in enumerate(v):
                r = self.x[rows] - anchor
                bound[j] += (self.penalties[rows, j] * np.abs(r).sum(1) ** self.order) @ np.sign(r)
        return (fit - 0.5 * self.mu * (self.order + 1) * bound) / len(self.x)

    def curvature(self, v: Float[np.ndarray, "n d"], step: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """The Hessian times `step`."""
        blocks = self._bound_hessian(v)
        return self._fit_hessian @ step + (blocks @ step[..., None])[..., 0]

    @cached_property
    def _parts(self) -> list[slice]:
        """Blocks of rows, so small that temporaries stay in the cache."""
        return [slice(start, start + _ROWS) for start in range(0, len(self.x), _ROWS)]

    @cached_property
    def radius(self) -> float:
        return 0.1 * float(np.sqrt(self.x.var(axis=0).sum() * self.coefficients.shape[1]))

    @cached_property
    def _fit_hessian(self) -> Float[np.ndarray, "n n"]:
        return self.coefficients.T @ self.coefficients / len(self.x)

    @cached_property
    def _half_width(self) -> Float[np.ndarray, " d"]:
        return np.maximum(_SMOOTHING * self.x.std(axis=0), np.finfo(np.float64).tiny)

    def _bound_hessian(self, v: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d d"]:
        """One d x d block per anchor, cached for further products at the same anchors.

        Where no coordinate of r is zero the second derivative is k (k+1) |r|_1^(k-1) sign sign'. The kinks of the
        l1 norm add the density of the data at the anchor, which is most of the curvature: it is estimated by counting
        data in a window of a tenth of their standard deviation.
        """
        if self._remembered is None or not np.array_equal(self._remembered[0], v):
            self._remembered = v.copy(), np.stack([self._block(j, anchor) for j, anchor in enumerate(v)])
        return self._remembered[1]

    def _block(self, j: int, anchor: Float[np.ndarray, " d"]) -> Float[np.ndarray, "d d"]:
        d, k = len(anchor), self.order
        block = np.zeros((d, d))
        for rows in self._parts:
            r = self.x[rows] - anchor
            length, penalty = np.abs(r).sum(1), self.penalties[rows, j]
            signs = np.sign(r)
            block += (signs * (k * penalty * length ** (k - 1))[:, None]).T @ signs
            near = (np.abs(r) < self._half_width) / self._half_width
            block[np.arange(d), np.arange(d)] += (penalty * length**k) @ near
        return 0.5 * self.mu * (k + 1) * block / len(self.x)
