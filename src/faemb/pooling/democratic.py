"""Democratic weights: exact, as a convex problem (`democratic`), and as published, by Sinkhorn iterations (`sinkhorn`).

Each descriptor i contributes the same to the similarity of the image with itself: the weights l are positive and
l_i (K l)_i = 1 for every i [DC17, Eq. 31]. They are the minimum of the strictly convex function

    F(l) = l'Kl / 2 - sum_i log l_i

found by conjugate gradients in relative steps d = step / l. The gradient is then l Kl - 1, and the Hessian L K L + I,
L = diag(l). Its diagonal 1 + l_i^2 K_ii spans three orders of magnitude in images with more descriptors than
dimensions; images that have not converged after 20 steps continue with this diagonal as preconditioner, which saves up
to nine tenths of their steps. A step needs one product with K; its line search needs none. All images of a batch take
each step together, so that their products with W'W are one matrix product; images that have converged are skipped.

F has no minimum if the descriptors surround the origin (a positive combination of them vanishes), as they can when
there are more than twice as many as dimensions: the weights then grow without bound. An image whose weights do, or
that has not converged after 105 more steps, is solved with K + ridge I instead. The ridge is 0.3 of the mean diagonal
of K; if 42 steps are not enough for that either, it is 100 times the mean diagonal, which gives nearly equal weights.
So no image needs more than 200 products with K.

B images, N descriptors each; weights of padded rows are 0.
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Bool, Float

from faemb.arrays import Array, namespace

Product = Callable[[Float[Array, "B N"]], Float[Array, "B N"]]
PerImage = Float[Array, "B 1"]

TOLERANCE = 3e-3
"""Default of the largest residual. The cosine of the result with the exact one then has five correct digits; at 0.1,
with a third of the products, two."""
_EASY = 20
"""Number of steps before the diagonal of K is estimated, which takes about as long as five products."""
_ATTEMPTS = ((0.0, 105), (0.3, 42), (100.0, 22))
"""Ridge as a fraction of the mean diagonal of K, and largest number of steps, of each attempt."""
_CANCELLATION = 50.0
_GROWTH = 1000.0
"""Largest growth of the sum of squared weights within an attempt; above it, the attempt is given up."""


class Democratic(NamedTuple):
    weights: Float[Array, "B N"]
    residual: Float[Array, " B"]
    """Root mean square of l_i ((K + ridge I) l)_i - 1 over the descriptors of each image."""
    ridge: Float[Array, " B"]
    """Number added to the diagonal of K, for each image; 0 where the original equation was solved."""


def democratic(
    times: Product,
    usable: Bool[Array, "B N"],
    *,
    diagonal: Callable[[Bool[Array, "B 1"]], Float[Array, "B N"]],
    like_x: Array,
    tolerance: float = TOLERANCE,
) -> Democratic:
    """Solve for a batch until the residual of each image is within `tolerance`, or its last attempt has ended.

    times:    the product with K
    usable:   descriptors that get a weight; the others get 0
    diagonal: gives an estimate of K_ii for the images for which its argument is true
    like_x:   an array of the precision to compute in
    """
    xp = namespace(usable)
    mask = xp.astype(usable, like_x.dtype)
    weights, residual = _descend(times, xp.zeros_like(mask), mask, _start(times, mask), tolerance, _EASY)
    ridge = xp.zeros_like(residual)
    if bool(xp.any(residual > tolerance)):
        entries = diagonal(residual > tolerance)
        mean = _sum(entries * mask) / _positive(_sum(mask))
    for share, steps in _ATTEMPTS:
        stuck = residual > tolerance
        if not bool(xp.any(stuck)):
            break
        ridge = xp.where(stuck, share * mean, ridge)
        product, part = _shifted(times, ridge), mask * xp.astype(stuck, mask.dtype)
        start = _start(product, part) if share else _best_multiple(weights * part, product(weights * part), part)
        again, left = _descend(product, entries + ridge, part, start, tolerance, steps)
        weights, residual = xp.where(stuck, again, weights), xp.where(stuck, left, residual)
    return Democratic(weights, residual[:, 0], ridge[:, 0])


def _shifted(times: Product, ridge: PerImage) -> Product:
    return lambda weights: times(weights) + ridge * weights


def _descend(
    times: Product,
    diagonal: Float[Array, "B N"],
    mask: Float[Array, "B N"],
    start: tuple[Float[Array, "B N"], Float[Array, "B N"]],
    tolerance: float,
    steps: int,
) -> tuple[Float[Array, "B N"], PerImage]:
    """Weights and residuals after at most `steps` preconditioned conjugate gradient steps [Polak, Ribiere 1969].

    `start` is weights and their product with K. The previous direction is relative to the previous weights; `growth`
    converts it to the current ones.
    """
    xp = namespace(mask)
    weights, product = start
    gradient = (weights * product - 1) * mask
    scaled = gradient / (1 + weights * weights * diagonal)
    direction = -scaled
    for _ in range(steps):
        bounded = _sum(weights * weights) < _GROWTH * _sum(start[0] * start[0])
        bounded = bounded & (_cancellation(weights, diagonal, mask) < _CANCELLATION)
        moving = (_residual(gradient, mask) > tolerance) & bounded
        if not bool(xp.any(moving)):
            break
        step = weights * direction * xp.astype(moving, mask.dtype)
        change = times(step)
        length = _line_search(weights, product, step, change, mask)
        growth = 1 + length * step / _positive(weights)
        weights, product = weights + length * step, product + length * change
        old, gradient = gradient, (weights * product - 1) * mask
        norm = _sum(old * scaled)
        scaled = gradient / (1 + weights * weights * diagonal)
        beta = _sum(scaled * (gradient - old * growth)) / _positive(norm)
        carried = xp.clip(beta, min=0) * direction / _positive(growth) - scaled
        direction = xp.where(_sum(carried * gradient) < 0, carried, -scaled)
    return weights, _residual(gradient, mask)


def _residual(gradient: Array, mask: Array) -> PerImage:
    """Root mean square over the descriptors, so that a single slow descriptor does not delay its image."""
    return namespace(gradient).sqrt(_sum(gradient * gradient) / _positive(_sum(mask)))


def _cancellation(weights: Array, diagonal: Array, mask: Array) -> PerImage:
    """The mean of l_i^2 K_ii: total squared norm of the weighted descriptors, relative to that of their sum.

    l'Kl stays equal to the number of descriptors. The mean is 1 for orthogonal descriptors, was at most 30 in all
    images whose equation was solved, and grows without bound where there is no solution.
    """
    return _sum(weights * weights * diagonal) / _positive(_sum(mask))


def _start(times: Product, mask: Array) -> tuple[Array, Array]:
    """Initial weights (the best equal ones after one damped fixed-point step l := l / sqrt(l Kl)) and their product."""
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


def sinkhorn(kernel: Float[Array, "B N N"], usable: Bool[Array, "B N"], *, iterations: int = 10) -> Float[Array, "B N"]:
    """Weights as published [JZ14]: l := l / sqrt(l * (max(K, 0) l)), repeated `iterations` times.

    Kept for comparison with published numbers. Setting negative inner products to zero changes the equation, and needs
    the N x N matrix itself.
    """
    xp = namespace(kernel)
    mask = xp.astype(usable, kernel.dtype)
    kernel = xp.clip(kernel, min=0)
    weights = mask
    for _ in range(iterations):
        product = weights * (kernel @ weights[..., None])[..., 0]
        weights = mask * weights / xp.sqrt(xp.where(product > 0, product, xp.ones_like(product)))
    return weights


def _sum(x: Array) -> PerImage:
    return namespace(x).sum(x, axis=1, keepdims=True)


def _positive(x: Array) -> Array:
    """x where it is positive, otherwise 1: a safe denominator for quotients that are then 0 or not used."""
    xp = namespace(x)
    return xp.where(x > 0, x, xp.ones_like(x))
