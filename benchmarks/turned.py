"""Pictures that lie on their side, with and without `turned`: what is found, what is sure, and what it costs.

A hundred queries of holidays811 are turned by 90, 180 or 270 degrees in turn, and searched for among its 811
photographs; as many of ukbench400, some of which show a thing turned, are searched for as they are. Photographs of
flickr1500 show nothing that is in holidays811. The collections are kept in build/calibration.
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

_STRANGERS, _QUERIES, _TOP = 200, 100, 10
_AT_ONCE = 8
"""So few queries are described in this process, whose processor time is measured."""
_KINDS = {"without turned": False, "with turned": True}


def run() -> Iterator[Result]:
    folder = affine.data_folder()
    if folder is None:
        print("benchmark of turned queries left out: set FAEMB_DATA to a folder with its three data sets")
        return
    cv2.setNumThreads(1)
    strangers = sorted((folder / "flickr1500").rglob("*.jpg"))[:_STRANGERS]
    with kept_collection(folder / "ukbench400") as photos:
        yield from _found(photos, folder / "ukbench400", [0])
    with kept_collection(folder / "holidays811") as photos:
        yield from _found(photos, folder / "holidays811", [1, 2, 3])
        for kind, turned in _KINDS.items():
            sure = sum(any(map(_is_sure, hits)) for hits in _searched(photos, strangers, [0], turned=turned))
            share = 100 * sure / len(strangers)
            yield Result(f"nothing to find, {kind}: queries with an answer at {SURE:g}", share, "%", "<= 1")


def _found(photos: Collection, dataset: Path, quarters: Sequence[int]) -> Iterator[Result]:
    """The ten best results of each query besides itself, by the ground truth."""
    opened = open_dataset(dataset)
    right = {
        query.image: {opened.images[number].name for number in query.relevant} - {query.image.name}
        for query in opened.queries[:: len(opened.queries) // _QUERIES]
    }
    for kind, turned in _KINDS.items():
        name, start, pairs = f"{dataset.name}, {kind}", time.process_time(), []
        for query, hits in zip(right, _searched(photos, list(right), quarters, turned=turned), strict=True):
            others = [hit for hit in hits if hit.path.name != query.name][:_TOP]
            pairs += [(place, _is_sure(hit), hit.path.name in right[query]) for place, hit in enumerate(others)]
        place, sure, same = (np.array(column) for column in zip(*pairs, strict=True))
        yield Result(f"{name}: processor time of a search", (time.process_time() - start) / len(right) * 1e3, "ms")
        yield Result(f"{name}: first result right", float(same[place == 0].mean()), "of 1")
        yield Result(
            f"{name}: right pairs found at {SURE:g}", (same & sure).sum() / sum(map(len, right.values())), "of 1"
        )
        yield Result(f"{name}: share of right ones of {sure.sum()} pairs at {SURE:g}", float(same[sure].mean()), "of 1")


def _searched(
    photos: Collection, files: Sequence[Path], quarters: Sequence[int], *, turned: bool
) -> Iterator[list[Hit]]:
    """The best hits of each photograph, which is turned before by each of these quarter turns in turn."""
    images = (np.rot90(read_image(file).pixels, quarters[number % len(quarters)]) for number, file in enumerate(files))
    while some := list(islice(images, _AT_ONCE)):
        answers, _ = photos.search_many(
            [np.ascontiguousarray(each) for each in some], top=_TOP + 1, turned=turned, jobs=1
        )
        yield from (answer.hits for answer in answers)


def _is_sure(hit: Hit) -> bool:
    return (hit.confidence or 0) >= SURE
