"""What a collection of more than 200,000 images is searched with: recall, time and memory beside exact comparison.

    FAEMB_DATA=... python -m benchmarks rabitq                            20,000 rows

Rows are made from vectors of photographs; enlarged.py says how, and how to have a million of them.
Recall is that of the ten best among all rows by full vectors.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import affine
from benchmarks.codes import per_query, recall, timed
from benchmarks.enlarged import enlarged_collection
from benchmarks.memory import peak_memory
from benchmarks.report import Result
from faemb.collection import Collection
from faemb.collection.backends import RaBitQ
from faemb.collection.layout import Layout
from faemb.collection.reading import View

_TOP = 10
_CANDIDATES = (256, 384, 512, 1024)


def run() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as scratch:
        rows = enlarged_collection(Path(scratch))
        if rows is None:
            return
        with Collection.open(rows.folder) as collection:
            yield from searched(collection.view(), rows.images.queries)
        del collection  # and with it the mapped vectors
        yield from resident(rows.folder)


def searched(view: View, queries: np.ndarray) -> Iterator[Result]:
    """As a collection is searched."""
    count = len(view.slots)
    _, building = timed(lambda: view.prepare(RaBitQ, lambda *_: None))
    yield Result(f"index rabitq of {count:,} rows: learning, adding and writing, or reading", building, "s")
    exact = view.search(queries, _TOP, None).rows
    found = view.search(queries, _TOP, RaBitQ).rows
    yield Result(f"index rabitq, {count:,} rows: recall@10", recall(found, exact), "", ">= 0.97")
    for ranked in _CANDIDATES:
        candidates = view.position[view._index(RaBitQ).candidates(queries, ranked)]
        yield Result(f"index rabitq, {count:,} rows: recall@10 of {ranked} candidates", recall(candidates, exact), "")
    target = ">= 20" if count >= 200_000 else ""
    for clock, seconds in (("processor time", time.process_time), ("by the clock", time.perf_counter)):
        slow = per_query(lambda one: view.search(one, _TOP, None), queries, seconds)
        fast = per_query(lambda one: view.search(one, _TOP, RaBitQ), queries, seconds)
        yield Result(f"exact search, {count:,} rows, {clock}", 1e3 * slow, "ms/query")
        yield Result(f"index rabitq, {count:,} rows, {clock}", 1e3 * fast, "ms/query")
        yield Result(f"exact search / index rabitq, {count:,} rows, {clock}", slow / fast, "times", target)


def resident(folder: Path) -> Iterator[Result]:
    """The command, as a user types it, in a process of its own."""
    data = affine.data_folder()
    if data is None:
        return
    query = str(min((data / "holidays811").rglob("*.jpg")))
    command = [sys.executable, "-m", "faemb", "search", str(folder), query, "--verify", "0", "--index", "rabitq"]
    peak = peak_memory(command)
    forget(Layout(folder).vectors(1))
    cold = peak_memory(command)
    yield Result("faemb search: own memory (RssAnon)", peak.own / 2**30, "GiB", "<= 1.86")
    yield Result("faemb search: with mapped pages (Rss)", peak.all / 2**30, "GiB")
    yield Result("faemb search: time", peak.seconds, "s")
    yield Result("faemb search: time, vectors on the disk alone", cold.seconds, "s")


def forget(file: Path) -> None:
    """Let the system drop a file from its memory; pages that a process has mapped stay."""
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
