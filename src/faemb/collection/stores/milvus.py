"""Vectors in a Milvus server: a store NAME has the Milvus collection NAME_N for its table N, and an alias NAME.

A row of a table is V entities of Milvus, one for each vector of the image:

    id        INT64, primary    slot * V + part
    image     INT64             id of the image in the catalogue, which does not change
    part      INT64             0 for the whole image, then its parts
    name      VARCHAR           name of the image in the catalogue, as it was when the vector was computed
    hash      VARCHAR           content hash of the image file
    vector    FLOAT_VECTOR      unit length; inner product; FLAT: every comparison is exact

The description of a Milvus collection names the collection and the model to which it belongs, and is compared before
the first use. Searches see all rows that the catalogue names, or that an index has: with strong consistency while a
state of the catalogue, or an index, is younger than the staleness of bounded consistency (5 s unless the server is
configured otherwise), with bounded consistency later.
"""

import json
import re
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Int

from faemb.collection.catalogue import Entry
from faemb.collection.description import Encoding
from faemb.collection.layout import typed
from faemb.collection.nearest import Neighbours
from faemb.collection.slots import checksums
from faemb.collection.stores.addresses import Address
from faemb.collection.stores.milvus_indexes import KINDS, Indexed, Indexes, collections_in
from faemb.collection.stores.milvus_server import BOUNDED, ONE_CALL, STRONG, Server, consistency, milvus
from faemb.collection.stores.store import RemoteVectors, Store, Table
from faemb.errors import FormatError, InputError

Item = TypeVar("Item")

MOST_DIMENSIONS = 32_768
_BATCH_BYTES = 32_000_000
"""Largest size of the vectors in one call; a server accepts messages of up to 64 MiB."""
_MOST_ROWS = 16_384
"""Largest number of results, and of ids, in one call."""
_FILTERED_AT_ONCE = 10_000
"""Largest number of ids in the filter of one search: a server takes 10 microseconds to parse each."""
_MARGIN = 16
"""Number of extra results requested, since rows of recently removed images may be among the results."""
_MORE, _AT_LEAST = 4, 64
"""Candidates requested from an index: `_MORE` times the number of results, at least `_AT_LEAST`."""
_WRITER = "faemb.writer"
"""Property of a Milvus collection: the mark of a writer."""


@dataclass(frozen=True)
class Owner:
    """The collection to which a store belongs."""

    collection: str
    """A random identity, which the catalogue holds."""
    folder: Path


