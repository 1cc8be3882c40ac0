"""What verification and expansion change in rankings: searches in collections that learned from their own images.

Every image of a benchmark is a query, if the ground truth names others that show the same thing; the query itself is
removed from its ranking. Features of a network have no geometry: they are ranked by vectors alone.
The collections are kept in build/calibration.
"""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import affine
from benchmarks.calibration import kept_collection
from benchmarks.report import Result
from faemb.benchmark.datasets import Dataset, open_dataset
from faemb.collection import Collection, new_model
from faemb.evaluation import Judgement, mean_average_precision
from faemb.features import CnnMap, Network
from faemb.rerank import VERIFIED
from faemb.rerank.vector_expansion import BY_VECTORS

_NETWORK = Path("models") / "squeezenet1_1_trunk.onnx"
_PREPROCESSING: dict[str, Any] = {"channels": "bgr", "mean": (103.939, 116.779, 123.68), "std": 1}
_AT_ONCE = 50
_BY_VECTORS = {"vectors": (0, "none"), **{f"vectors, {how}": (0, how) for how in BY_VECTORS}}
_VERIFIED = {"verified": (VERIFIED, "none"), "verified, results": (VERIFIED, "results")}
_GAINS = {"holidays811": {"verified": 7, "verified, results": 9}, "ukbench400": dict.fromkeys(_VERIFIED, 0)}
"""Points of mAP beyond those of the vectors."""


def run() -> Iterator[Result]:
    folder = affine.data_folder()
    if folder is None:
        print("benchmark of expansion left out: set FAEMB_DATA to a folder with holidays811, ukbench400 and models")
        return
    for name, gains in _GAINS.items():
        dataset = open_dataset(folder / name)
        with kept_collection(folder / name) as photos:
            yield from _compared(photos, dataset, name, gains)
        network = Network.open(folder / _NETWORK, **_PREPROCESSING)
        with kept_collection(folder / name, f"{name}-network", new_model(CnnMap(network))) as photos:
            yield from _compared(photos, dataset, f"{name}, network", {})


def _compared(photos: Collection, dataset: Dataset, name: str, gains: Mapping[str, float]) -> Iterator[Result]:
    number = {image.name: place for place, image in enumerate(dataset.images)}
    path = {entry.path.rpartition("/")[2]: photos.layout.path_of(entry.path) for entry in photos.entries()}
    others = {query.image.name: set(query.relevant) - {number[query.image.name]} for query in dataset.queries}
    queries = {query: photos.features(path[query]) for query in others}
    judgements, by_vectors = [Judgement(relevant) for relevant in others.values()], 0.0
    for order, (verify, expand) in {**_BY_VECTORS, **(_VERIFIED if gains else {})}.items():
        start, rankings, names = time.process_time(), [], list(queries)
        for begin in range(0, len(names), _AT_ONCE):
            some = names[begin : begin + _AT_ONCE]
            answers = photos.search_features(
                [queries[query] for query in some], top=len(number), verify=verify, expand=expand
            )
            for query, answer in zip(some, answers, strict=True):
                rankings.append([number[hit.path.name] for hit in answer.hits if hit.path.name != query])
        spent = (time.process_time() - start) / len(queries)
        score = 100 * mean_average_precision(rankings, judgements)
        by_vectors = by_vectors or score
        yield Result(f"{name}, {order}: mAP", score, "")
        yield Result(f"{name}, {order}: processor time of a search", 1e3 * spent, "ms")
        if order in gains:
            yield Result(f"{name}, {order}: gain over the vectors", score - by_vectors, "points", f">= {gains[order]}")
