"""Verification of the candidates of a search: its speed beside OpenCV's, and how exact its transforms are.

Speed: a query and 100 candidates of 1,000 features each, photographs of flickr1500, as a collection stores them. OpenCV
matches the same descriptors by brute force, keeps what passes a ratio test and fits a homography by USAC_MAGSAC. Both
start from stored bytes and use all cores.

Exactness: Mikolajczyk's sequences, image 1 with images 2 to 6. Both estimate a transform from the same matches; the
error is the mean distance of the mapped corners of image 1 from where the known homography maps them.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from jaxtyping import Float, Int

from benchmarks import affine
from benchmarks.report import Result
from faemb.collection.packing import pack, rounded, unpack
from faemb.features import HessianAffine, LocalFeatures
from faemb.features.folders import files_below
from faemb.rerank import UPRIGHT, Judge, Matchable, Unrelated, matches, verify
from faemb.runtime.parallel import spread

CANDIDATES, FEATURES = 100, 1000
_SMALLEST_THRESHOLD = 1.0
"""Of the detector: most photographs have fewer features than wanted at its own."""
_ROUNDS = 7
_RATIO = 0.9
_TOLERANCE = 3.0
"""Of MAGSAC, in pixels."""
_RIGHT = 20.0
"""A transform whose corners are nearer than this, in pixels, is the right one."""

Homography = Float[np.ndarray, "3 3"]


def run() -> Iterator[Result]:
    folder = affine.data_folder()
    if folder is None:
        print("benchmark of verification left out: set FAEMB_DATA to a folder with flickr1500 and affine")
        return
    yield from speed(folder / "flickr1500")
    yield from exactness(folder / "affine")


def speed(photographs: Path) -> Iterator[Result]:
    """Ours and OpenCV in turns: a machine that slows down for a while slows both."""
    query, *candidates = stored(photographs, CANDIDATES + 1)
    judge, similar = Judge(Unrelated(0.0, 0.02), UPRIGHT), np.zeros(CANDIDATES)
    loads = [partial(unpack, content) for content in candidates]

    def ours() -> None:
        judge.judge(unpack(query), similar, loads)

    def theirs() -> None:
        first = unpack(query)
        for content in candidates:
            opencv_homography(first, unpack(content))

    (seconds, opencv), (cpu, opencv_cpu) = np.min(
        [(_seconds(ours), _seconds(theirs)) for _ in range(_ROUNDS)], axis=0
    ).T
    what = f"{CANDIDATES} candidates of {FEATURES:,} features"
    yield Result(f"verification of {what}", seconds, "s", "<= 1")
    yield Result(f"OpenCV, BFMatcher and USAC_MAGSAC, {what}", opencv, "s")
    yield Result("OpenCV / verification", opencv / seconds, "times", ">= 5")
    yield Result("verification, processor time of all cores", cpu, "s")
    yield Result("OpenCV, processor time of all cores", opencv_cpu, "s")


def _seconds(run: Callable[[], None]) -> tuple[float, float]:
    """On the clock and of the processor; other work on the machine disturbs the second less."""
    start, busy = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - start, time.process_time() - busy


def stored(photographs: Path, count: int) -> list[bytes]:
    """Features of the first photographs with enough of them, as a collection stores them."""
    extract = HessianAffine(max_features=FEATURES, threshold=_SMALLEST_THRESHOLD).extract
    found: list[bytes] = []
    for _, features in spread(extract, files_below(photographs)):
        if isinstance(features, LocalFeatures) and len(features) == FEATURES:
            found.append(pack(features))
        if len(found) == count:
            break
    return found


def opencv_homography(first: LocalFeatures, second: LocalFeatures) -> Homography | None:
    pairs = cv2.BFMatcher(cv2.NORM_L2).knnMatch(first.descriptors, second.descriptors, k=2)
    kept = [best for best, other in pairs if best.distance < _RATIO * other.distance]
    rows = np.array([(match.queryIdx, match.trainIdx) for match in kept], np.int64).reshape(-1, 2)
    return magsac(first, second, rows)


def magsac(first: LocalFeatures, second: LocalFeatures, rows: Int[np.ndarray, "M 2"]) -> Homography | None:
    if len(rows) < 4:
        return None
    points = first.centres[rows[:, 0]].astype(np.float64), second.centres[rows[:, 1]].astype(np.float64)
    return cv2.findHomography(*points, cv2.USAC_MAGSAC, _TOLERANCE)[0]


def exactness(folder: Path) -> Iterator[Result]:
    errors = np.array([error for sequence in affine.SEQUENCES for error in corner_errors(folder / sequence)])
    for name, error in (("verification", errors[:, 0]), ("USAC_MAGSAC", errors[:, 1])):
        right = error < _RIGHT
        yield Result(f"{name}: right transforms of {len(error)} pairs of images", float(right.sum()), "pairs")
        yield Result(f"{name}: median error at the corners", float(np.median(error[right])), "pixels")


def corner_errors(sequence: Path, *, budget: int = FEATURES) -> Iterator[tuple[float, float]]:
    """Of verification and of MAGSAC, for each pair of a sequence; infinite where there is no transform."""
    extractor = HessianAffine(max_features=budget, rotation_invariant=True)
    images = [affine.read_grey(sequence / f"img{k}.png") for k in range(1, 7)]
    first, *others = (rounded(extractor.extract(image)) for image in images)
    for k, other in enumerate(others, 2):
        truth, size = np.loadtxt(sequence / f"H1to{k}p.txt"), images[0].shape[1::-1]
        a, b = Matchable.of(first), Matchable.of(other)
        found = verify(a, b, turn=extractor.largest_turn).transform
        theirs = magsac(first, other, _rows(a, b))
        yield corner_error(found, truth, size), corner_error(theirs, truth, size)


def _rows(a: Matchable, b: Matchable) -> Int[np.ndarray, "M 2"]:
    pairs = matches(a, b)
    return np.stack([a.rows[pairs[:, 0]], b.rows[pairs[:, 1]]], axis=1)


def corner_error(found: Homography | None, truth: Homography, size: tuple[int, ...]) -> float:
    if found is None:
        return float("inf")
    width, height = size
    corners = np.array([[[0, 0]], [[width, 0]], [[width, height]], [[0, height]]], np.float64)
    mapped = [cv2.perspectiveTransform(corners, transform)[:, 0] for transform in (found, truth)]
    return float(np.linalg.norm(mapped[0] - mapped[1], axis=1).mean())