class MilvusStore(Store):
    def __init__(self, address: Address, owner: Owner) -> None:
        self.address, self.identity, self._owner = str(address), owner.collection, owner
        self.server, self._name = Server(address, self.folder), address.name
        self._indexes: dict[str, Indexes] = {}

    def table(self, number: int, model: Encoding) -> "MilvusTable":
        return MilvusTable(self, self.name_of(number), model)

    def indexes(self, table: str, model: Encoding) -> Indexes:
        """The opened indexes of a table."""
        if table not in self._indexes:
            how = self.describe(model), model.dimension
            self._indexes[table] = Indexes(self.server, self._owner.folder, table, *how)
        return self._indexes[table]

    def name_of(self, number: int) -> str:
        return f"{self._name}_{number}"

    def check_dimension(self, dimension: int) -> None:
        if dimension > MOST_DIMENSIONS:
            raise InputError(
                f"vectors have {dimension:,} dimensions, and Milvus stores at most {MOST_DIMENSIONS:,}; shorten "
                f"them with the encoder's setting keep={MOST_DIMENSIONS}, choose a smaller preset, or use no server"
            )

    def require_free(self) -> None:
        """Raise an error if the name is in use; nothing is changed."""
        for name in (self._name, self.name_of(1)):
            if self.server.ask("has_collection", name):
                raise InputError(
                    f"{self.address} exists already ({name}), and belongs to another collection; give another name"
                )

    def drop(self, number: int) -> None:
        if self.about(self.name_of(number)) is not None:
            self._drop_collection(self.name_of(number))

    def sweep(self, used: Collection[int]) -> None:
        """Delete unused tables of this store only, which their descriptions identify."""
        kept = {self.name_of(number) for number in used} | (collections_in(self._owner.folder) if used else set())
        for name in self.server.ask("list_collections"):
            if self._is_table(name) and name not in kept and self._is_ours(name):
                self._drop_collection(name)

    def publish(self, number: int) -> None:
        """Point the alias, under which other programs find the vectors, to this table."""
        if self.about(self.name_of(number)) is None:
            return  # lost; the call that needs it reports that
        known = self.about(self._name) is not None
        self.server.ask("alter_alias" if known else "create_alias", self.name_of(number), self._name)

    def is_published(self) -> bool:
        """Whether a collection uses it: it has the alias, or a writer's mark."""
        with suppress(InputError):  # the alias is another collection's by now
            if self.about(self._name) is not None:
                return True
        tables = [name for name in self.server.ask("list_collections") if self._is_table(name) and self._is_ours(name)]
        return any((self.about(name) or {}).get(_WRITER) for name in tables)

    def about(self, name: str) -> dict[str, Any] | None:
        """The parsed description of a table; None if there is no table, an error if it is another collection's."""
        try:
            description = self.server.ask("describe_collection", name)
        except FormatError:
            return None
        held = _facts(description.get("description", ""))
        if held.get("collection") != self._owner.collection:
            raise InputError(
                f"the Milvus collection {name} at {self.address} belongs to another collection than "
                f"{self.folder}; give the address of the right store"
            )
        return held | {_WRITER: description.get("properties", {}).get(_WRITER, "")}

    def describe(self, model: Encoding) -> str:
        facts = {"collection": self._owner.collection, "model": model.fingerprint}
        return json.dumps({"made_by": "faemb", **facts, "vectors_per_image": model.vectors_per_image})

    @property
    def folder(self) -> str:
        """The collection's folder, as it can be typed."""
        return typed(self._owner.folder)

    def close(self) -> None:
        self.server.close()

    def _is_table(self, name: str) -> bool:
        """Whether a name is that of a table, or of its index; of this store or of another one with the same name."""
        return re.fullmatch(rf"{self._name}_[0-9]+(_[a-z]+_[0-9a-f]+)?", name) is not None

    def _is_ours(self, name: str) -> bool:
        description = self.server.ask("describe_collection", name)
        return bool(_facts(description.get("description", "")).get("collection") == self._owner.collection)

    def _drop_collection(self, name: str) -> None:
        for alias in self.server.ask("list_aliases", name)["aliases"]:
            self.server.ask("drop_alias", alias)
        self.server.ask("drop_collection", name)


