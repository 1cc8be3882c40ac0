"""Short vectors and codes of a table in Milvus, which select candidates among many images.

An index is a Milvus collection of its own, with the ids of the table and, in place of the full vectors, short vectors
or binary codes (linear_maps.py). Its linear map, and its name, lie in a file of the collection's folder:

    KIND-TABLE-COVERED.map    safetensors; the index covers the first COVERED slots of table TABLE

Like the index files of a collection whose vectors lie in its folder, both are derived: rebuilt when they are missing,
or when they cover too few slots. Later slots are compared exactly, and candidates are ranked by their full vectors.
"""

import json
import re
import secrets
import time
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from faemb.collection.linear_maps import LinearMap, code_map, short_map
from faemb.collection.stores.milvus_server import BOUNDED, Server, consistency, milvus
from faemb.errors import FaembError, InputError
from faemb.runtime.limits import require_memory
from faemb.runtime.storage import replacing

_SAMPLE_BYTES, _SAMPLE_LEAST = 1 << 27, 2048
_COVERED_LEAST = 0.8
_MAPPED_AT_ONCE = 1024
_MOST_ROWS = 16_384
_LINKS, _EFFORT, _LISTS_VISITED, _SUBVECTORS = 32, 200, 32, 64

Read = Callable[[Int[np.ndarray, " n"]], Float[np.ndarray, "n V D"]]


