"""Dominant orientations of patches: peaks of the gradient histogram [Lowe 2004, Sec. 5]."""

import cv2
import numpy as np
from jaxtyping import Float, Int

from faemb.features.hessian_affine.patches import Gradients, disc_weights

BINS = 36
PEAK = 0.8
"""Smallest height of a peak, relative to the highest, that gives a feature."""
_SMOOTHINGS = 6


def orientations(gradients: Gradients) -> tuple[Int[np.ndarray, " M"], Float[np.ndarray, " M"]]:
    """Patch indices, and angles from the x axis towards the y axis; a patch without gradients has none."""
    histogram = orientation_histograms(gradients)
    left, right = np.roll(histogram, 1, axis=1), np.roll(histogram, -1, axis=1)
    high = histogram >= PEAK * histogram.max(axis=1, keepdims=True)
    patch, peak = np.nonzero((histogram > left) & (histogram >= right) & high & (histogram > 0))
    before, at, after = (h[patch, peak] for h in (left, histogram, right))
    fraction = 0.5 * (before - after) / (before - 2 * at + after)  # vertex of the parabola through the three
    return patch, (peak + fraction) * (2 * np.pi / BINS)


def orientation_histograms(gradients: Gradients) -> Float[np.ndarray, "N 36"]:
    """Smoothed histograms of gradient orientations, weighted by magnitude and by a Gaussian around the centre."""
    count, side = gradients.x.shape[:2]
    if not count:
        return np.zeros((0, BINS))
    weight = disc_weights(side).ravel()
    inside = np.flatnonzero(weight)
    x, y = (part.reshape(count, -1)[:, inside] for part in gradients)
    magnitude, angle = cv2.cartToPolar(x, y)
    magnitude *= weight[inside]
    position = angle * np.float32(BINS / (2 * np.pi))
    lower = np.floor(position)
    share = (position - lower).ravel()
    first = (lower.astype(np.int64) % BINS + np.arange(count)[:, None] * BINS).ravel()
    second = first + 1 - BINS * (first % BINS == BINS - 1)
    flat = magnitude.ravel()
    histogram = np.bincount(first, flat * (1 - share), count * BINS) + np.bincount(second, flat * share, count * BINS)
    histogram = histogram.reshape(count, BINS)
    for _ in range(_SMOOTHINGS):
        histogram = (np.roll(histogram, 1, axis=1) + histogram + np.roll(histogram, -1, axis=1)) / 3
    return histogram