class MilvusTable(Table):
    def __init__(self, store: MilvusStore, name: str, model: Encoding) -> None:
        self._store, self._server, self.name, self._model = store, store.server, name, model
        self.per_slot, self.dimension = model.vectors_per_image, model.dimension
        self._is_verified = False

    @property
    def home(self) -> str:
        """The collection's folder, as it can be typed."""
        return self._store.folder

    # Tables

    def exists(self) -> bool:
        """Whether the table exists; an error if it belongs to another collection or model."""
        held = self._store.about(self.name)
        if held is None:
            return False
        if held.get("model") != self._model.fingerprint:
            raise InputError(
                f"the vectors in {self._store.address} ({self.name}) were made by another model than that of "
                f"{self._store.folder}; give the address of the right store"
            )
        self._is_verified = True
        return True

    def require(self) -> None:
        if not self._is_verified and not self.exists():
            raise FormatError(
                f"{self._store.address} has no collection {self.name}, in which the vectors of {self._store.folder} "
                "were stored; restore it on the server, or compute them again with: faemb check "
                f"{self._store.folder} --repair"
            )

    def create(self) -> None:
        """Create the table, or finish an interrupted creation."""
        if not self.exists():
            self._make()
        self._complete()

    def _make(self) -> None:
        self._store.check_dimension(self._model.dimension)
        kinds, client = milvus().DataType, milvus().MilvusClient
        schema = client.create_schema(auto_id=False, description=self._store.describe(self._model))
        schema.add_field("id", kinds.INT64, is_primary=True)
        schema.add_field("image", kinds.INT64)
        schema.add_field("part", kinds.INT64)
        schema.add_field("name", kinds.VARCHAR, max_length=65_535)
        schema.add_field("hash", kinds.VARCHAR, max_length=128)
        schema.add_field("vector", kinds.FLOAT_VECTOR, dim=self.dimension)
        self._server.ask("create_collection", self.name, schema=schema, consistency_level=BOUNDED)
        self._is_verified = True

    def _complete(self) -> None:
        """Add the index, without which a Milvus collection can be written but not read."""
        if not self._server.ask("list_indexes", self.name):
            index = milvus().MilvusClient.prepare_index_params()
            index.add_index("vector", index_type="FLAT", metric_type="IP")
            self._server.ask("create_index", self.name, index)
            self._server.ask("load_collection", self.name)

    def mark(self) -> str:
        return str((self._store.about(self.name) or {}).get(_WRITER, ""))

    def set_mark(self, mark: str) -> None:
        self._server.ask("alter_collection_properties", self.name, {_WRITER: mark})

    # Rows

    def write(self, first: int, rows: Float[np.ndarray, "n w"], images: Sequence[Entry]) -> list[int]:
        if first == 0:
            self.create()
        self.require()
        content = np.ascontiguousarray(rows, "<f4")
        slots = range(first, first + len(images))
        for batch in _batches(zip(slots, images, content, strict=True), self._rows_at_once):
            self._server.ask("upsert", self.name, [each for row in batch for each in self._entities(*row)])
        return checksums(content)

    def _entities(self, slot: int, image: Entry, row: Float[np.ndarray, " w"]) -> Iterator[dict[str, Any]]:
        facts = {"image": image.id, "name": image.path, "hash": image.hash}
        for part, vector in enumerate(row.reshape(self.per_slot, self.dimension)):
            yield {"id": slot * self.per_slot + part, "part": part, "vector": vector, **facts}

    def row(self, slot: int) -> Float[np.ndarray, " w"] | None:
        return self.read([slot], STRONG).get(slot)

    def read(self, slots: Iterable[int], level: str) -> dict[int, Float[np.ndarray, " w"]]:
        """The rows of slots; missing ones are left out."""
        self.require()
        found: dict[int, np.ndarray] = {}
        for some in _batches(dict.fromkeys(map(int, slots)), self._rows_at_once):
            found |= self._read(some, level)
        return found

    def _read(self, slots: Sequence[int], level: str) -> dict[int, Float[np.ndarray, " w"]]:
        place = {slot: number for number, slot in enumerate(slots)}
        rows = np.zeros((len(slots), self.per_slot, self.dimension), "<f4")
        seen = np.zeros((len(slots), self.per_slot), bool)
        ids = [slot * self.per_slot + part for slot in slots for part in range(self.per_slot)]
        for each in self._server.ask("get", self.name, ids=ids, output_fields=["vector"], consistency_level=level):
            slot, part = divmod(each["id"], self.per_slot)
            rows[place[slot], part], seen[place[slot], part] = each["vector"], True
        return {slot: rows[number].ravel() for slot, number in place.items() if seen[number].all()}

    def vectors(self, total: int) -> tuple["Fetched", "Fetched"]:
        since = time.monotonic()
        return Fetched(self, total, since, parts=False), Fetched(self, total, since, parts=True)

    def damaged(self, images: Iterable[Entry]) -> set[int]:
        entries = [entry for entry in images if entry.slot is not None]
        if not self.exists():
            return {entry.id for entry in entries}
        held = self.read([entry.slot or 0 for entry in entries], STRONG)
        sums = {slot: zlib.crc32(row.tobytes()) for slot, row in held.items()}
        return {entry.id for entry in entries if sums.get(entry.slot or 0) != entry.vector_crc}

    def remove(self, slots: Sequence[int]) -> None:
        self._delete([slot * self.per_slot + part for slot in slots for part in range(self.per_slot)])

    def _delete(self, ids: Iterable[int]) -> None:
        for some in _batches(ids, _MOST_ROWS):
            self._server.ask("delete", self.name, ids=list(some))

    def tidy(self, live: Int[np.ndarray, " n"]) -> None:
        """Compares counts first, since comparing all ids takes long."""
        if not len(live):
            if not self.exists():
                return
            self._complete()
        self.require()
        if self._entities_held() != len(live) * self.per_slot:
            held = self._ids()
            self._delete(held[~np.isin(held // self.per_slot, live)].tolist())

    def count(self) -> int:
        return self._entities_held() // self.per_slot

    def _entities_held(self) -> int:
        self.require()
        (found,) = self._server.ask("query", self.name, filter="", output_fields=["count(*)"], consistency_level=STRONG)
        return int(found["count(*)"])

    def _ids(self) -> Int[np.ndarray, " n"]:
        return np.array(self._server.ask_by(self._all_ids, self.name), np.int64)

    def _all_ids(self, client: Any) -> list[int]:
        pages = client.query_iterator(
            self.name, batch_size=_MOST_ROWS, output_fields=["id"], consistency_level=STRONG, timeout=ONE_CALL
        )
        found: list[int] = []
        while page := pages.next():
            found += [each["id"] for each in page]
        pages.close()
        return found

    @property
    def _rows_at_once(self) -> int:
        most = min(_BATCH_BYTES // (4 * self.per_slot * self.dimension), _MOST_ROWS // self.per_slot)
        return max(1, most)

    # Search

    def nearest(
        self, queries: Float[np.ndarray, "Q D"], live: Int[np.ndarray, " n"], count: int, how: "SearchMode"
    ) -> Neighbours:
        """Nearest neighbours by slot."""
        self.require()
        if how.index is not None and not how.some and len(live):
            return self._ranked(queries, live, count, how)
        best = _none(len(queries), min(count, len(live)))
        step = max(1, min(_BATCH_BYTES // (4 * self.dimension), _MOST_ROWS))
        for start in range(0, len(queries) if len(live) else 0, step):
            some = slice(start, start + step)
            for slots, condition in self._conditions(live, how):
                found = self._search(queries[some], slots, min(count, len(slots)), condition, how.level)
                _merge(Neighbours(best.scores[some], best.rows[some]), found)
        return best

    def _ranked(
        self, queries: Float[np.ndarray, "Q D"], live: Int[np.ndarray, " n"], count: int, how: "SearchMode"
    ) -> Neighbours:
        """Candidates of an index, and all slots that it does not cover, ranked by their full vectors."""
        try:
            index, ids = self._candidates(queries, live, count, how)
        except FormatError:  # another process has replaced the index since it was opened
            self._store.indexes(self.name, self._model).forget()
            index, ids = self._candidates(queries, live, count, how)
        best, exactly = _none(len(queries), min(count, len(live))), replace(how, index=None, some=True)
        for query, found in enumerate(ids):
            one, slots = slice(query, query + 1), np.intersect1d(found // self.per_slot, live)
            _merge(Neighbours(best.scores[one], best.rows[one]), self.nearest(queries[one], slots, count, exactly))
        if len(later := live[np.searchsorted(live, index.covered) :]):
            _merge(best, self.nearest(queries, later, count, exactly))
        return best

    def _candidates(
        self, queries: Float[np.ndarray, "Q D"], live: Int[np.ndarray, " n"], count: int, how: "SearchMode"
    ) -> tuple[Indexed, list[Int[np.ndarray, " c"]]]:
        index = self._store.indexes(self.name, self._model).get(how.index or "", live, self.per_slot, self._stored)
        return index, index.candidates(queries, max(_MORE * count, _AT_LEAST) * self.per_slot)

    def _stored(self, slots: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n V D"]:
        return Fetched(self, 0, time.monotonic(), parts=True)[slots]

    def _conditions(
        self, live: Int[np.ndarray, " n"], how: "SearchMode"
    ) -> Iterator[tuple[Int[np.ndarray, " m"], str]]:
        """Slots, and the filter that selects them."""
        whole = [] if how.parts or self.per_slot == 1 else ["part == 0"]
        if not how.some:
            yield live, " and ".join(whole)
            return
        for start in range(0, len(live), _FILTERED_AT_ONCE // self.per_slot):
            slots = live[start : start + _FILTERED_AT_ONCE // self.per_slot]
            ids = (slots[:, None] * self.per_slot + np.arange(self.per_slot if how.parts else 1)).ravel()
            yield slots, f"id in [{','.join(map(str, ids.tolist()))}]"

    def _search(
        self, queries: Float[np.ndarray, "Q D"], live: Int[np.ndarray, " n"], count: int, condition: str, level: str
    ) -> Neighbours:
        """Requests more results until enough of them are images in use, each counted once."""
        limit = min(count * self.per_slot + _MARGIN, _MOST_ROWS)
        while True:
            answers = self._server.ask(
                "search",
                self.name,
                data=np.ascontiguousarray(queries, np.float32),
                limit=limit,
                filter=condition,
                anns_field="vector",
                search_params={"metric_type": "IP"},
                consistency_level=level,
            )
            best, is_enough = _none(len(queries), count), True
            for query, hits in enumerate(answers):
                slots, scores = self._chosen(hits, live, count)
                best.rows[query, : len(slots)], best.scores[query, : len(slots)] = slots, scores
                is_enough &= len(slots) == count or len(hits) < limit
            if is_enough:
                return best
            if limit == _MOST_ROWS:
                raise InputError(
                    f"{count:,} results are wanted; a store in Milvus gives {_MOST_ROWS // self.per_slot:,} at most"
                )
            limit = min(4 * limit, _MOST_ROWS)

    def _chosen(
        self, hits: Sequence[Any], live: Int[np.ndarray, " n"], count: int
    ) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """Slots and scores of the first `count` images in use among the hits of a query, best first."""
        slots = np.array([hit["id"] for hit in hits], np.int64) // self.per_slot
        scores = np.array([hit["distance"] for hit in hits], np.float32)
        known = live[np.minimum(np.searchsorted(live, slots), len(live) - 1)] == slots
        first = np.zeros(len(slots), bool)
        first[np.unique(slots, return_index=True)[1]] = True
        kept = np.flatnonzero(known & first)[:count]
        return slots[kept], scores[kept]


@dataclass(frozen=True)
class SearchMode:
    parts: bool
    """The similarity of an image is the largest of all its vectors; otherwise that of the whole image's vector."""
    some: bool
    """Only some of the images in use may be results."""
    level: str
    """Consistency level."""
    index: str | None = None
    """Kind of index that selects candidates; None: all images are compared."""


class Fetched(RemoteVectors):
    """Rows of a table, for a state of the catalogue that was read at the time `since`."""

    indexes = tuple(KINDS)

    def __init__(self, table: MilvusTable, total: int, since: float, *, parts: bool) -> None:
        self._table, self._since, self._parts = table, since, parts
        self.shape = (total, table.per_slot, table.dimension) if parts else (total, table.dimension)

    @property
    def _level(self) -> str:
        return consistency(self._since)

    def __getitem__(self, slots: Any) -> Float[np.ndarray, "..."]:
        wanted = np.asarray(slots, np.int64)
        held = self._table.read(wanted.ravel().tolist(), self._level)
        if missing := [slot for slot in wanted.ravel().tolist() if slot not in held]:
            raise FormatError(
                f"{self._table.name} in Milvus lacks {len(missing):,} of the vectors that the catalogue names; run: "
                f"faemb check {self._table.home} --repair"
            )
        rows = np.empty((wanted.size, self._table.per_slot, self._table.dimension), np.float32)
        for number, slot in enumerate(wanted.ravel().tolist()):
            rows[number] = held[slot].reshape(rows.shape[1:])
        return (rows if self._parts else rows[:, 0]).reshape(*wanted.shape, *self.shape[1:])

    def nearest(
        self,
        queries: Float[np.ndarray, "Q D"],
        live: Int[np.ndarray, " n"],
        count: int,
        *,
        some: bool,
        index: str | None = None,
    ) -> Neighbours:
        return self._table.nearest(queries, live, count, SearchMode(self._parts, some, self._level, index))


def _none(queries: int, count: int) -> Neighbours:
    return Neighbours(np.full((queries, count), -np.inf, np.float32), np.full((queries, count), -1, np.int64))


def _merge(best: Neighbours, found: Neighbours) -> None:
    """Merge `found` into `best`, in place; equal scores in order of slot."""
    scores = np.concatenate([best.scores, found.scores], axis=1)
    rows = np.concatenate([best.rows, found.rows], axis=1)
    order = np.lexsort((rows, -scores), axis=-1)[:, : best.scores.shape[1]]
    best.scores[:] = np.take_along_axis(scores, order, -1)
    best.rows[:] = np.take_along_axis(rows, order, -1)


def _facts(description: str) -> dict[str, Any]:
    try:
        held = json.loads(description)
    except ValueError:
        return {}
    return held if isinstance(held, dict) and held.get("made_by") == "faemb" else {}


def _batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    left = iter(items)
    while some := list(islice(left, size)):
        yield some
