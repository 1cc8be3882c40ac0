"""Queries that lie on their side, with and without `turned`: what is found, what is sure, and what it costs.

Each query of holidays811 is turned by 90, 180 or 270 degrees in turn, and searched for among the 811 photographs but
itself. Photographs of flickr1500 show nothing that is there. The collection is kept in build/calibration.
"""

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import cv2
import numpy as np

from benchmarks import affine
from benchmarks.calibration import kept_collection
from benchmarks.report import Result
from faemb.benchmark.datasets import open_dataset
from faemb.collection import Collection, Hit
from faemb.features.image import read_image
from faemb.rerank import SURE

_STRANGERS = 400


def run() -> Iterator[Result]:
    folder = affine.data_folder()
    if folder is None:
        print("benchmark of turned queries left out: set FAEMB_DATA to a folder with holidays811 and flickr1500")
        return
    dataset = open_dataset(folder / "holidays811")
    right = {query.image: {dataset.images[number].name for number in query.relevant} for query in dataset.queries}
    strangers = sorted((folder / "flickr1500").rglob("*.jpg"))[:_STRANGERS]
    cv2.setNumThreads(1)
    with kept_collection(folder / "holidays811") as photos:
        for turned in (False, True):
            kind = "with turned" if turned else "without"
            yield from _found(photos, right, kind, turned=turned)
            sure = sum(_is_sure(hits[:1]) for hits in _searched(photos, strangers, turned=turned))
            yield Result(
                f"nothing to find, {kind}: queries with an answer at {SURE:g}", 100 * sure / len(strangers), "%"
            )


def _found(photos: Collection, right: dict[Path, set[str]], kind: str, *, turned: bool) -> Iterator[Result]:
    start, pairs = time.process_time(), []
    for query, hits in zip(right, _searched(photos, list(right), turned=turned), strict=True):
        others = [hit for hit in hits if hit.path.name != query.name]
        pairs += [(place, hit, hit.path.name in right[query]) for place, hit in enumerate(others)]
    yield Result(f"turned queries, {kind}: processor time", (time.process_time() - start) / len(right) * 1e3, "ms")
    first = [same for place, _, same in pairs if place == 0]
    yield Result(f"turned queries, {kind}: first result right", float(np.mean(first)), "of 1")
    sure = [same for _, hit, same in pairs if _is_sure([hit])]
    yield Result(f"turned queries, {kind}: pairs at {SURE:g} or more", len(sure), "")
    if sure:
        yield Result(f"turned queries, {kind}: share of right ones among them", float(np.mean(sure)), "of 1")


def _searched(photos: Collection, files: Sequence[Path], *, turned: bool) -> Iterator[list[Hit]]:
    """The best hits of each photograph, which is turned before."""
    images = (np.rot90(read_image(file).pixels, 1 + number % 3) for number, file in enumerate(files))
    while some := list(islice(images, 20)):
        answers, _ = photos.search_many([np.ascontiguousarray(each) for each in some], top=11, turned=turned, jobs=1)
        yield from (answer.hits for answer in answers)


def _is_sure(hits: Sequence[Hit]) -> bool:
    return any((hit.confidence or 0) >= SURE for hit in hits)
