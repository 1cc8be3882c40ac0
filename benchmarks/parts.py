"""Queries that are parts of stored photographs, and stored photographs that are parts of queries.

Rendered crops of flickr1500, from all of a photograph to 5 % of its area, with scale, JPEG and perspective: how often
the original is the first result, or among the first ten, by the vectors alone and after verification, with vectors of
whole images alone and with vectors of their parts (`faemb index --parts`). Queries are images, as users give them.

Small crops of a few photographs among 300. With FAEMB_PARTS_ALL=1, all crops of 100 photographs among 1,500, which
takes an hour. FAEMB_PARTS_COLLECTIONS names a folder that keeps the collections for the next run.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from benchmarks import affine
from benchmarks.rendered import Changes, view
from benchmarks.report import Result
from faemb.collection import Answer, Collection, new_model

MILD = Changes(perspective=0.08, roll=5.0, smallest=0.6, gamma=1.3, blur=0.8, hidden=0.0, quality=50)
STRONG = Changes()
_SMALL = (0.1, 0.05)
_VERIFIED, _MORE_VERIFIED = (0, 100), (300, 500)
"""Candidates that are verified; more of them for strong crops among whole images, where they might replace parts."""
_AIM = ">= 0.9"
_FEW = 5
"""So few features tell little about what they show, whatever they are compared with."""
_BOX = 0.1
"""Area of a query box."""
_REVERSE = 0.1
"""Area that a stored photograph shows of a query."""


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    photographs: int
    """In the collections."""
    queries: int
    grids: tuple[int, ...]
    """Parts along a side that a collection stores vectors of; 0: none."""
    mild: tuple[float, ...]
    """Areas of mild crops, and of strong ones."""
    strong: tuple[float, ...]
    more: bool
    """Whether more candidates than usual are verified too."""


USUAL = Extent(300, 40, (0, 3), _SMALL, _SMALL, more=False)
ALL = Extent(1500, 100, (0, 2, 3), (1.0, 0.5, 0.25, *_SMALL), (0.25, *_SMALL), more=True)


@dataclass(frozen=True, eq=False)
class Query:
    original: Path
    image: np.ndarray
    box: tuple[float, ...] | None = None


def run() -> Iterator[Result]:
    folder = affine.data_folder()
    if folder is None:
        print("benchmark of parts left out: set FAEMB_DATA to a folder with flickr1500")
        return
    extent = ALL if os.environ.get("FAEMB_PARTS_ALL") else USUAL
    photographs = sorted((folder / "flickr1500" / "jpg").glob("*.jpg"))[: extent.photographs]
    chosen = [photographs[place] for place in np.random.default_rng(12).permutation(len(photographs))[: extent.queries]]
    with _kept() as place:
        stored = {grid: place / f"parts-{grid}-of-{len(photographs)}.faemb" for grid in extent.grids}
        for grid, file in stored.items():
            with Collection.resume(file, new_model(parts=grid)) as photos:
                photos.add(photographs)
                yield from of_collection(photos, chosen, extent)
        yield from reverse(stored[0], chosen, extent)


def of_collection(photos: Collection, chosen: Sequence[Path], extent: Extent) -> Iterator[Result]:
    """Crops of the chosen photographs against the collection that holds them."""
    stored = photos.model.parts
    name = f"{stored} x {stored} parts" if stored else "whole images"
    yield Result(f"{name}: vectors", photos.info().dimension * 4e-3 * photos.model.vectors_per_image, "kB an image")
    for changes, level, areas in ((MILD, "mild", extent.mild), (STRONG, "strong", extent.strong)):
        for area in areas:
            more = _MORE_VERIFIED if extent.more and changes is STRONG and area <= 0.1 and not stored else ()
            queries = crops(chosen, changes, area)
            aim = _AIM if level == "mild" and area == 0.1 else ""
            yield from _measured(photos, queries, f"{name}, {level} crops of {100 * area:.0f} %", more=more, aim=aim)
    yield from _measured(photos, boxes(chosen), f"{name}, a box of {100 * _BOX:.0f} % in a view of the whole")


def reverse(stored: Path, chosen: Sequence[Path], extent: Extent) -> Iterator[Result]:
    """Views of whole photographs against a collection in which crops have taken the place of the chosen ones."""
    rng = np.random.default_rng(14)
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(stored, Path(scratch) / "c")
        crop_of = {path: Path(scratch) / f"{path.stem}.png" for path in chosen}
        for path, crop in crop_of.items():
            cv2.imwrite(str(crop), view(_photograph(path), rng, MILD, _REVERSE))
        with Collection.open(Path(scratch) / "c") as photos:
            photos.remove(chosen)
            photos.add(list(crop_of.values()))
            queries = [Query(crop_of[query.original], query.image) for query in crops(chosen, MILD, 1.0)]
            for parts in extent.grids:
                by = f"{parts} x {parts} parts" if parts else "all of it"
                named = f"stored crops of {100 * _REVERSE:.0f} %, query by {by}"
                yield from _measured(photos, queries, named, query_parts=parts)


def crops(chosen: Sequence[Path], changes: Changes, area: float) -> list[Query]:
    rng = np.random.default_rng(int(1000 * area))
    return [Query(path, _rgb(view(_photograph(path), rng, changes, area))) for path in chosen]


def boxes(chosen: Sequence[Path]) -> list[Query]:
    """Views of the whole photographs, of which a box selects the features."""
    rng = np.random.default_rng(13)
    queries = []
    for query in crops(chosen, MILD, 1.0):
        size = np.array(query.image.shape[1::-1])
        side = np.sqrt(_BOX) * size
        start = rng.uniform(0, 1, 2) * (size - side)
        queries.append(Query(query.original, query.image, (*start, *(start + side))))
    return queries


def _measured(
    photos: Collection,
    queries: Sequence[Query],
    name: str,
    *,
    more: tuple[int, ...] = (),
    query_parts: int = 0,
    aim: str = "",
) -> Iterator[Result]:
    """`aim` is that of the recall at 10 after verification."""
    for verify in (*_VERIFIED, *more):
        start = time.perf_counter()
        answers = [
            photos.search(query.image, top=10, box=query.box, verify=verify, query_parts=query_parts)[0]
            for query in queries
        ]
        seconds = (time.perf_counter() - start) / len(queries)
        if not verify:
            yield Result(f"{name}: features", float(np.mean([answer.features for answer in answers])), "a query")
            few = float(np.mean([answer.features < _FEW for answer in answers]))
            yield Result(f"{name}: queries with fewer than {_FEW} features", 100 * few, "%")
        for most in (1, 10):
            share = np.mean([_is_found(query, answer, most) for query, answer in zip(queries, answers, strict=True)])
            wanted = aim if most == 10 and verify else ""
            yield Result(f"{name}, verified {verify}: recall at {most}", float(share), "", wanted)
        yield Result(f"{name}, verified {verify}: time with extraction", 1000 * seconds, "ms a query")


def _is_found(query: Query, answer: Answer, most: int) -> bool:
    return query.original in [hit.path for hit in answer.hits[:most]]


def _photograph(path: Path) -> np.ndarray:
    """Its pixels, in the order of OpenCV."""
    pixels = cv2.imread(str(path))
    if pixels is None:
        raise FileNotFoundError(path)
    return np.asarray(pixels)


def _rgb(pixels: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(pixels[..., ::-1])


@contextmanager
def _kept() -> Iterator[Path]:
    """The folder of the collections: a given one, or a temporary one."""
    given = os.environ.get("FAEMB_PARTS_COLLECTIONS")
    if given:
        Path(given).mkdir(parents=True, exist_ok=True)
        yield Path(given)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            yield Path(scratch)
