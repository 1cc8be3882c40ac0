"""Anchors as the means of a Gaussian mixture with diagonal covariances (scikit-learn's EM, seeded by k-means)."""

import warnings
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from faemb.arrays import Array, like, to_numpy
from faemb.embedding.anchors.kmeans import kmeans_anchors
from faemb.runtime import UNKNOWN, Progress, silent
from faemb.runtime.threads import interruptible

_MOST, _AT_ONCE = 200, 10
"""Largest number of iterations, and number of iterations between two reports of progress."""
_STAGE = "anchors: mixture"


class Mixture(NamedTuple):
    means: Float[Array, "n d"]
    priors: Float[Array, " n"]
    deviations: Float[Array, "n d"]


def gaussian_mixture(x: Float[Array, "m d"], count: int, *, seed: int, progress: Progress = silent) -> Mixture:
    """Fit a mixture; every variance is raised by a thousandth of the data's mean variance, so that none is 0."""
    from sklearn.exceptions import ConvergenceWarning  # here, since only fitting needs it
    from sklearn.mixture import GaussianMixture

    start = to_numpy(kmeans_anchors(x, count, seed=seed, progress=progress)).astype(np.float64)
    samples = to_numpy(x).astype(np.float64)
    floor = max(1e-3 * float(samples.var(axis=0).mean()), 1e-30)
    model = GaussianMixture(
        count,
        covariance_type="diag",
        means_init=start,
        reg_covar=floor,
        max_iter=_AT_ONCE,
        random_state=seed,
        warm_start=True,  # each call of fit continues the one before
    )
    done = 0
    with warnings.catch_warnings():
        # A mixture that has not converged after the last iteration is usable: each iteration improves the likelihood.
        warnings.simplefilter("ignore", ConvergenceWarning)
        while done < _MOST and not getattr(model, "converged_", False):
            waiting = partial(progress, _STAGE, done, UNKNOWN)
            waiting()
            interruptible(partial(model.fit, samples), waiting)
            done += model.n_iter_
    progress(_STAGE, done, done)
    return Mixture(like(model.means_, x), like(model.weights_, x), like(np.sqrt(model.covariances_), x))
