"""Linear maps of indexes in a server (KIND-N-COVERED.map): a damaged one is learned again, never believed.

There is no server here: `Answers` stands for one in which the indexes lie, and notes what it is asked.
"""

import json
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file
from tools.fuzz.kind import Damage, Kind, Way
from tools.fuzz.odd import odd_value, tree_text

from faemb.collection.stores import milvus_indexes
from faemb.collection.stores.addresses import parse
from faemb.collection.stores.milvus_indexes import KINDS, Indexes, collections_in
from faemb.collection.stores.milvus_server import Server

Rng = np.random.Generator
TABLE, SLOTS, DIMENSION = "photos_1", 30, 12


class Answers(Server):
    """One that was not connected, and never is."""

    def __init__(self) -> None:
        super().__init__(parse("milvus://nowhere/photos"))
        self.searched: list[tuple[str, Any]] = []

    def ask(self, what: str, *arguments: Any, **named: Any) -> Any:
        if what == "search":
            self.searched.append((arguments[0], named["data"]))
            return [[] for _ in named["data"]]
        return what == "has_collection"


class Maps(Kind):
    name = "maps"

    def prepare(self, folder: Path) -> None:
        for kind in KINDS:
            (folder / kind).mkdir()
            _candidates(folder / kind, kind)

    def ways(self, victim: Path) -> Sequence[Way]:
        return (arrays_changed, arrays_changed, facts_changed)

    def read(self, folder: Path) -> None:
        collections_in(folder)
        for kind in KINDS:
            if any(folder.glob(f"{kind}-*")):
                _candidates(folder, kind)


def _candidates(folder: Path, kind: str) -> None:
    """Ask an index for candidates; it is made if it is not there."""
    server, vectors = Answers(), np.random.default_rng(0).standard_normal((SLOTS, 1, DIMENSION)).astype(np.float32)
    indexes = Indexes(server, folder, TABLE, "", DIMENSION)
    index = indexes.get(kind, np.arange(SLOTS), 1, lambda slots: vectors[slots])
    index.candidates(vectors[:2, 0], 5)
    for name, data in server.searched:
        if not name.startswith(f"{TABLE}_"):
            raise Damage("a collection that does not belong to this table is searched")
        if len(data) != 2 or len({len(each) for each in data}) != 1:
            raise Damage("queries of another form")


def arrays_changed(path: Path, rng: Rng) -> None:
    """Odd shapes, types and values under a checksum that fits them."""
    with suppress(Exception):  # another change has damaged the file
        arrays, facts = load_file(path), _facts(path)
        name = ("matrix", "bias")[int(rng.integers(2))]
        shape = tuple(int(rng.integers(0, 40)) for _ in range(int(rng.integers(0, 4))))
        value = rng.choice(
            np.array([0, 1, np.nan, np.inf, 1e38, -1e38]), shape if rng.random() < 0.6 else arrays[name].shape
        )
        kind = ("<f4", "<f4", "<f8", "<f2", "<i4", "<u1", "?")[int(rng.integers(7))]
        with np.errstate(all="ignore"):
            arrays[name] = value.astype(kind)
        crc = zlib.crc32(arrays["bias"].tobytes(), zlib.crc32(arrays["matrix"].tobytes()))
        _save(path, arrays, json.dumps({**facts, "crc": str(crc)}))


def facts_changed(path: Path, rng: Rng) -> None:
    """Odd names and values in the header."""
    with suppress(Exception):
        facts = _facts(path)
        if rng.random() < 0.5:
            _save(path, load_file(path), json.dumps({**facts, "collection": str(odd_value(rng))}))
        else:
            _save(path, load_file(path), tree_text(facts, rng))


def _facts(path: Path) -> dict[str, str]:
    found = milvus_indexes._facts(path)
    if found is None:
        raise ValueError("damaged before")
    return found


def _save(path: Path, arrays: dict[str, np.ndarray], facts: str) -> None:
    save_file(arrays, path, metadata={"faemb": facts})
