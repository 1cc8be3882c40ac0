"""Collections: indexing a folder, encoding beside extraction, search among 100,000 images, start-up, and quality.

The photographs are those under FAEMB_DATA: holidays811 is indexed, flickr1500 is learned from.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from benchmarks import affine
from benchmarks.core import cholesky_whitening
from benchmarks.report import Result
from benchmarks.synthetic import QUERIES, VECTORS, synthetic_collection, synthetic_vectors
from faemb.benchmark.datasets import open_dataset
from faemb.benchmark.rows import best_seconds
from faemb.benchmark.scoring import measured, similarities
from faemb.collection import Collection
from faemb.collection.backends import APPROXIMATE
from faemb.collection.index_files import faiss
from faemb.collection.model import Model, new_model
from faemb.collection.temporary import fit_model
from faemb.features import HessianAffine

_TOP = 10


def run() -> Iterator[Result]:
    yield startup()
    with tempfile.TemporaryDirectory() as scratch:
        yield from search(Path(scratch))
    folder = affine.data_folder()
    if folder is None:
        print("benchmark of indexing left out: set FAEMB_DATA to a folder with holidays811, flickr1500 and affine")
        return
    with tempfile.TemporaryDirectory() as scratch:
        yield from indexing(folder / "holidays811", Path(scratch))
        yield from encoding(folder, Path(scratch))
        yield from quality(folder, Path(scratch))


def startup() -> Result:
    command = [sys.executable, "-m", "faemb", "--help"]
    seconds = best_seconds(lambda: subprocess.run(command, check=True, capture_output=True))  # noqa: S603
    return Result("faemb --help", seconds, "s", "<= 0.5")


def search(scratch: Path) -> Iterator[Result]:
    """Ours and faiss in turns, on the same vectors, with the same threads."""
    vectors = synthetic_vectors(VECTORS)
    synthetic_collection(scratch / "c", vectors)
    opening = best_seconds(lambda: Collection.open(scratch / "c").view(), 3)
    yield Result(f"opening a collection of {VECTORS:,} images", opening, "s", "<= 1")
    with Collection.open(scratch / "c") as collection:
        view, queries = collection.view(), synthetic_vectors(QUERIES, seed=1)
        flat = faiss().IndexFlatIP(vectors.shape[1])
        flat.add(vectors)
        binary = APPROXIMATE["binary"]
        view.search(queries, _TOP, binary)  # makes its index
        for count in (1, QUERIES):
            some = queries[:count]
            ways = (
                lambda some=some: view.search(some, _TOP, None),
                lambda some=some: flat.search(some, _TOP),
                lambda some=some: view.search(some, _TOP, binary),
            )
            rounds = [[best_seconds(way, 1) for way in ways] for _ in range(8)]
            exact, raw, codes = np.min(rounds, axis=0)
            which = f"{count} {'query' if count == 1 else 'queries'} among {VECTORS:,}"
            yield Result(f"exact search, {which}", 1e3 * exact, "ms")
            yield Result(f"exact search / faiss flat, {which}", exact / raw, "times", "<= 1.2")
            yield Result(f"exact search / 512-bit codes, {which}", exact / codes, "times", ">= 10")


def indexing(images: Path, scratch: Path) -> Iterator[Result]:
    """The command, as a user types it: learning from the images themselves included."""
    command = [sys.executable, "-m", "faemb", "index", str(images), "--out", str(scratch / "own"), "--quiet"]
    start = time.perf_counter()
    process = subprocess.Popen(command, start_new_session=True)  # noqa: S603
    watch = PeakMemory(process.pid)
    if process.wait() != 0:
        raise RuntimeError(f"{' '.join(command)} failed")
    seconds = time.perf_counter() - start
    with Collection.open(scratch / "own") as collection:
        yield Result(
            "faemb index holidays811, preset small, learning included", len(collection) / seconds, "images/s", ">= 5"
        )
        yield Result("the same, peak memory of all its processes", watch.stop() / 2**30, "GiB", "<= 1.86")
        yield Result("the same, size per image", collection.info().bytes / len(collection) / 2**10, "KiB")
        yield Result(
            "mAP, preset small learned on the collection itself",
            mean_average_precision(collection, images),
            "%",
            ">= 72",
        )


def encoding(folder: Path, scratch: Path) -> Iterator[Result]:
    """Stages of adding images to a collection whose model is there: all cores work on each."""
    with Collection.open(scratch / "own") as collection:
        small = collection.model
    large = timed_only("f-faemb-16", folder / "flickr1500")
    photographs(folder / "affine", scratch / "photographs")
    for images, which in ((folder / "holidays811", "holidays811"), (scratch / "photographs", "0.79 megapixels")):
        for name, model, most in (("small", small, "<= 0.25"), ("f-faemb-16", large, "<= 1")):
            clock = StageClock()
            with Collection.create(scratch / f"{name}-{which}".replace(" ", "-"), model) as collection:
                collection.add(images, progress=clock)
                count = len(collection)
            extracted, encoded = clock.seconds["features"], clock.seconds["encode"]
            yield Result(f"extraction, {which}", 1e3 * extracted / count, "ms/image")
            yield Result(f"encoding, {name}, {which}", 1e3 * encoded / count, "ms/image")
            yield Result(f"encoding / extraction, {name}, {which}", encoded / extracted, "times", most)


def quality(folder: Path, scratch: Path) -> Iterator[Result]:
    model, _ = fit_model(folder / "flickr1500", new_model())
    with Collection.create(scratch / "learned", model) as collection:
        collection.add(folder / "holidays811")
        score = mean_average_precision(collection, folder / "holidays811")
    yield Result("mAP, holidays811, preset small learned on flickr1500", score, "%", ">= 74")


def mean_average_precision(collection: Collection, images: Path) -> float:
    """In percent, of the benchmark in that folder, whose images the collection holds."""
    dataset, view = open_dataset(images), collection.view()
    names = {entry.id: Path(entry.path).name for entry in collection.entries()}
    slots = {names[int(image)]: slot for image, slot in zip(view.ids, view.slots, strict=True)}
    vectors = np.zeros((len(dataset.images), collection.model.dimension), np.float32)
    for number, path in enumerate(dataset.images):
        if path.name in slots:  # else it has no local features
            vectors[number] = view.vectors[slots[path.name]]
    queries = vectors[[query.number for query in dataset.queries if query.number is not None]]
    return measured(dataset, similarities(queries, vectors))["mAP"]


def timed_only(name: str, images: Path) -> Model:
    """A model of its full size, learned well enough to time it and nothing else (see core.cholesky_whitening)."""
    extractor, rng = HessianAffine(max_features=300), np.random.default_rng(0)
    rows = np.concatenate([extractor.extract(path).descriptors for path in sorted(images.rglob("*.jpg"))[:200]])
    model = new_model(name=name, variant="released")
    encoder = model.encoder.clone()
    assert encoder.projection is not None  # noqa: S101  (every preset has one)
    encoder.projection_ = encoder.projection.clone().fit(rows)
    x = encoder.projection_.project(rows)
    encoder.embedding_ = encoder.embedding.clone().fit(x)
    order = iter(rng.permutation(len(x)))
    encoder.whitening_ = cholesky_whitening(encoder.embedding_, lambda count: x[[next(order) for _ in range(count)]])
    model.encoder_ = encoder
    return model


def photographs(sequences: Path, out: Path) -> None:
    """Sixty of 1024 x 768 pixels: thirty, and their mirror images."""
    out.mkdir()
    for path in sorted(sequences.glob("*/img*.png")):
        image = cv2.resize(np.asarray(cv2.imread(str(path))), (1024, 768), interpolation=cv2.INTER_AREA)
        cv2.imwrite(str(out / f"{path.parent.name}-{path.stem}.jpg"), image)
        cv2.imwrite(str(out / f"{path.parent.name}-{path.stem}-mirrored.jpg"), image[:, ::-1])


class StageClock:
    """A progress callback that adds up the time of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._stage, self._since = "", time.perf_counter()

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.perf_counter()
        self.seconds[self._stage] += now - self._since
        self._stage, self._since = stage, now


class PeakMemory:
    """Of all processes of a session together, looked at ten times a second while a thread lives (Linux)."""

    def __init__(self, session: int) -> None:
        self._session, self._peak, self._over = session, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """In bytes."""
        self._over.set()
        self._thread.join()
        return self._peak

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self._peak = max(self._peak, sum(map(self._resident, Path("/proc").glob("[0-9]*"))))

    def _resident(self, process: Path) -> int:
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            return 0
        return int(fields[21]) * os.sysconf("SC_PAGE_SIZE") if int(fields[3]) == self._session else 0
