"""RootSIFT: Euclidean distances between square roots are Hellinger distances between the histograms.

    r(x) = sqrt( x / |x|_1 )            |r(x)|_2 = 1            [AZ12]

[AZ12] R. Arandjelovic, A. Zisserman: Three things everyone should know to improve object retrieval. CVPR 2012.
"""

import numpy as np
from jaxtyping import Float

from faemb.errors import InputError


def root_sift(descriptors: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N d"]:
    """Each row divided by its sum, then the root of each entry; a row of zeros stays one."""
    unfit = ~((descriptors >= 0) & (descriptors < np.inf))
    if unfit.any():
        raise InputError(
            f"descriptors hold {int(unfit.sum())} values that are negative, NaN or infinite; "
            "RootSIFT is defined for SIFT's histograms as they are, before any centring or projection"
        )
    total = descriptors.sum(axis=1, keepdims=True, dtype=np.float64).astype(descriptors.dtype)
    return np.sqrt(np.divide(descriptors, total, out=np.zeros_like(descriptors), where=total > 0))
