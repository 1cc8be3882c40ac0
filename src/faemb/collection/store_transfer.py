"""A collection's vectors are copied from one store to another, which takes the place of the first.

All rows are compared with their checksums on the way. The copy is counted and searched; then one transaction names it,
and the first store is deleted. A process that is killed leaves the first store in use, or the second: what is left of
the other is named in the catalogue, and deleted by the next copy or by the next change.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from faemb.collection.catalogue import Catalogue, Entry
from faemb.collection.layout import Layout, repair_command, typed
from faemb.collection.model import Model
from faemb.collection.stores.addresses import EMBEDDED, parse
from faemb.collection.stores.attached import made_store, new_identity
from faemb.collection.stores.embedded import Embedded
from faemb.collection.stores.milvus_server import waiting_at_most
from faemb.collection.stores.store import Store, Table, nearest_in
from faemb.collection.writing import Writer, writing_to
from faemb.errors import FaembError, FormatError, InputError

_COPIED_BYTES = 32_000_000
_SEARCHES, _RESULTS, _TOLERANCE = 16, 10, 1e-4
_LEFT = ("left_store", "left_store_id")
"""Facts of a store that was in use: to be deleted."""
_COMING = ("coming_store", "coming_store_id")
"""Facts of a store to which vectors are being copied: to be deleted if that was interrupted. A backup of the folder
that was made meanwhile has them too, so that a store which was published since is another copy's, and is kept."""
_TRIED = "left_tried"
_TRY_AGAIN, _PATIENCE = 24 * 3600, 2.0
"""Seconds between two attempts to delete a store whose server does not answer, and for each of them."""


def copy(writer: Writer, model: Model, address: str) -> int:
    """Copy all vectors to an address, or to "embedded", and use them there; returns the number of images."""
    layout, catalogue = writer.layout, writer.catalogue
    where = EMBEDDED if address == EMBEDDED else str(parse(address, "ADDRESS"))
    _require_possible(writer, where)
    _try_now(catalogue)
    clear_away(layout, catalogue)
    identity = new_identity()
    target = Embedded(layout) if where == EMBEDDED else made_store(layout, where, identity)
    try:
        if model.is_fitted:
            target.check_dimension(model.dimension)
        if where != EMBEDDED:
            target.require_free()
            with catalogue.change():
                _name(catalogue, _COMING, where, identity)  # if this is stopped, the next one deletes it
        entries = sorted(catalogue.entries("slot is not null"), key=lambda entry: entry.slot or 0)
        if model.is_fitted and entries:
            _copied(writer, model, target, entries)
        _switch(writer, where, identity, entries)
        if model.is_fitted and entries:
            target.publish(writer.catalogue.table())
    finally:
        target.close()
    writer.sweep()
    clear_away(layout, catalogue)
    return len(entries)


def clear_away(layout: Layout, catalogue: Catalogue) -> None:
    """Delete stores that are not in use any more; if their server is away, it is tried again a day later."""
    about = catalogue.about()
    if not about.keys() & {*_LEFT, *_COMING} or _was_tried(about):
        return
    try:
        with waiting_at_most(_PATIENCE):
            for facts in (_COMING, _LEFT):
                if about.keys() >= set(facts):
                    _delete(layout, *(about[name] for name in facts), if_published=facts is _LEFT)
                    with catalogue.change():
                        catalogue.forget(*facts)
    except FaembError:
        with catalogue.change():
            catalogue.set(_TRIED, str(int(time.time())))


def left_stores(catalogue: Catalogue) -> list[str]:
    """Addresses of stores that are not in use and could not be deleted yet."""
    about = catalogue.about()
    return [about[facts[0]] for facts in (_COMING, _LEFT) if facts[0] in about]


def forget_store(layout: Layout, catalogue: Catalogue, address: str) -> None:
    """Do not try any more to delete a store that is not in use; an error if no such store is known."""
    known = catalogue.about()
    named = [facts for facts in (_COMING, _LEFT) if known.get(facts[0]) == str(parse(address, "ADDRESS"))]
    if not named:
        others = ", ".join(left_stores(catalogue)) or "there are none"
        raise InputError(f"{layout.folder} has not left a store at {address}; stores that it has left: {others}")
    with catalogue.change():
        catalogue.forget(*(name for facts in named for name in facts))


