"""Groups of duplicates on ukbench400, four photographs of each object: which pairs are right, how many are found."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks import affine
from benchmarks.report import Result
from faemb.collection import Collection, new_model
from faemb.collection.components import connected
from faemb.collection.duplicates import Limits, linked
from faemb.runtime import silent

_THRESHOLDS = (0.2, 0.25, 0.3, 0.4)
_PER_OBJECT = 4


def run() -> Iterator[Result]:
    folder = affine.data_folder()
    if folder is None:
        print("benchmark of duplicates left out: set FAEMB_DATA to a folder with ukbench400")
        return
    with tempfile.TemporaryDirectory() as scratch, Collection.create(Path(scratch) / "c", new_model()) as photos:
        photos.add(folder / "ukbench400" / "jpg")
        for threshold in _THRESHOLDS:
            named = f"connected components, threshold {threshold}"
            yield from _results(named, len(photos), _components(photos, threshold))
            groups = [group.paths for group in photos.duplicates(threshold, verify=False)]
            yield from _results(f"groups, threshold {threshold}", len(photos), groups)
        groups = [group.paths for group in photos.duplicates(same_thing=True)]
        yield from _results("verified groups", len(photos), groups)


def _results(named: str, images: int, groups: Sequence[Sequence[Path]]) -> Iterator[Result]:
    right = sum(_pairs(Counter(map(_object, group)).values()) for group in groups)
    yield Result(f"{named}: pairs that show one object", 100 * right / _pairs(map(len, groups)), "%")
    yield Result(f"{named}: pairs found", 100 * right / _pairs([_PER_OBJECT] * (images // _PER_OBJECT)), "%")
    yield Result(f"{named}: largest", max(map(len, groups)), "images")


def _components(photos: Collection, threshold: float) -> list[list[Path]]:
    """Groups without the rule about mean similarity; every image of ukbench400 has many features."""
    view = photos.view()
    paths = {entry.id: photos.layout.path_of(entry.path) for entry in photos.entries()}
    links = {(a, b): score for a, b, score in linked(view, view.slots < 0, Limits(threshold, threshold), None, silent)}
    places = [sorted({place for pair in component for place in pair}) for component in connected(links)]
    return [[paths[int(view.ids[place])] for place in component] for component in places]


def _pairs(sizes: Iterable[int]) -> int:
    return sum(size * (size - 1) // 2 for size in sizes)


def _object(path: Path) -> int:
    """Of ukbench00000.jpg, ukbench00001.jpg, ..."""
    return int(path.stem[-5:]) // _PER_OBJECT
