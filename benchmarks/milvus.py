"""A store in Milvus beside the collection's own folder.

    python tools/own_network.py python -m benchmarks.milvus COLLECTION [N [TTL]]

The vectors of a collection, resampled and perturbed to N (20,000) rows, are written to both and searched in both. The
server is that of the tests (`make test-milvus` installs it), on this machine. At the end it is killed, and started
again; TTL is its setting `common.session.ttl` (6).
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from faemb.collection import Collection, Model
from faemb.collection.catalogue import Entry
from faemb.collection.layout import Layout
from faemb.collection.nearest import Neighbours
from faemb.collection.stores.attached import made_store
from faemb.collection.stores.embedded import Embedded
from faemb.collection.stores.milvus import Fetched
from faemb.collection.stores.store import Table, nearest_in
from milvus_beside import MilvusBeside, require_own_network

Result = TypeVar("Result")
QUERIES, TOP, RESTARTS = 50, 10, 3
PERTURBED = 0.6
"""Length of the noise that is added to a vector of length 1."""


def rows_of(collection: Path, count: int) -> tuple[Model, np.ndarray]:
    """Unit vectors like those of a collection's images."""
    rng = np.random.default_rng(0)
    with Collection.open(collection) as photos:
        view, model = photos.view(), photos.model
        chosen = view.vectors[view.slots[rng.integers(0, len(view.slots), count)]]
    noise = rng.standard_normal(chosen.shape).astype(np.float32)
    noisy = chosen + PERTURBED * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    return model, (noisy / np.linalg.norm(noisy, axis=1, keepdims=True)).astype("<f4")


def timed(task: Callable[[], Result]) -> tuple[float, Result]:
    start = time.perf_counter()
    result = task()
    return time.perf_counter() - start, result


def write(table: Table, rows: np.ndarray) -> None:
    for start in range(0, len(rows), 1000):
        some = rows[start : start + 1000]
        numbers = range(start, start + len(some))
        images = [Entry(i + 1, f"{i}.jpg", f"{i:064x}", 1, 1, 1, 1, 1, i, 0, None, None, None) for i in numbers]
        table.write(start, some, images)


def measured(model: Model, rows: np.ndarray, folder: Path, server: MilvusBeside) -> Iterator[str]:
    layout = Layout(folder)
    layout.folder.mkdir()
    embedded, store = Embedded(layout), made_store(layout, server.address("bench"), "bench")
    plain, remote = embedded.table(1, model), store.table(1, model)
    live, queries = np.arange(len(rows)), rows[:QUERIES]
    for name, table in (("folder", plain), ("Milvus", remote)):
        seconds, _ = timed(lambda table=table: write(table, rows))  # type: ignore[misc]
        yield f"write to {name}: {len(rows) / seconds:,.0f} rows a second"
    here = plain.vectors(len(rows))[0]
    seconds, exact = timed(lambda: nearest_in(here, queries, live, TOP))
    yield f"exact, folder, {QUERIES} queries at once: {1000 * seconds / QUERIES:.1f} ms a query"
    there: Fetched = remote.vectors(len(rows))[0]
    seconds, found = timed(lambda: nearest_in(there, queries, live, TOP))
    milliseconds = 1000 * seconds / QUERIES
    yield f"exact, Milvus, {QUERIES} queries at once: {milliseconds:.1f} ms a query; {agreement(exact, found)}"
    for level, pause in (("strong", 0), ("bounded", 11)):
        time.sleep(pause)
        seconds, _ = timed(lambda: [nearest_in(there, queries[i : i + 1], live, TOP) for i in range(20)])
        yield f"exact, Milvus, one query at a time, {level} consistency: {50 * seconds:.1f} ms a query"
    for kind in ("hnsw", "binary"):
        seconds, _ = timed(lambda kind=kind: there.nearest(queries[:1], live, TOP, some=False, index=kind))  # type: ignore[misc]
        yield f"{kind}, Milvus: made in {seconds:.1f} s"
        seconds, found = timed(
            lambda kind=kind: there.nearest(queries, live, TOP, some=False, index=kind)  # type: ignore[misc]
        )
        yield f"{kind}, Milvus: {1000 * seconds / QUERIES:.1f} ms a query; {agreement(exact, found)}"
    store.close()


def restarted(model: Model, count: int, folder: Path, server: MilvusBeside) -> Iterator[str]:
    """From the start after a SIGKILL until the server answers, and from then until a search does."""
    for _ in range(RESTARTS):
        server.kill()
        answering, _ = timed(server.start)
        store = made_store(Layout(folder), server.address("bench"), "bench")
        vectors = store.table(1, model).vectors(count)[0]
        query = np.eye(1, model.dimension, dtype=np.float32)
        searching, _ = timed(partial(nearest_in, vectors, query, np.arange(count), TOP))
        store.close()
        yield f"restart after SIGKILL: {answering:.1f} s until it answers, {searching:.1f} s more until it has searched"


def agreement(exact: Neighbours, found: Neighbours) -> str:
    shared = np.mean(
        [len(set(a) & set(b)) / TOP for a, b in zip(exact.rows.tolist(), found.rows.tolist(), strict=True)]
    )
    gap = float(np.abs(exact.scores - found.scores).max())
    return f"recall@{TOP} {shared:.3f}, scores differ by at most {gap:.1e}"


def main(collection: str, count: str = "20000", session: str = "6") -> None:
    require_own_network()
    model, rows = rows_of(Path(collection), int(count))
    with tempfile.TemporaryDirectory() as folder:
        server = MilvusBeside(Path(folder) / "server", {"common.session.ttl": int(session)})
        seconds, _ = timed(server.start)
        print(f"server started in {seconds:.0f} s; {len(rows):,} rows of {model.dimension:,} dimensions", flush=True)
        try:
            for lines in (
                measured(model, rows, Path(folder) / "bench.faemb", server),
                restarted(model, len(rows), Path(folder) / "bench.faemb", server),
            ):
                for line in lines:
                    print(line, flush=True)
        finally:
            server.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
