"""The server: requests per second and their time among 20,000 images, beside the same work without a server.

The photographs are those of holidays811 under FAEMB_DATA. Clients are threads of a process of their own; each sends
photographs, follows an answer with the thumbnails of its first hits, and begins again.

What a request takes longer is smaller than what a search varies by: each photograph is searched with by the server and
twice without it, in turns, and the differences of the two kinds are printed beside each other.
"""

import http.client
import io
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks import affine
from benchmarks.report import Result
from faemb.collection import Collection
from faemb.collection.catalogue import Catalogue
from faemb.collection.layout import Layout
from faemb.collection.locking import only_writer
from faemb.collection.packing import rounded
from faemb.collection.writing import Writer
from faemb.normalise import unit_length

IMAGES, CLIENTS, SECONDS = 20_000, 50, 60.0
COMPARED = {0: 150, 100: 90}
"""Number of photographs with which each kind of search is compared, by the number of images that it verifies."""
_THUMBNAILS = 5
_CHOOSING = 3.0
"""Seconds that a person takes at least to choose a photograph; the server gets ready meanwhile."""
_PAUSE = 0.2
"""Seconds before a search that is compared: threads of the other process keep a core busy for a moment after theirs."""
UPLOADS, SENDERS = 10_000, 4
"""Small photographs that are sent, and clients that send them."""
_NOISE = 0.02
"""Standard deviation of what is added to each number of a vector of length 1: images like an original, not copies."""


def run() -> Iterator[Result]:
    folder = affine.data_folder()
    if folder is None:
        print("benchmark of serving left out: set FAEMB_DATA to a folder with holidays811")
        return
    photographs = sorted((folder / "holidays811").rglob("*.jpg"))
    with tempfile.TemporaryDirectory() as scratch:
        collection = Path(scratch) / "large.faemb"
        command = [sys.executable, "-m", "faemb", "index", str(folder / "holidays811"), "--out", str(collection), "-q"]
        subprocess.run(command, check=True)  # noqa: S603
        enlarge(collection, IMAGES)
        yield from measured(collection, photographs)


def measured(collection: Path, photographs: Sequence[Path]) -> Iterator[Result]:
    with Server(collection) as server:
        at_once = server.seconds(photographs[-1])
        yield Result(f"list of results, {IMAGES:,} images, server just started", at_once, "s")
    with Server(collection) as server, Collection.open(collection) as photos:
        time.sleep(_CHOOSING)
        first = server.seconds(photographs[-1])
        yield Result(f"first list of results, {IMAGES:,} images", first, "s", "<= 1")
        others = iter(photographs)  # each is sent once: the server keeps what it has described
        for verify, count in COMPARED.items():
            yield from overhead(photos, server, list(islice(others, count)), verify)
        before = server.memory()
        load = server.load(photographs)
        print(*load.errors[:3], sep="\n", end="\n" if load.errors else "")
        yield Result(f"errors, {CLIENTS} clients for {SECONDS:.0f} s", len(load.errors), "", "<= 0")
        yield Result("the same, requests per second", len(load.searches + load.thumbnails) / SECONDS, "/s")
        yield Result("the same, searches per second", len(load.searches) / SECONDS, "/s")
        for name, seconds in (("search", load.searches), ("thumbnail", load.thumbnails)):
            middle, late = np.percentile(seconds, [50, 95])
            yield Result(f"the same, {name}, p50", 1e3 * middle, "ms")
            yield Result(f"the same, {name}, p95", 1e3 * late, "ms")
        yield Result("memory after / before", server.memory() / before, "times", "<= 1.5")
    with tempfile.TemporaryDirectory() as temporary, Server(collection, TMPDIR=temporary) as server:
        yield from many_uploads(server, Path(temporary))