def _was_tried(about: Mapping[str, str]) -> bool:
    """Whether the server did not answer within the last day."""
    with suppress(KeyError, ValueError):
        return 0 <= time.time() - int(about[_TRIED]) < _TRY_AGAIN
    return False


def _delete(layout: Layout, address: str, identity: str, *, if_published: bool) -> None:
    with closing(made_store(layout, address, identity)) as store:
        if if_published or not store.is_published():
            store.sweep(())


def _require_possible(writer: Writer, where: str) -> None:
    folder, store = writer.layout.folder, writer.store
    if where == (store.address or EMBEDDED):
        raise InputError(f"the vectors of {folder} are there already ({where})")
    if writer.catalogue.relearning() is not None:
        raise InputError(
            f"learning the model of {folder} again was interrupted; finish it first with: faemb relearn {typed(folder)}"
        )


def _copied(writer: Writer, model: Model, target: Store, entries: Sequence[Entry]) -> None:
    """Rows in the order of their slots, without gaps; an error if the copy is not equal."""
    number = writer.catalogue.generation()
    target.drop(number)
    old, new = writer.table(model), target.table(number, model)
    slots = np.array([entry.slot for entry in entries], np.int64)
    rows = _all_vectors(old, int(slots[-1]) + 1)
    step = max(1, _COPIED_BYTES // (4 * model.dimension * model.vectors_per_image))
    for start in range(0, len(entries), step):
        writer.progress("copy", start, len(entries))
        some = entries[start : start + step]
        with writing_to(writer.layout.folder):
            content = np.asarray(rows[slots[start : start + step]]).reshape(len(some), -1)
            crcs = new.write(start, content, some)
        for entry, crc in zip(some, crcs, strict=True):
            if crc != entry.vector_crc:
                cure = repair_command(writer.layout.catalogue)
                raise FormatError(f"the vector of {entry.path} is damaged, so nothing was copied; run: {cure}")
    writer.progress("copy", len(entries), len(entries))
    _require_equal(old, new, slots)


def _require_equal(old: Table, new: Table, slots: Int[np.ndarray, " n"]) -> None:
    """Compare the number of rows, and the answers to some searches."""
    if (held := new.count()) != len(slots):
        raise FaembError(f"the copy has {held:,} of {len(slots):,} rows, so it is not used; run the same command again")
    chosen = np.unique(np.linspace(0, len(slots) - 1, _SEARCHES).astype(np.int64))
    queries = np.ascontiguousarray(old.vectors(int(slots[-1]) + 1)[0][slots[chosen]])
    before = _scores(old, queries, slots)
    after = _scores(new, queries, np.arange(len(slots)))
    if not np.allclose(before, after, atol=_TOLERANCE):
        raise FaembError("searches in the copy give other results, so it is not used; run the same command again")


def _scores(table: Table, queries: Float[np.ndarray, "Q D"], live: Int[np.ndarray, " n"]) -> Float[np.ndarray, "Q k"]:
    return nearest_in(_all_vectors(table, int(live[-1]) + 1), queries, live, _RESULTS).scores


def _all_vectors(table: Table, total: int) -> Any:
    whole, stored = table.vectors(total)
    return whole if stored is None else stored


def _switch(writer: Writer, where: str, identity: str, entries: Sequence[Entry]) -> None:
    catalogue = writer.catalogue
    before = catalogue.store()
    with catalogue.change():
        for slot, entry in enumerate(entries):  # never behind the old slot, so that it is free
            catalogue.move(entry.id, slot=slot, offset=entry.offset)
        catalogue.use(slots=len(entries))
        catalogue.forget_freed()
        catalogue.forget(*_COMING)
        if where == EMBEDDED:
            catalogue.detach()
        else:
            catalogue.attach(where, identity, catalogue.generation())
        if before is not None:
            _name(catalogue, _LEFT, writer.store.address or before[0], before[1])
            catalogue.forget_freed_slots()


def _name(catalogue: Catalogue, facts: tuple[str, str], address: str, identity: str) -> None:
    catalogue.forget(_TRIED)
    for name, value in zip(facts, (address, identity), strict=True):
        catalogue.set(name, value)


def _try_now(catalogue: Catalogue) -> None:
    with catalogue.change():
        catalogue.forget(_TRIED)
