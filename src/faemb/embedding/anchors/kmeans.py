"""Anchors as k-means centres (scikit-learn's Lloyd with k-means++ seeding)."""

import warnings

import numpy as np
from jaxtyping import Float

from faemb.arrays import Array, like, to_numpy
from faemb.errors import InputError


def kmeans_anchors(x: Float[Array, "m d"], count: int, *, seed: int, restarts: int = 1) -> Float[Array, "n d"]:
    """The best of `restarts` runs: `count` distinct centres; an error if there are fewer distinct descriptors."""
    from sklearn.cluster import KMeans  # here, since only fitting needs it and importing it takes a second
    from sklearn.exceptions import ConvergenceWarning

    samples = to_numpy(x)
    if len(samples) < count:
        raise InputError(
            f"{len(samples)} training descriptors cannot place {count} anchors; give more, or ask for fewer"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            model = KMeans(count, n_init=restarts, random_state=seed).fit(samples)
        except ConvergenceWarning as warning:
            raise InputError(
                f"the {len(samples)} training descriptors hold only {len(np.unique(samples, axis=0))} distinct "
                f"vectors, too few for {count} anchors; add images, or ask for fewer anchors"
            ) from warning
    return like(model.cluster_centers_, x)
