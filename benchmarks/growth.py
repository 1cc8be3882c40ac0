"""What it costs to open, search and change a collection of 1,000, 10,000, 100,000 images: what grows with their number.

FAEMB_GROWTH=1000000 is the largest number of images; 100,000 if not given. Collections are written through their own
catalogue and files; the vectors are random and short, and the image files are empty, since nothing here reads them. The
image that is added, removed and changed is a picture. An update looks at every file of its folders, an exact search at
every vector, and opening for a search reads the slot and the number of every image: these may grow as the number of
images does, and no faster. All else should not grow.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import cv2
import numpy as np

from benchmarks.enlarged import Row, collection_of
from benchmarks.report import Result
from benchmarks.synthetic import synthetic_model
from faemb.collection import Collection
from faemb.collection.index_files import _VERIFIED
from faemb.collection.layout import Layout
from faemb.features import LocalFeatures
from faemb.normalise import unit_length

LARGEST = "FAEMB_GROWTH"
_DIMENSION, _REPEATS = 128, 3
_SIZES = (1000, 10_000, 100_000, 1_000_000)
_FLAT = ("open", "add an image", "remove an image", "search, index rabitq")
_LINEAR = (
    "open, and read slots and numbers",
    "search, index exact",
    "open, and search once, index rabitq",
    "update of one changed file",
)
_MOST_GROWTH = 3.0
"""Times as long with the most images as with the fewest, for what should not grow."""
_MOST_ABOVE_LINEAR = 1.5
"""The same for what grows with the images, as a multiple of their growth."""


def run() -> Iterator[Result]:
    sizes = [size for size in _SIZES if size <= int(os.environ.get(LARGEST, "100000"))]
    costs: dict[str, list[float]] = {}
    for count in sizes:
        with tempfile.TemporaryDirectory() as scratch:
            for name, seconds in measured(Path(scratch), count):
                costs.setdefault(name, []).append(seconds)
                yield Result(f"{name}, {count:,} images", 1e3 * seconds, "ms")
    span, growth = f"{sizes[-1]:,} / {sizes[0]:,} images", sizes[-1] / sizes[0]
    linear = max(_MOST_GROWTH, _MOST_ABOVE_LINEAR * growth)
    for names, words, most in ((_FLAT, "", _MOST_GROWTH), (_LINEAR, " (grows with the images)", linear)):
        for name in names:
            yield Result(f"{name}{words}: {span}", costs[name][-1] / costs[name][0], "times", f"<= {most:g}")


def measured(scratch: Path, count: int) -> Iterator[tuple[str, float]]:
    folder, new = scratch / "photographs.faemb", scratch / "new.png"
    fill(folder, scratch / "photographs", count)
    picture(new, 0)
    yield "open", median(lambda: Collection.open(folder).close())
    yield "open, and read slots and numbers", median(lambda: Collection.open(folder).view())
    with Collection.open(folder) as collection:
        adding, removing = zip(*(added_and_removed(collection, new) for _ in range(_REPEATS + 1)), strict=True)
        yield "add an image", float(np.median(adding[1:]))  # the first change counts what is in use
        yield "remove an image", float(np.median(removing[1:]))
        features = [collection.model.extractor.extract(new)]
        for index in ("exact", "rabitq"):
            collection.search_features(features, index=index, verify=0)  # makes the index
            name = f"search, index {index}"
            yield name, median(partial(collection.search_features, features, index=index, verify=0))
        yield "open, and search once, index rabitq", median(partial(first_search, folder, features))
        first = scratch / "photographs" / "0000" / "000000000.png"
        changed = (picture(first, seed) for seed in range(1, _REPEATS + 1))
        yield "update of one changed file", median(lambda: next(changed) and collection.update(jobs=1))


def added_and_removed(collection: Collection, image: Path) -> tuple[float, float]:
    return seconds(lambda: collection.add(image, jobs=1)), seconds(lambda: collection.remove(image))


def first_search(folder: Path, features: Sequence[LocalFeatures]) -> None:
    _VERIFIED.clear()  # a new process compares the index with its checksum
    with Collection.open(folder) as collection:
        collection.search_features(features, index="rabitq", verify=0)


def fill(folder: Path, images: Path, count: int) -> None:
    layout = Layout(folder)

    def row_of(number: int) -> Row:
        file = images / f"{number // 1000:04}" / f"{number:09}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        return {"path": layout.name_of(file), "bytes": 0, "changed": file.stat().st_mtime_ns}

    rng = np.random.default_rng(0)
    blocks = (
        unit_length(rng.standard_normal((min(4096, count - start), _DIMENSION), np.float32))
        for start in range(0, count, 4096)
    )
    collection_of(folder, synthetic_model(_DIMENSION), blocks, row_of)
    with Collection.open(folder) as collection, collection._catalogue.change():
        collection._catalogue.add_folder(layout.name_of(images))


def picture(path: Path, seed: int) -> Path:
    pixels = np.random.default_rng(seed).integers(0, 256, (30, 40, 3)).astype(np.uint8)
    cv2.imwrite(str(path), cv2.resize(pixels, (320, 240), interpolation=cv2.INTER_CUBIC))
    return path


def median(work: Callable[[], object]) -> float:
    return float(np.median([seconds(work) for _ in range(_REPEATS)]))


def seconds(work: Callable[[], object]) -> float:
    """Of processor time of this process: neither other programs nor the workers that read the picture count."""
    start = time.process_time()
    work()
    return time.process_time() - start
