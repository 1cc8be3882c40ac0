"""The first hour with one's own photographs: time to the first answer, size on disk, quality, and growth.

The photographs are the first ones of holidays811 under FAEMB_DATA; the commands are those that a user types.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import copyfile

from benchmarks import affine
from benchmarks.collections import mean_average_precision
from benchmarks.report import Result
from faemb.benchmark.datasets import open_dataset
from faemb.collection import Collection

_SECONDS = {60: 15, 300: 45}
"""Number of photographs, and the time in which two quiet cores should make them searchable."""
_FIRST, _LATER = 3, 299


def run() -> Iterator[Result]:
    folder = affine.data_folder()
    if folder is None:
        print("benchmark of the first hour left out: set FAEMB_DATA to a folder with holidays811")
        return
    with tempfile.TemporaryDirectory() as scratch:
        for count, most in _SECONDS.items():
            yield from first_answer(folder / "holidays811", Path(scratch) / str(count), count, most)
        yield from growth(folder / "holidays811", Path(scratch) / "growth")


def first_answer(benchmark: Path, scratch: Path, count: int, most: int) -> Iterator[Result]:
    photographs, collection = scratch / "photographs", scratch / "photographs.faemb"
    copy_some(benchmark, range(count), photographs)
    seconds = faemb("index", photographs, "--out", collection)
    yield Result(f"faemb index, {count} photographs", seconds, "s", f"<= {most}")
    query = next(photographs.glob("*.jpg"))
    yield Result(f"faemb search, {count} photographs", faemb("search", collection, query), "s")
    with Collection.open(collection) as opened:
        target = "<= 20" if count == 60 else ""
        yield Result(f"size of a collection of {count} photographs", opened.info().bytes / 1e6, "MB", target)
        yield Result(f"mAP among {count} photographs", mean_average_precision(opened, photographs), "%")


def growth(benchmark: Path, scratch: Path) -> Iterator[Result]:
    """A collection that begins with a few photographs, beside one that had all of them from the beginning."""
    few, rest = scratch / "few", scratch / "rest"
    copy_some(benchmark, range(_FIRST), few)
    copy_some(benchmark, range(_FIRST, _FIRST + _LATER), rest)
    faemb("index", few, "--out", scratch / "grown.faemb")
    seconds = faemb("add", scratch / "grown.faemb", rest)
    faemb("index", few, rest, "--out", scratch / "whole.faemb")
    yield Result(f"faemb add, {_LATER} photographs to {_FIRST}", seconds, "s")
    for name in ("grown", "whole"):
        with Collection.open(scratch / f"{name}.faemb") as collection:
            yield Result(f"first answer is right, {name} to {_FIRST + _LATER}", right_first(collection), "%")


def right_first(collection: Collection) -> float:
    """Share of the photographs with a companion whose first answer, after themselves, is one; in percent.

    Photographs of one thing have names with the same first four figures.
    """
    paths = [collection.layout.path_of(entry.path) for entry in collection.entries()]
    groups = [path.stem[:4] for path in paths]
    asked = [path for path, group in zip(paths, groups, strict=True) if groups.count(group) > 1]
    answers = [collection.search_features([collection.features(path)], top=2)[0] for path in asked]
    found = [next(hit.path for hit in each.hits if hit.path != path) for each, path in zip(answers, asked, strict=True)]
    return 100 * sum(hit.stem[:4] == path.stem[:4] for hit, path in zip(found, asked, strict=True)) / len(asked)


def copy_some(benchmark: Path, numbers: Sequence[int], out: Path) -> None:
    """Copy images of a benchmark, and the part of its ground truth that is about them alone."""
    out.mkdir(parents=True)
    dataset = open_dataset(benchmark)
    for number in numbers:
        copyfile(dataset.images[number], out / dataset.images[number].name)
    names = {number: dataset.images[number].name for number in numbers}
    lines = ["query\trelevant\tjunk"]
    for query in dataset.queries:
        relevant = [names[number] for number in query.relevant if number in names]
        if query.number in names and relevant:
            lines.append(f"{names[query.number]}\t{','.join(relevant)}\t")
    (out / "gt.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def faemb(*arguments: str | Path) -> float:
    """Run a command; its time in seconds, with the start of the interpreter."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "faemb", *map(str, arguments), "--quiet"], check=True)  # noqa: S603
    return time.perf_counter() - start
