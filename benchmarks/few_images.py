"""Which size of encoder suits a collection of few images: mAP where each part of a dataset teaches its own encoder.

The sizes of `presets.SIZES` were chosen on holidays811; ukbench400 checks them on other photographs.
Learning takes minutes on a CPU; a GPU is used if PyTorch sees one.
"""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import product

import numpy as np

from benchmarks import affine
from benchmarks.report import Result
from faemb import Encoder, HessianAffine, preset
from faemb.benchmark.datasets import Dataset, open_dataset
from faemb.collection.model import MAX_FEATURES, learning_sample
from faemb.collection.packing import rounded
from faemb.evaluation import average_precision
from faemb.runtime.parallel import spread

_SIZES = ((8, 32, 264), (8, 32, 0), (7, 32, 0), (4, 32, 0), (4, 24, 0), (1, 24, 0))
"""Anchors, dimensions of the descriptors, and leading components discarded."""
_IMAGES = {
    "holidays811": {12: 25, 20: 14, 60: 13, 120: 6, 300: 2, 811: 1},
    "ukbench400": {12: 25, 20: 14, 60: 6, 120: 3, 300: 1, 400: 1},
}
"""By dataset: images of a part, and number of parts."""


def run() -> Iterator[Result]:
    folder = affine.data_folder()
    if folder is None:
        print("benchmark of few images left out: set FAEMB_DATA to a folder with holidays811 and ukbench400")
        return
    for name in _IMAGES:
        yield from _on(name, open_dataset(folder / name))


def _on(name: str, dataset: Dataset) -> Iterator[Result]:
    sets = _descriptors(dataset)
    for (images, parts), (anchors, dimension, discard) in product(_IMAGES[name].items(), _SIZES):
        scores = [
            score
            for part in range(parts)
            for score in _scores(
                dataset, sets, range(part * images, (part + 1) * images), _encoder(anchors, dimension, discard)
            )
        ]
        size = f"{anchors} anchors, {dimension} dimensions, {discard} discarded"
        mean = 100 * float(np.mean(scores))
        yield Result(f"{name}: {images} images, {len(scores)} queries, {size}", mean, "% mAP")


def _descriptors(dataset: Dataset) -> list[np.ndarray]:
    extract = HessianAffine(max_features=MAX_FEATURES).extract
    found = {path: result for path, result in spread(extract, dataset.images) if not isinstance(result, Exception)}
    return [rounded(found[path]).descriptors for path in dataset.images]  # as a collection stores them


def _encoder(anchors: int, dimension: int, discard: int) -> Encoder:
    encoder = preset("small", tolerance=0.1, device=_device())
    return encoder.set_params(embedding__n_anchors=anchors, projection__dimension=dimension, whitening__discard=discard)


def _device() -> str:
    if find_spec("torch") is None:
        return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _scores(dataset: Dataset, sets: Sequence[np.ndarray], part: range, encoder: Encoder) -> Iterator[float]:
    """Average precision of each query whose companions are in the part, among the images of the part."""
    own = [sets[number] for number in part]
    vectors = encoder.fit(learning_sample(own, np.random.default_rng(0))).encode(own)
    for query in dataset.queries:
        relevant = [number - part.start for number in query.relevant if number in part]
        if query.number is not None and query.number in part and relevant:
            place = query.number - part.start
            ranking = np.argsort(-vectors @ vectors[place], kind="stable")
            yield average_precision(ranking[ranking != place], relevant)
