"""Read local features that another tool has extracted, and encode them."""

import tempfile
from pathlib import Path

import cv2
import numpy as np

from faemb import Encoder, FastFAemb, Projection, Whitening, read_features
from faemb.demo import pictures
from faemb.features import root_sift


def save_as_another_tool_would(pixels: np.ndarray, path: Path) -> Path:
    """SIFT of OpenCV in an .npz with `keypoints` and `descriptors`; .siftgeo, .sift and .fvecs are read too."""
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    keypoints, descriptors = cv2.SIFT.create(nfeatures=300).detectAndCompute(grey, None)
    np.savez(path, keypoints=[keypoint.pt for keypoint in keypoints], descriptors=descriptors)
    return path


def main() -> None:
    shown = list(pictures().items())[-10:]
    with tempfile.TemporaryDirectory() as folder:
        files = [save_as_another_tool_would(pixels, Path(folder) / f"{name}.npz") for name, pixels in shown]
        features = [read_features(file) for file in files]

    sets = [root_sift(image.descriptors) for image in features]  # descriptors are read as they are stored
    encoder = Encoder(FastFAemb(4, unit_residuals=True), projection=Projection(16), whitening=Whitening()).fit(sets)
    vectors = encoder.encode(sets)
    print(f"{len(vectors)} images, {sum(map(len, sets))} descriptors, vectors of {encoder.dimension} dimensions")


if __name__ == "__main__":
    main()
