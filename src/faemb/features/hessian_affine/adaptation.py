"""Affine adaptation: the affine shape in which a neighbourhood has isotropic gradients [Baumberg 2000].

Starting with a round window, the second-moment matrix mu of the gradients is measured in the window's own coordinates
and the window is stretched by mu^(-1/2) (scaled to keep its area), until mu is nearly a multiple of the identity twice
in succession. An oblique view of a plane then gives the same patch, up to a rotation, as a frontal view.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from faemb.features.hessian_affine.patches import disc_weights, sampled

WINDOW = 19
MAX_ANISOTROPY = 6.0
_BLOCK = 2048
_FLAT = 1e-3


def adapted(
    levels: Sequence[Float[np.ndarray, "_ _"]],
    which: Int[np.ndarray, " N"],
    centres: Float[np.ndarray, "N 2"],
    steps: Float[np.ndarray, " N"],
    *,
    iterations: int,
    convergence: float,
) -> tuple[Float[np.ndarray, "N 2 2"], Bool[np.ndarray, " N"]]:
    """Shapes of determinant 1, and which of them have converged.

    Feature i is sampled in levels[which[i]] around centres[i], with `steps[i]` pixels between samples.
    """
    shapes, converged = np.tile(np.eye(2), (len(which), 1, 1)), np.zeros(len(which), bool)
    order = np.argsort(which, kind="stable")  # groups the features of each level
    before = np.ones(len(which))
    for start in range(0, len(order), _BLOCK):
        active = order[start : start + _BLOCK]
        for _ in range(iterations):
            spread = shapes[active] * steps[active, None, None]
            moments = second_moments(sampled(levels, which[active], centres[active], spread, WINDOW))
            textured = moments[:, 0] + moments[:, 2] > _FLAT
            stretch, roundness = inverse_root(np.where(textured[:, None], moments, [1.0, 0.0, 1.0]))
            shapes[active] = shapes[active] @ stretch
            error = 1 - roundness
            done = textured & (error < convergence) & (before[active] < convergence)
            usable = textured & (anisotropy(shapes[active]) <= MAX_ANISOTROPY)
            converged[active[done & usable]] = True
            before[active] = error
            active = active[usable & ~done]
            if not len(active):
                break
    return shapes, converged


def second_moments(windows: Float[np.ndarray, "N n n"]) -> Float[np.ndarray, "N 3"]:
    """Weighted sums of gx gx, gx gy, gy gy over each window; central differences, without the outermost pixels."""
    gx = windows[:, 1:-1, 2:] - windows[:, 1:-1, :-2]
    gy = windows[:, 2:, 1:-1] - windows[:, :-2, 1:-1]
    weight = disc_weights(windows.shape[1])[1:-1, 1:-1].ravel()
    gx, gy = gx.reshape(-1, len(weight)), gy.reshape(-1, len(weight))
    return np.stack([(gx * gx) @ weight, (gx * gy) @ weight, (gy * gy) @ weight], axis=1).astype(np.float64)


def inverse_root(moments: Float[np.ndarray, "N 3"]) -> tuple[Float[np.ndarray, "N 2 2"], Float[np.ndarray, " N"]]:
    """mu^(-1/2) scaled to determinant 1, and sqrt(smallest / largest eigenvalue), which is 1 for an isotropic mu.

    For 2 x 2 matrices sqrt(mu) = (mu + sqrt(det) I) / sqrt(trace + 2 sqrt(det)); its inverse, scaled to determinant 1,
    is its adjugate up to a factor.
    """
    a, b, c = moments.T
    trace, spread = a + c, np.hypot(a - c, 2 * b)
    greatest = (trace + spread) / 2
    least = np.maximum((trace - spread) / 2, 1e-12 * trace)
    root = np.sqrt(greatest * least)
    adjugate = np.stack([c + root, -b, -b, a + root], axis=-1).reshape(-1, 2, 2)
    return adjugate / np.sqrt((trace + 2 * root) * root)[:, None, None], np.sqrt(least / greatest)


def anisotropy(shapes: Float[np.ndarray, "N 2 2"]) -> Float[np.ndarray, " N"]:
    """Ratio of the longest axis to the shortest, the singular values, from Frobenius norm and determinant."""
    squares = np.einsum("nij,nij->n", shapes, shapes)
    twice = 2 * np.abs(np.linalg.det(shapes))
    difference = np.sqrt(np.maximum(squares**2 - twice**2, 0))
    return np.sqrt((squares + difference) / np.maximum(squares - difference, 1e-30))