def enlarge(folder: Path, count: int) -> None:
    """Add images that are like those of a collection: features and thumbnails of these, vectors beside theirs."""
    with Collection.open(folder) as photos:
        model, view, rng = photos.model, photos.view(), np.random.default_rng(0)
        originals = [entry for entry in photos.entries() if entry.slot is not None]
        vectors = {entry.id: np.array(view.vectors[entry.slot]) for entry in originals}
    layout = Layout(folder)
    catalogue = Catalogue(layout.catalogue)
    with only_writer(layout):
        writer = Writer(layout, catalogue)
        for turn in range(1, -(-count // len(originals))):
            chosen = originals[: count - turn * len(originals)]
            names = [f"{turn}/{Path(entry.path).name}" for entry in chosen]
            with catalogue.change():
                for entry, name in zip(chosen, names, strict=True):
                    kept = {
                        key: value for key, value in asdict(entry).items() if key not in ("id", "slot", "vector_crc")
                    }
                    catalogue.put(kept | {"path": name})
            placed = [entry for entry in map(catalogue.entry, names) if entry is not None]
            near = np.stack([vectors[entry.id] for entry in chosen])
            writer.place(placed, unit_length(near + _NOISE * rng.standard_normal(near.shape, np.float32)), model)
    catalogue.close()


def overhead(photos: Collection, server: "Server", photographs: Sequence[Path], verify: int) -> Iterator[Result]:
    """What a request takes longer than the same search without a server, and what this takes longer than itself."""
    bare_seconds(photos, photographs[-1], verify)
    ways: list[Callable[[Path], float]] = [
        lambda photograph: bare_seconds(photos, photograph, verify),
        lambda photograph: server.seconds(photograph, verify),
        lambda photograph: bare_seconds(photos, photograph, verify),
    ]
    seconds = np.empty((len(photographs), len(ways)))
    for number, photograph in enumerate(photographs):
        for turn in range(len(ways)):
            way = (number + turn) % len(ways)
            seconds[number, way] = ways[way](photograph)
    bare, asked, again = 1e3 * seconds.T
    kind = f"{verify} verified" if verify else "none verified"
    yield Result(f"describe, encode and search without a server, {kind}", float(np.median(bare)), "ms")
    yield Result(f"the same by POST /api/search, {kind}", float(np.median(asked)), "ms")
    yield from _spread(f"the same, {kind}, longer by", asked - (bare + again) / 2, "<= 10")
    yield from _spread(f"the same without a server again, {kind}, longer by", again - bare)


def _spread(name: str, differences: np.ndarray, target: str = "") -> Iterator[Result]:
    """The median of differences, and what a half of them lie between."""
    low, middle, high = np.percentile(differences, [25, 50, 75])
    yield Result(name, middle, "ms", target)
    yield Result(f"{name}, lower quartile", low, "ms")
    yield Result(f"{name}, upper quartile", high, "ms")


def bare_seconds(photos: Collection, photograph: Path, verify: int) -> float:
    """For its features, its vector, the nearest images and their verification."""
    time.sleep(_PAUSE)
    begun = time.perf_counter()
    features = rounded(photos.model.extractor.extract(photograph))
    photos.search_features([features], names=[photograph.name], files=[photograph], top=1000, verify=verify)
    return time.perf_counter() - begun


def many_uploads(server: "Server", temporary: Path) -> Iterator[Result]:
    """Small photographs of a flood of visitors, none of which is like another."""
    load = Load()
    _Client(server.port, load).search_with("first.png", _tiny(UPLOADS))

    def send(part: int) -> None:
        client = _Client(server.port, load)
        for number in range(part, UPLOADS, SENDERS):
            client.search_with(f"{number}.png", _tiny(number), verify=100)

    before = server.memory()
    with ThreadPoolExecutor(SENDERS) as threads:
        list(threads.map(send, range(SENDERS)))
    print(*load.errors[:3], sep="\n", end="\n" if load.errors else "")
    yield Result(f"errors, {UPLOADS:,} small photographs sent", len(load.errors), "", "<= 0")
    kept = sum(1 for file in temporary.rglob("*.png"))
    yield Result("the same, photographs that the server keeps", kept, "", "<= 500")
    yield Result("the same, memory after - before", (server.memory() - before) / 2**20, "MB", "<= 40")


def _tiny(number: int) -> bytes:
    """A picture that no other number has."""
    levels = np.frombuffer(number.to_bytes(64, "little"), np.uint8).reshape(8, 8)
    stream = io.BytesIO()
    Image.fromarray(levels).save(stream, "PNG")
    return stream.getvalue()


@dataclass
class Load:
    searches: list[float] = field(default_factory=list)
    thumbnails: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Server:
    """`faemb serve` as a process of its own."""

    def __init__(self, collection: Path, **environment: str) -> None:
        command = [sys.executable, "-m", "faemb", "serve", str(collection), "--port", "0"]
        self._process = subprocess.Popen(  # noqa: S603
            command, env=os.environ | environment, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> "Server":
        assert self._process.stdout is not None  # noqa: S101
        found = re.search(r":(\d+)/", self._process.stdout.readline())
        if found is None:
            raise RuntimeError("the server has not started")
        self.port = int(found[1])
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def memory(self) -> float:
        """Bytes of memory of the server and its workers."""
        pids = [self._process.pid, *_children(self._process.pid)]
        pages = (int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
        return sum(pages) * os.sysconf("SC_PAGE_SIZE")

    def seconds(self, photograph: Path, verify: int = 100) -> float:
        """Of one search, by a client that is connected."""
        load = Load()
        client = _Client(self.port, load)
        client.thumbnail(1)
        time.sleep(_PAUSE)
        client.search(photograph, verify)
        if load.errors:
            raise RuntimeError(load.errors[0])
        return load.searches[0]

    def load(self, photographs: Sequence[Path]) -> Load:
        """What many clients at a time have measured, in a process of their own."""
        given, taken = multiprocessing.get_context("spawn").Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=_crowd, args=(taken, self.port, list(photographs))
        )
        process.start()
        load: Load = given.recv()
        process.join()
        return load


def _children(pid: int) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(place.read_text().rsplit(") ", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
        if parent == pid:
            found += [int(place.parent.name), *_children(int(place.parent.name))]
    return found


def _crowd(answer: Any, port: int, photographs: list[Path]) -> None:
    load, end = Load(), time.monotonic() + SECONDS
    clients = [threading.Thread(target=_visit, args=(port, load, photographs[k::CLIENTS], end)) for k in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    answer.send(load)


def _visit(port: int, load: Load, photographs: Sequence[Path], end: float) -> None:
    client, turn = _Client(port, load), 0
    while time.monotonic() < end:
        hits = client.search(photographs[turn % len(photographs)])
        turn += 1
        for id in hits[:_THUMBNAILS]:
            client.thumbnail(id)


class _Client:
    """A visitor with one connection."""

    def __init__(self, port: int, load: Load) -> None:
        self._port, self._load = port, load
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def search(self, photograph: Path, verify: int = 100) -> list[int]:
        """Numbers of the images that were found."""
        return self.search_with(photograph.name, photograph.read_bytes(), verify)

    def search_with(self, name: str, content: bytes, verify: int = 100) -> list[int]:
        field = "--x\r\nContent-Disposition: form-data; name="
        head = f'{field}"verify"\r\n\r\n{verify}\r\n{field}"file"; filename="{name}"\r\n\r\n'
        body = head.encode() + content + b"\r\n--x--\r\n"
        answer = self._ask("POST", "/api/search", self._load.searches, body)
        return [hit["id"] for hit in json.loads(answer)["hits"]] if answer else []

    def thumbnail(self, id: int) -> None:
        self._ask("GET", f"/api/images/{id}/thumbnail", self._load.thumbnails)

    def _ask(self, method: str, path: str, seconds: list[float], body: bytes | None = None) -> bytes:
        headers = {} if body is None else {"Content-Type": "multipart/form-data; boundary=x"}
        begun = time.perf_counter()
        try:
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._load.errors.append(f"{method} {path}: {error}")
            self._connection.close()
            return b""
        seconds.append(time.perf_counter() - begun)
        if response.status != 200:
            self._load.errors.append(f"{method} {path}: {response.status} {content[:200]!r}")
            return b""
        return content
