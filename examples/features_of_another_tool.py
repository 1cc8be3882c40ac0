"""Search local features that another tool has extracted: files of them take the place of images.

From a shell: faemb index features --root-sift --out features.faemb
"""

import tempfile
from pathlib import Path

import cv2
import numpy as np

from faemb import Collection, FeatureFiles, new_model
from faemb.demo import lamp_light, pictures


def save_as_another_tool_would(pixels: np.ndarray, path: Path) -> Path:
    """SIFT of OpenCV in an .npz with `keypoints` and `descriptors`; .siftgeo, .sift and .fvecs are read too."""
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    keypoints, descriptors = cv2.SIFT.create(nfeatures=300).detectAndCompute(grey, None)
    np.savez(path, keypoints=[keypoint.pt for keypoint in keypoints], descriptors=descriptors)
    return path


def main() -> None:
    shown = dict(list(pictures().items())[-10:])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "features"
        folder.mkdir()
        files = [save_as_another_tool_would(pixels, folder / f"{name}.npz") for name, pixels in shown.items()]

        # `root` turns SIFT into RootSIFT; otherwise descriptors are used as they are stored.
        with Collection.create(Path(place) / "features.faemb", new_model(FeatureFiles.of(files, root=True))) as made:
            made.add(folder)
            name, pixels = next(iter(shown.items()))
            query = save_as_another_tool_would(lamp_light(pixels), Path(place) / "lamp.npz")  # the same by lamp light
            best = made.search(query, top=1)[0].hits[0]
            print(f"{len(made)} images, of which {name} by lamp light finds {best.path.stem}")


if __name__ == "__main__":
    main()