@dataclass(frozen=True)
class Kind:
    """A kind of Milvus index for short vectors or codes."""

    name: str
    algorithm: str
    is_binary: bool = False

    def learned(self, sample: Float[np.ndarray, "s D"]) -> LinearMap:
        linear = code_map(sample) if self.is_binary else short_map(sample)
        more = -len(linear.matrix) % self.step  # zeros change no comparison
        return LinearMap(np.pad(linear.matrix, ((0, more), (0, 0))), np.pad(linear.bias, (0, more)))

    def mapped(self, linear: LinearMap, vectors: Float[np.ndarray, "n D"]) -> list[Any]:
        values = vectors @ linear.matrix.T + linear.bias
        if self.is_binary:
            return [row.tobytes() for row in np.packbits(values > 0, axis=1)]
        length = np.linalg.norm(values, axis=1, keepdims=True)
        return list((values / np.where(length > 0, length, 1)).astype(np.float32))

    def building(self, rows: int) -> dict[str, int]:
        lists = max(1, min(int(4 * rows**0.5), rows // 64))
        return {
            "HNSW": {"M": _LINKS, "efConstruction": _EFFORT},
            "IVF_PQ": {"nlist": lists, "m": _SUBVECTORS, "nbits": 8},
        }.get(self.algorithm, {})

    def searching(self, limit: int) -> dict[str, Any]:
        how = {"HNSW": {"ef": max(_EFFORT, limit)}, "IVF_PQ": {"nprobe": _LISTS_VISITED}}.get(self.algorithm, {})
        return {"metric_type": self.metric, "params": how}

    @property
    def step(self) -> int:
        """Dimensions are padded to a multiple of this."""
        return 8 if self.is_binary else _SUBVECTORS

    @property
    def metric(self) -> str:
        return "HAMMING" if self.is_binary else "IP"


KINDS = {kind.name: kind for kind in (Kind("hnsw", "HNSW"), Kind("ivf-pq", "IVF_PQ"), Kind("binary", "BIN_FLAT", True))}


@dataclass(frozen=True)
class Indexed:
    """An index that can be searched."""

    server: Server
    kind: Kind
    collection: str
    covered: int
    """Number of slots that the index covers."""
    linear: LinearMap
    since: float = field(default_factory=time.monotonic)
    """When it was built or opened: its rows were written before."""

    def candidates(self, queries: Float[np.ndarray, "Q D"], count: int) -> list[Int[np.ndarray, " c"]]:
        """Ids to compare with each query."""
        limit = min(count, _MOST_ROWS)
        answers = self.server.ask(
            "search",
            self.collection,
            data=self.kind.mapped(self.linear, queries),
            limit=limit,
            anns_field="vector",
            search_params=self.kind.searching(limit),
            consistency_level=consistency(self.since),
        )
        return [np.array([hit["id"] for hit in hits], np.int64) for hits in answers]


class Indexes:
    """The indexes of one table."""

    def __init__(self, server: Server, folder: Path, table: str, description: str, dimension: int) -> None:
        self._server, self._folder, self._table, self._description = server, folder, table, description
        self._dimension = dimension
        self._number = table.rsplit("_", 1)[1]
        self._opened: dict[str, Indexed] = {}

    def get(self, name: str, live: Int[np.ndarray, " n"], per_slot: int, read: Read) -> Indexed:
        """The newest index of this kind that covers enough of the slots in use; built if there is none."""
        if name not in KINDS:
            raise InputError(f"index is {name!r}; a store in Milvus has exact, {', '.join(KINDS)}")
        enough = _COVERED_LEAST * (int(live[-1]) + 1)
        held = self._opened.get(name) or self._stored(KINDS[name], enough)
        if held is None or held.covered < enough:
            held = self._built(KINDS[name], live, per_slot, read)
        self._opened[name] = held
        return held

    def forget(self) -> None:
        """Close opened indexes, so that those of other processes are found."""
        self._opened.clear()

    def _stored(self, kind: Kind, enough: float) -> Indexed | None:
        for covered, file in sorted(map_files(self._folder, kind.name, self._number), reverse=True):
            if covered >= enough and (found := _read(file)) is not None:
                collection, linear = found
                if self._fits(kind, collection, linear) and self._server.ask("has_collection", collection):
                    return Indexed(self._server, kind, collection, covered, linear)
        return None

    def _fits(self, kind: Kind, collection: str, linear: LinearMap) -> bool:
        """Whether the content of a map file, whose checksum matches, is valid for an index of this table."""
        named = re.fullmatch(rf"{self._prefix(kind)}[0-9a-f]{{8}}", collection) is not None
        rows, matrix, bias = linear.bias.size, linear.matrix, linear.bias
        shaped = matrix.shape == (rows, self._dimension) and bias.ndim == 1 and rows > 0 and rows % kind.step == 0
        return named and shaped and all(each.dtype == np.float32 and np.isfinite(each).all() for each in linear)

    def _prefix(self, kind: Kind) -> str:
        return f"{self._table}_{kind.name.replace('-', '')}_"

    def _built(self, kind: Kind, live: Int[np.ndarray, " n"], per_slot: int, read: Read) -> Indexed:
        linear = kind.learned(read(_sample(live, read)).reshape(-1, read(live[:1]).shape[-1]))
        name = self._prefix(kind) + secrets.token_hex(4)
        self._create(kind, name, len(linear.matrix), len(live) * per_slot)
        for start in range(0, len(live), _MAPPED_AT_ONCE):
            slots = live[start : start + _MAPPED_AT_ONCE]
            vectors = read(slots)
            ids = (slots[:, None] * per_slot + np.arange(per_slot)).ravel().tolist()
            values = kind.mapped(linear, vectors.reshape(-1, vectors.shape[-1]))
            self._server.ask("upsert", name, [{"id": i, "vector": each} for i, each in zip(ids, values, strict=True)])
        covered = int(live[-1]) + 1
        file = self._folder / f"{kind.name}-{self._number}-{covered}.map"
        with suppress(FaembError):  # in a read-only folder: the index is used now, and built again next time
            _write(file, name, linear)
        for _, old in map_files(self._folder, kind.name, self._number):
            if old != file:
                with suppress(OSError):
                    old.unlink()
        return Indexed(self._server, kind, name, covered, linear)

    def _create(self, kind: Kind, name: str, dimension: int, rows: int) -> None:
        kinds, client = milvus().DataType, milvus().MilvusClient
        schema = client.create_schema(auto_id=False, description=self._description)
        schema.add_field("id", kinds.INT64, is_primary=True)
        schema.add_field("vector", kinds.BINARY_VECTOR if kind.is_binary else kinds.FLOAT_VECTOR, dim=dimension)
        index = client.prepare_index_params()
        how = {"index_type": kind.algorithm, "metric_type": kind.metric, "params": kind.building(rows)}
        index.add_index("vector", **how)
        self._server.ask("create_collection", name, schema=schema, index_params=index, consistency_level=BOUNDED)


def collections_in(folder: Path) -> set[str]:
    """Names of the Milvus collections that map files refer to."""
    found = (_facts(file) for kind in KINDS for _, file in map_files(folder, kind))
    return {facts["collection"] for facts in found if facts is not None}


def map_files(folder: Path, kind: str, number: str = "[1-9][0-9]*") -> Iterable[tuple[int, Path]]:
    """Map files with the number of slots that each covers."""
    pattern = re.compile(rf"{kind}-{number}-([0-9]+)\.map")
    for path in list(folder.iterdir()):
        if (named := pattern.fullmatch(path.name)) and path.is_file() and not path.is_symlink():
            yield int(named[1]), path


def _sample(live: Int[np.ndarray, " n"], read: Read) -> Int[np.ndarray, " s"]:
    most = max(_SAMPLE_LEAST, _SAMPLE_BYTES // (4 * read(live[:1]).size))
    return live if len(live) <= most else np.sort(np.random.default_rng(0).choice(live, most, replace=False))


def _write(file: Path, collection: str, linear: LinearMap) -> None:
    arrays = {name: np.ascontiguousarray(value, np.float32) for name, value in linear._asdict().items()}
    facts = {"collection": collection, "crc": str(_crc(LinearMap(**arrays)))}
    with replacing(file) as temporary:
        save_file(arrays, temporary, metadata={"faemb": json.dumps(facts)})


def _read(file: Path) -> tuple[str, LinearMap] | None:
    """Name of the Milvus collection and linear map; None if the file is damaged, and the index is rebuilt."""
    facts = _facts(file)
    if facts is None:
        return None
    try:
        require_memory(file.stat().st_size, file)
        with safe_open(file, framework="numpy") as held:
            linear = LinearMap(held.get_tensor("matrix"), held.get_tensor("bias"))
        return (facts["collection"], linear) if facts["crc"] == str(_crc(linear)) else None
    except (OSError, SafetensorError):
        return None


def _facts(file: Path) -> dict[str, str] | None:
    """Header of a map file; None if it is damaged."""
    try:
        with safe_open(file, framework="numpy") as held:
            facts = json.loads((held.metadata() or {})["faemb"])
        return {name: str(facts[name]) for name in ("collection", "crc")}
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _crc(linear: LinearMap) -> int:
    return zlib.crc32(linear.bias.tobytes(), zlib.crc32(linear.matrix.tobytes()))
