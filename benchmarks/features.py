"""Local features: matching, speed on one core, and memory; compared with OpenCV's SIFT, and pyhesaff if installed."""

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import mean

import cv2
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import affine
from benchmarks.report import Result
from faemb.benchmark.rows import best_seconds
from faemb.features.hessian_affine import HessianAffine
from faemb.features.hessian_affine.detector import Regions
from faemb.features.hessian_affine.patches import Source, sources
from faemb.features.image import as_image

_ROUNDS = 4


def run() -> Iterator[Result]:
    folder = affine.data_folder()
    if folder is None:
        print("benchmark of features skipped: set FAEMB_DATA to a folder that holds affine/graf and so on")
        return
    yield from quality(folder / "affine")
    yield from speed(folder / "affine")
    yield memory(folder / "affine")


def quality(folder: Path) -> Iterator[Result]:
    results = list(affine.run(folder))
    print(affine.markdown(results))
    for ours, other in (("faemb, upright", "OpenCV SIFT, upright"), ("faemb, rotation-invariant", "OpenCV SIFT")):
        correct = {
            name: {result.sequence: result.correct for result in results if result.method == name}
            for name in (ours, other)
        }
        ratio = mean(correct[ours].values()) / mean(correct[other].values())
        yield Result(f"correct matches, {ours} / {other}, mean of sequences", ratio, "times", ">= 1")
        graf = correct[ours]["graf"] / correct[other]["graf"]
        yield Result(f"correct matches, {ours} / {other}, graf", graf, "times", ">= 1.1")


def speed(folder: Path) -> Iterator[Result]:
    """1024 x 768 pixels, one core. The methods compared are timed alternately on each image."""
    photographs = [affine.read_grey(folder / name / "img1.png") for name in affine.SEQUENCES]
    images = [cv2.resize(image, (1024, 768), interpolation=cv2.INTER_CUBIC) for image in photographs]
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        with threadpool_limits(1):
            yield from _against_opencv(images)
            yield from _against_pyhesaff(images)
            yield from _stages(images)
    finally:
        cv2.setNumThreads(threads)


def _alternately(ours: Callable[[], object], other: Callable[[], object]) -> tuple[float, float]:
    pairs = [(best_seconds(ours, 1), best_seconds(other, 1)) for _ in range(_ROUNDS)]
    return min(first for first, _ in pairs), min(second for _, second in pairs)


def _against_opencv(images: list[np.ndarray]) -> Iterator[Result]:
    for budget in (1000, None):
        detector = HessianAffine(max_features=budget)
        sifts = [cv2.SIFT.create(nfeatures=len(detector.extract(image))) for image in images]
        pairs = [
            _alternately(partial(detector.extract, image), partial(sift.detectAndCompute, image, None))
            for image, sift in zip(images, sifts, strict=True)
        ]
        ours, other = (mean(times) for times in zip(*pairs, strict=True))
        which = f"{budget} features" if budget else "all features"
        yield Result(f"0.79 megapixels, one core, {which}", ours, "s")
        yield Result(f"the same / OpenCV SIFT with as many, {which}", ours / other, "times", "<= 2")


def _against_pyhesaff(images: list[np.ndarray]) -> Iterator[Result]:
    try:
        import pyhesaff
    except ImportError:
        return
    colour = [cv2.cvtColor(image, cv2.COLOR_GRAY2BGR) for image in images]
    pairs = [
        _alternately(partial(HessianAffine().extract, grey), partial(pyhesaff.detect_feats_in_image, bgr))
        for grey, bgr in zip(images, colour, strict=True)
    ]
    ours, other = (mean(times) for times in zip(*pairs, strict=True))
    yield Result("all features / pyhesaff's time", ours / other, "times", "<= 1")


def _stages(images: list[np.ndarray]) -> Iterator[Result]:
    """Shares of the time for all features."""
    detector = HessianAffine()
    spent = np.zeros(3)
    for image in images:
        grey = as_image(image, None).grey()
        size = (grey.shape[1], grey.shape[0])
        pyramid, keypoints = detector.detect(grey)
        regions = detector.regions(pyramid, keypoints, size)
        spent += [
            best_seconds(partial(detector.detect, grey), _ROUNDS),
            best_seconds(partial(detector.regions, pyramid, keypoints, size), _ROUNDS),
            best_seconds(partial(_describe, detector, sources(grey, pyramid, detector.sigma), regions), _ROUNDS),
        ]
    for name, share in zip(("detection", "adaptation", "description"), spent / spent.sum(), strict=True):
        yield Result(f"share of {name}", 100 * share, "%")


def _describe(detector: HessianAffine, images: list[Source], regions: Regions) -> None:
    for _ in detector.described(images, regions):
        pass


def memory(folder: Path) -> Result:
    """Peak memory of a new process that extracts from a mosaic of 39 megapixels without reducing it."""
    tiles = [np.asarray(cv2.imread(str(folder / name / f"img{k}.png"))) for k in (1, 2) for name in affine.SEQUENCES]
    row = np.concatenate([cv2.resize(tile, (1000, 800)) for tile in tiles[:7]], axis=1)
    mosaic = np.concatenate([np.roll(row, 1000 * k, axis=1) for k in range(7)])
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "large.jpg"
        cv2.imwrite(str(path), mosaic)
        code = (
            "import sys; from faemb.features import HessianAffine; "
            "print(len(HessianAffine(max_side=None).extract(sys.argv[1])))"
        )
        count = subprocess.run([sys.executable, "-c", code, path], check=True, capture_output=True, text=True)  # noqa: S603
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    megapixels = mosaic.shape[0] * mosaic.shape[1] / 1e6
    return Result(f"peak memory, {megapixels:.0f} megapixels, {count.stdout.strip()} features", peak, "GiB", "<= 2.79")
