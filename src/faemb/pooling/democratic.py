"""Exact democratic weights as a convex problem, by matrix-vector products only.

Democracy asks for positive weights with l_i (K l)_i = 1 for every descriptor i [DC17, Eq. 31]: each contributes the
same to the similarity of the image with itself. That is the stationary point of the strictly convex

    F(l) = l'Kl / 2 - sum_i log l_i

found by conjugate gradients in relative steps d = step / l: there the gradient is l Kl - 1 itself, and the Hessian
L K L + I is well conditioned. A step needs one product with K, and its best length none. The images of a batch advance
in lockstep, so that their products with W'W are one matrix product; an image that has converged stands still.

F has no minimum if the descriptors surround the origin (a positive combination of them vanishes), as they can when
there are more than twice as many as dimensions. Such an image is solved with K + ridge I instead, a democracy in which
each descriptor speaks a little for itself; the ridge is 0.3 of K's mean diagonal.

B images, N descriptors each; weights of padded rows are 0.
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Bool, Float

from faemb.arrays import Array, namespace
from faemb.pooling.diagonal import mean_diagonal

Product = Callable[[Float[Array, "B N"]], Float[Array, "B N"]]
PerImage = Float[Array, "B 1"]

TOLERANCE = 3e-3
"""Vectors then agree with the solution to five digits of their cosine; at 0.1, in a third of the products, to two."""
_PATIENCE = 40
_CANCELLATION = 100.0
_RIDGE = 0.3


class Democratic(NamedTuple):
    weights: Float[Array, "B N"]
    residual: Float[Array, " B"]
    """Per image the root mean square of l_i ((K + ridge I) l)_i - 1 over its descriptors."""
    ridge: Float[Array, " B"]
    """Per image what was added to the diagonal of K; 0 where the equation was solved as printed."""


def democratic(
    times: Product,
    votes: Bool[Array, "B N"],
    *,
    like_x: Array,
    tolerance: float = TOLERANCE,
    steps: int = 600,
) -> Democratic:
    """Solve for a batch until the residual is within `tolerance`.

    Descriptors without a vote get weight 0; `like_x` gives the precision.
    """
    xp = namespace(votes)
    mask = xp.astype(votes, like_x.dtype)
    zero = xp.zeros_like(mask[:, :1])
    state = _descend(times, mask, tolerance, steps)
    stuck = state.residual > tolerance
    if not bool(xp.any(stuck)):
        return Democratic(state.weights, state.residual, zero[:, 0])
    ridge = xp.where(stuck[:, None], _RIDGE * mean_diagonal(times, mask), zero)
    again = _descend(lambda w: times(w) + ridge * w, mask, tolerance, steps)
    weights = xp.where(stuck[:, None], again.weights, state.weights)
    return Democratic(weights, xp.where(stuck, again.residual, state.residual), ridge[:, 0])


class _State(NamedTuple):
    weights: Array
    residual: Array


def _descend(times: Product, mask: Array, tolerance: float, steps: int) -> _State:
    """Polak and Ribiere's conjugate gradients; old directions are carried along in relative terms as l changes."""
    xp = namespace(mask)
    weights, product = _start(times, mask)
    gradient = (weights * product - 1) * mask
    direction = -gradient
    diagonal = xp.zeros_like(mask[:, :1])
    for step_number in range(steps):
        if step_number == _PATIENCE:
            diagonal = mean_diagonal(times, mask)
        moving = (_missed(gradient, mask) > tolerance) & _solvable(weights, diagonal)
        if not bool(xp.any(moving)):
            break
        step = weights * direction * xp.astype(moving, mask.dtype)
        change = times(step)
        length = _line_search(weights, product, step, change, mask)
        old, before = weights, gradient
        weights, product = weights + length * step, product + length * change
        gradient = (weights * product - 1) * mask
        direction = _conjugate(gradient, before, direction, weights / _positive(old))
    return _State(weights, _missed(gradient, mask)[:, 0])


def _missed(gradient: Array, mask: Array) -> PerImage:
    """The root mean square of what contributions miss; one descriptor that is late does not keep the others."""
    return namespace(gradient).sqrt(_sum(gradient * gradient) / _positive(_sum(mask)))


def _solvable(weights: Array, diagonal: PerImage) -> Bool[Array, "B 1"]:
    """Images that do not show that they have no solution.

    l'Kl is the number of descriptors throughout. Where they surround the origin their vectors cancel, and the weights
    grow without bound: a mean of l_i^2 K_ii, which is about 1 otherwise, of a hundred tells.
    """
    xp = namespace(weights)
    voters = _positive(_sum(xp.astype(weights > 0, weights.dtype)))
    return _sum(weights * weights) * diagonal / voters < _CANCELLATION


def _conjugate(gradient: Array, before: Array, direction: Array, growth: Array) -> Array:
    """-gradient + beta * old direction, or -gradient alone where that would not descend."""
    xp = namespace(gradient)
    beta = _sum(gradient * (gradient - before * growth)) / _positive(_sum(before * before))
    carried = direction / _positive(growth)
    new = xp.clip(beta, min=0) * carried - gradient
    return xp.where(_sum(new * gradient) < 0, new, -gradient)


def _start(times: Product, mask: Array) -> tuple[Array, Array]:
    """The best equal weights, then one damped fixed-point step l := l / sqrt(l Kl)."""
    xp = namespace(mask)
    weights, product = _best_multiple(mask, times(mask), mask)
    contribution = xp.clip(weights * product, min=0.0625, max=9)
    weights = weights / xp.sqrt(contribution)
    return _best_multiple(weights, times(weights), mask)


def _best_multiple(weights: Array, product: Array, mask: Array) -> tuple[Array, Array]:
    """The minimum of F along the ray through `weights`, where l'Kl is the number of descriptors."""
    xp = namespace(weights)
    scale = xp.sqrt(_sum(mask) / _positive(_sum(weights * product)))
    return weights * scale, product * scale


def _line_search(weights: Array, product: Array, step: Array, change: Array, mask: Array) -> PerImage:
    """Minimise t -> F(weights + t step) by Newton's method, inside the positive orthant; no product with K."""
    xp = namespace(weights)
    quadratic, linear = _sum(step * change), _sum(step * product)
    shrinking = step < 0
    reach = xp.where(shrinking, -weights / xp.where(shrinking, step, -xp.ones_like(step)), xp.full_like(step, xp.inf))
    largest = xp.min(reach, axis=1, keepdims=True)
    t = xp.minimum(0.9 * largest, xp.ones_like(largest))
    for _ in range(8):
        ratio = mask * step / xp.where(mask > 0, weights + t * step, xp.ones_like(step))
        slope = linear + t * quadratic - _sum(ratio)
        new = t - slope / _positive(quadratic + _sum(ratio * ratio))
        t = xp.minimum(xp.minimum(xp.maximum(new, 0.1 * t), 4 * t), 0.99 * largest)
    return t


def _sum(x: Array) -> PerImage:
    return namespace(x).sum(x, axis=1, keepdims=True)


def _positive(x: Array) -> Array:
    """x where it is positive, else 1: the quotient it divides is then 0 or of no consequence."""
    xp = namespace(x)
    return xp.where(x > 0, x, xp.ones_like(x))
