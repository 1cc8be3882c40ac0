"""INRIA Holidays: the names of the files are the ground truth. [JDS08]

The last two digits of a name number the images of a group from 00, which is its query: for 100000.jpg, the relevant
images are 100001.jpg and 100002.jpg. The query is removed from its own ranking.

[JDS08]: Jegou, Douze and Schmid, "Hamming embedding and weak geometric consistency for large scale image search",
ECCV 2008.
"""

import re
from functools import partial

from faemb.benchmark.datasets.contents import Contents
from faemb.benchmark.datasets.dataset import Query
from faemb.benchmark.datasets.kind import STANDARD, GroundTruth, Kind
from faemb.benchmark.datasets.names import fits_by_names, require_numbered
from faemb.errors import InputError

_NAME = re.compile(r"\d{6,}")
_GROUPS = range(1000, 1500)
"""Numbers of the groups of the complete dataset."""


def read_holidays(contents: Contents) -> GroundTruth:
    require_numbered(contents, _NAME, "100000.jpg and other numbers")
    queries = _queries(contents)
    if not queries:
        raise InputError(f"{contents.folder} holds no query of Holidays with its group, as 100000.jpg with 100001.jpg")
    here = {path.stem for path in contents.images}
    missing = tuple(f"{group}00.jpg" for group in _GROUPS if f"{group}00" not in here)
    return GroundTruth(contents.images, {STANDARD: queries}, missing=missing)


def _queries(contents: Contents) -> tuple[Query, ...]:
    """Queries of groups with at least one other image."""
    groups: dict[int, list[int]] = {}
    for number, path in enumerate(contents.images):
        groups.setdefault(int(path.stem) // 100, []).append(number)
    queries = []
    for numbers in groups.values():
        first = [number for number in numbers if int(contents.images[number].stem) % 100 == 0]
        relevant = tuple(number for number in numbers if number not in first)
        if first and relevant:
            queries.append(Query(contents.images[first[0]], first[0], relevant))
    return tuple(queries)


HOLIDAYS = Kind(
    name="holidays",
    title="INRIA Holidays",
    layout="images named by number, such as 100000.jpg, in the folder or below (as in jpg/); no ground truth is needed",
    measures=("mAP",),
    query_stays=False,
    fits=partial(fits_by_names, _NAME, _queries),
    read=read_holidays,
    images=(1491,),
    queries=500,
    distractors=1_000_000,
    by_names=True,
    source="Jégou, Douze and Schmid, ECCV 2008: https://lear.inrialpes.fr/people/jegou/data.php.html",
)
