"""Copies among other pictures: edits of photographs, and photographs of one thing that are no copies.

The limits that make a copy were chosen by edits of some photographs. Half of those that are edited here are among them;
the other half is held out: nothing was chosen by it.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import cv2
import numpy as np

from benchmarks import affine
from benchmarks.edits import EDITS, small_part
from benchmarks.report import Result
from faemb.collection import Collection, new_model

_EDITED = 50
"""Photographs of each half."""
_SEED = 7
_SEEN = 150
"""The first photographs, in the order of the seed: those that the limits were chosen by."""
_QUALITY = 85
_MARK = "~"
"""Separates the name of the original from the number of the edit."""

THINGS: dict[str, Callable[[str], str]] = {
    "ukbench400": lambda stem: str(int(stem[-5:]) // 4),
    "holidays811": lambda stem: stem[:4],
}
"""What a photograph of each dataset shows, by the name of its file."""


def run() -> Iterator[Result]:
    folder = affine.data_folder()
    if folder is None:
        print("benchmark of copies left out: set FAEMB_DATA to a folder with flickr1500, ukbench400 and holidays811")
        return
    with tempfile.TemporaryDirectory() as scratch:
        halves = render(folder / "flickr1500" / "jpg", Path(scratch) / "edits")
        with Collection.create(Path(scratch) / "c", new_model()) as photos:
            photos.add([folder / "flickr1500" / "jpg", Path(scratch) / "edits"])
            yield from measured(photos, halves)
    for name in THINGS:
        with tempfile.TemporaryDirectory() as scratch, Collection.create(Path(scratch) / "c", new_model()) as photos:
            photos.add(folder / name / "jpg")
            yield from other_photographs(photos, name)
            originals = small_parts(folder / name / "jpg", Path(scratch) / "parts")
            photos.add(Path(scratch) / "parts")
            yield from parts_and_photographs(photos, name, originals)


def render(photographs: Path, out: Path) -> dict[str, set[str]]:
    """Every edit of some of the photographs, as JPEG files; the names of the originals of each half."""
    out.mkdir()
    files = sorted(photographs.iterdir())
    order = np.random.default_rng(_SEED).permutation(len(files)).tolist()
    halves = {"known": range(_EDITED), "held out": range(_SEEN, min(_SEEN + _EDITED, len(files)))}
    for number in (number for numbers in halves.values() for number in numbers):
        pixels = np.asarray(cv2.imread(str(files[order[number]])))
        for kind, edit in enumerate(EDITS.values()):
            shown = edit(pixels, np.random.default_rng([number, kind]))
            path = out / f"{files[order[number]].stem}{_MARK}{kind}.jpg"
            cv2.imwrite(str(path), shown, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return {name: {files[order[number]].stem for number in numbers} for name, numbers in halves.items()}


def measured(photos: Collection, halves: Mapping[str, set[str]]) -> Iterator[Result]:
    """Copies that are found, and pairs of the groups that are copies."""
    for mirrored in (False, True):
        start = time.perf_counter()
        groups = [[path.stem for path in group.paths] for group in photos.duplicates(mirrored=mirrored)]
        seconds = time.perf_counter() - start
        name = "with --mirrored" if mirrored else "copies"
        for half, originals in halves.items():
            yield from found_and_right(groups, f"{name}, {half}", originals, mirrored=mirrored)
        yield Result(f"{name}: time for {len(photos)} images", seconds, "s")


def found_and_right(
    groups: Sequence[Sequence[str]], name: str, originals: set[str], *, mirrored: bool
) -> Iterator[Result]:
    """`groups` are names of files without their suffix; mirrored copies count where they were asked for."""
    pairs = {tuple(sorted(pair)) for group in groups for pair in combinations(group, 2)}
    pairs = {pair for pair in pairs if any(_MARK in each and _original(each) in originals for each in pair)}
    found = np.zeros(len(EDITS))
    for first, second in pairs:
        if _MARK in second and _MARK not in first and _original(second) == first:
            found[int(second.split(_MARK)[1])] += 1
    wanted = [number for number, kind in enumerate(EDITS) if mirrored or kind != "mirrored"]
    right = sum(_original(first) == _original(second) for first, second in pairs)
    yield Result(f"{name}: pairs of the groups that are copies", 100 * right / max(len(pairs), 1), "%", ">= 99")
    share = 100 * found / max(len(originals), 1)
    yield Result(f"{name}: edits found with their original", share[wanted].mean(), "%", ">= 97")
    for number in wanted:
        yield Result(f"{name}: {list(EDITS)[number]}", share[number], "%")


def _original(name: str) -> str:
    return name.split(_MARK)[0]


def other_photographs(photos: Collection, name: str) -> Iterator[Result]:
    """Photographs of one thing: how many pairs are called copies, and how many are joined as the same thing."""
    thing = THINGS[name]
    counts = Counter(thing(Path(entry.path).stem) for entry in photos.entries())
    total = sum(count * (count - 1) // 2 for count in counts.values())
    for same_thing in (False, True):
        groups = photos.duplicates(same_thing=same_thing)
        pairs = [pair for group in groups for pair in combinations([path.stem for path in group.paths], 2)]
        right = sum(thing(first) == thing(second) for first, second in pairs)
        if not same_thing:
            yield Result(f"{name}: pairs of photographs of one thing called copies", 100 * right / total, "%", "<= 1")
            continue
        yield Result(f"{name}, --same-thing: pairs of one thing found", 100 * right / total, "%")
        yield Result(f"{name}, --same-thing: pairs that show one thing", 100 * right / max(len(pairs), 1), "%")


def small_parts(photographs: Path, out: Path) -> set[str]:
    """A small part of some photographs, beside which there are others of the same thing; the names of the originals."""
    out.mkdir()
    files = sorted(photographs.iterdir())
    order = np.random.default_rng(_SEED).permutation(len(files))[: 2 * _EDITED].tolist()
    for number in order:
        part = small_part(np.asarray(cv2.imread(str(files[number]))), np.random.default_rng(number))
        path = out / f"{files[number].stem}{_MARK}0.jpg"
        cv2.imwrite(str(path), part, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return {files[number].stem for number in order}


def parts_and_photographs(photos: Collection, name: str, originals: set[str]) -> Iterator[Result]:
    """Whether a part is joined with its original, and with no other photograph of the same thing."""
    groups = [[path.stem for path in group.paths] for group in photos.duplicates()]
    pairs = {tuple(sorted(pair)) for group in groups for pair in combinations(group, 2)}
    thing = THINGS[name]
    pairs = {pair for pair in pairs if any(_MARK in each for each in pair)}
    pairs = {(a, b) for a, b in pairs if thing(_original(a)) == thing(_original(b))}  # some are in two groups of it
    right = sum(_original(first) == _original(second) for first, second in pairs)
    yield Result(f"{name}, small parts: pairs that are copies", 100 * right / max(len(pairs), 1), "%", ">= 99")
    yield Result(f"{name}, small parts: found with their original", 100 * right / max(len(originals), 1), "%")
