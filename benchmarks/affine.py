"""Matching on Mikolajczyk's sequences: photographs of one scene with known homographies.

    python -m benchmarks.affine [--budget 1000]

The features of image 1 of each sequence are matched with those of images 2 to 6 as mutual nearest neighbours (RootSIFT
for all methods). A match is correct if the homography maps its point to within 3 pixels of the matched point. Each
method keeps its `budget` strongest features per image. Reported are correct matches per pair and their share of all
matches (precision), means over the five pairs.

Methods are compared in an upright and a rotation-invariant form. OpenCV's SIFT is made upright by setting its angles to
0. pyhesaff is included if it is installed.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from faemb.features.hessian_affine import HessianAffine, root_sift

SEQUENCES = ("graf", "boat", "bikes", "leuven", "ubc")
WITHIN = 3.0
BUDGET = 1000

Points = tuple[np.ndarray, np.ndarray]
"""Centres (N, 2) and descriptors (N, 128)."""
Method = Callable[[np.ndarray, int], Points]


@dataclass(frozen=True)
class Matching:
    method: str
    sequence: str
    correct: float
    precision: float
    features: float


def data_folder() -> Path | None:
    folder = os.environ.get("FAEMB_DATA")
    return Path(folder) if folder else None


def ours(rotation_invariant: bool) -> Method:
    def run(image: np.ndarray, budget: int) -> Points:
        found = HessianAffine(max_features=budget, rotation_invariant=rotation_invariant).extract(image)
        return found.centres, found.descriptors

    return run


def opencv_sift(rotation_invariant: bool) -> Method:
    def run(image: np.ndarray, budget: int) -> Points:
        sift = cv2.SIFT.create(nfeatures=budget)
        keypoints = sift.detect(image, None)
        if not rotation_invariant:
            places = {(k.pt, k.size): k for k in keypoints}  # one keypoint per position, whatever its angles
            for keypoint in places.values():
                keypoint.angle = 0.0
            keypoints = list(places.values())
        keypoints = sorted(keypoints, key=lambda k: -k.response)[:budget]
        keypoints, descriptors = sift.compute(image, keypoints)
        return np.array([k.pt for k in keypoints], np.float32), root_sift(descriptors)

    return run


def pyhesaff_upright(image: np.ndarray, budget: int) -> Points:
    import pyhesaff

    frames, descriptors = pyhesaff.detect_feats_in_image(cv2.cvtColor(image, cv2.COLOR_GRAY2BGR))
    # It returns no responses to choose the strongest by, so the threshold is raised until the budget is met.
    threshold = pyhesaff.get_hesaff_default_params()["threshold"]
    while len(frames) > budget:
        threshold *= 1.05
        frames, descriptors = pyhesaff.detect_feats_in_image(
            cv2.cvtColor(image, cv2.COLOR_GRAY2BGR), threshold=threshold
        )
    return frames[:, :2], root_sift(descriptors.astype(np.float32))


def methods() -> dict[str, Method]:
    known: dict[str, Method] = {
        "faemb, upright": ours(False),
        "OpenCV SIFT, upright": opencv_sift(False),
        "faemb, rotation-invariant": ours(True),
        "OpenCV SIFT": opencv_sift(True),
    }
    try:
        import pyhesaff  # noqa: F401
    except ImportError:
        return known
    return known | {"pyhesaff, upright": pyhesaff_upright}


def mutual_neighbours(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    similarity = first @ second.T
    forth, back = similarity.argmax(axis=1), similarity.argmax(axis=0)
    rows = np.flatnonzero(back[forth] == np.arange(len(first)))
    return rows, forth[rows]


def correct(first: Points, second: Points, homography: np.ndarray) -> tuple[int, int]:
    """Correct matches, and all matches."""
    rows, columns = mutual_neighbours(first[1], second[1])
    expected = cv2.perspectiveTransform(first[0][rows, None].astype(np.float64), homography)[:, 0]
    return int((np.linalg.norm(expected - second[0][columns], axis=1) < WITHIN).sum()), len(rows)


def read_grey(path: Path) -> np.ndarray:
    return np.asarray(cv2.imread(str(path), cv2.IMREAD_GRAYSCALE))


def matching(folder: Path, sequence: str, name: str, method: Method, budget: int) -> Matching:
    images = [read_grey(folder / sequence / f"img{k}.png") for k in range(1, 7)]
    features = [method(image, budget) for image in images]
    pairs = [
        correct(features[0], features[k - 1], np.loadtxt(folder / sequence / f"H1to{k}p.txt")) for k in range(2, 7)
    ]
    right, precision = zip(*((good, good / max(total, 1)) for good, total in pairs), strict=True)
    count = float(np.mean([len(places) for places, _ in features]))
    return Matching(name, sequence, float(np.mean(right)), float(np.mean(precision)), count)


def run(folder: Path, budget: int = BUDGET) -> Iterator[Matching]:
    for name, method in methods().items():
        for sequence in SEQUENCES:
            yield matching(folder, sequence, name, method, budget)


def markdown(results: list[Matching]) -> str:
    """One row per method, one column per sequence: correct matches, and precision in percent."""
    lines = ["| method | " + " | ".join(SEQUENCES) + " | mean |", "|---" * (len(SEQUENCES) + 2) + "|"]
    for name in dict.fromkeys(result.method for result in results):
        row = [result for result in results if result.method == name]
        cells = [f"{result.correct:.0f} ({100 * result.precision:.0f} %)" for result in row]
        mean = np.mean([(result.correct, 100 * result.precision) for result in row], axis=0)
        lines.append(f"| {name} | " + " | ".join(cells) + f" | **{mean[0]:.0f}** ({mean[1]:.0f} %) |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=int, default=BUDGET)
    options = parser.parse_args()
    folder = data_folder()
    if folder is None:
        parser.exit(2, "set FAEMB_DATA to a folder that holds affine/graf, affine/boat, ...\n")
    print(markdown(list(run(folder / "affine", options.budget))))


if __name__ == "__main__":
    main()
