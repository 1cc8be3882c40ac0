"""Anchors as k-means centres (scikit-learn's Lloyd with k-means++ seeding)."""

import warnings
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from faemb.arrays import Array, like, to_numpy
from faemb.errors import InputError
from faemb.runtime import Progress, silent
from faemb.runtime.threads import reported


def kmeans_anchors(
    x: Float[Array, "m d"], count: int, *, seed: int, restarts: int = 1, progress: Progress = silent
) -> Float[Array, "n d"]:
    """The best of `restarts` runs: `count` distinct centres; an error if there are fewer distinct descriptors."""
    from sklearn.exceptions import ConvergenceWarning  # here, since only fitting needs it

    samples = to_numpy(x)
    if len(samples) < count:
        raise InputError(
            f"{len(samples)} training descriptors are too few for {count} anchors; add images, or use fewer anchors"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            best = _best_run(samples, count, seed, restarts, progress)
        except ConvergenceWarning as warning:
            raise InputError(
                f"the {len(samples)} training descriptors hold only {len(np.unique(samples, axis=0))} distinct "
                f"vectors, too few for {count} anchors; add images, or use fewer anchors"
            ) from warning
    return like(best.cluster_centers_, x)


def _best_run(samples: np.ndarray, count: int, seed: int, restarts: int, progress: Progress) -> Any:
    """The run with the lowest inertia. Each run is a progress stage of unknown length: it ends on convergence."""
    from sklearn.cluster import KMeans  # here, since importing it takes a second

    random = np.random.RandomState(seed)  # one for all runs, as in scikit-learn's own restarts
    runs = []
    for run in range(1, restarts + 1):
        stage = "anchors: k-means" + (f", run {run} of {restarts}" if restarts > 1 else "")
        runs.append(reported(partial(KMeans(count, n_init=1, random_state=random).fit, samples), stage, progress))
    return min(runs, key=lambda model: model.inertia_)
