"""UKBench: four images of each object, with consecutive numbers; each of them is a query. [NS06]

The N-S score is the number of an object's images among the first four results, including the query itself.

[NS06]: Nister and Stewenius, "Scalable recognition with a vocabulary tree", CVPR 2006.
"""

import re
from functools import partial
from pathlib import Path

from faemb.benchmark.datasets.contents import Contents
from faemb.benchmark.datasets.dataset import Query
from faemb.benchmark.datasets.kind import STANDARD, GroundTruth, Kind
from faemb.benchmark.datasets.names import fits_by_names, require_numbered
from faemb.errors import InputError
from faemb.evaluation import OBJECT_VIEWS

_NAME = re.compile(r"ukbench(\d{5})")
_IMAGES = 10_200


def read_ukbench(contents: Contents) -> GroundTruth:
    require_numbered(contents, _NAME, "ukbench00000.jpg and other numbers")
    queries = _queries(contents)
    if not queries:
        raise InputError(f"{contents.folder} holds no object with its four images, as ukbench00000.jpg to 00003.jpg")
    here = {_number(path) for path in contents.images}
    missing = tuple(f"ukbench{number:05}.jpg" for number in range(_IMAGES) if number not in here)
    return GroundTruth(contents.images, {STANDARD: queries}, _note(len(contents.images) - len(queries)), missing)


def _queries(contents: Contents) -> tuple[Query, ...]:
    """Queries of objects with all four images; others cannot reach a score of 4."""
    objects: dict[int, list[int]] = {}
    for number, path in enumerate(contents.images):
        objects.setdefault(_number(path) // OBJECT_VIEWS, []).append(number)
    whole = [tuple(numbers) for numbers in objects.values() if len(numbers) == OBJECT_VIEWS]
    return tuple(Query(contents.images[number], number, numbers) for numbers in whole for number in numbers)


def _note(others: int) -> str:
    return f"{others} images of objects with fewer than four images are not used as queries" if others else ""


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("ukbench"))


UKBENCH = Kind(
    name="ukbench",
    title="UKBench",
    layout="images named ukbench00000.jpg and so on, in the folder or below; no ground truth is needed",
    measures=("N-S", "mAP"),
    query_stays=True,
    fits=partial(fits_by_names, _NAME, _queries),
    read=read_ukbench,
    images=(_IMAGES,),
    queries=_IMAGES,
    by_names=True,
    source="Nistér and Stewénius, CVPR 2006: https://archive.org/details/ukbench",
)
