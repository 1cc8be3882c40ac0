"""Encode images with descriptors of your own: any list of (number of descriptors, d) arrays can be encoded."""

import cv2
import numpy as np

from faemb import VLAD, Encoder, Projection, Whitening
from faemb.demo import lamp_light, pictures


def describe(pixels: np.ndarray) -> np.ndarray:
    """SIFT of OpenCV, as any other extractor: one row per keypoint."""
    _, descriptors = cv2.SIFT.create(nfeatures=300).detectAndCompute(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), None)
    return descriptors


def main() -> None:
    shown = list(pictures().values())[-10:]
    encoder = Encoder(
        VLAD(8, unit_residuals=True),
        projection=Projection(32, unit_before=True),  # principal components of the descriptors
        whitening=Whitening(),
        pooling="democratic",
    )
    encoder.fit([describe(pixels) for pixels in shown])

    vectors = encoder.encode([describe(pixels) for pixels in shown])
    queries = encoder.encode([describe(lamp_light(pixels)) for pixels in shown])  # in evening light
    similarity = queries @ vectors.T  # unit-length rows: the inner product is the cosine
    found = int(np.sum(similarity.argmax(axis=1) == np.arange(len(shown))))
    print(f"{found} of {len(shown)} darkened pictures find their original")


if __name__ == "__main__":
    main()
