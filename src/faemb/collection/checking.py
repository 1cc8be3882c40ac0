"""Comparison of a collection with its checksums, and repair.

Damaged data is dropped and computed again: vectors from local features, local features and thumbnails from the image
files.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from faemb.collection.catalogue import Catalogue, Entry
from faemb.collection.current_model import CurrentModel
from faemb.collection.description import Encoding
from faemb.collection.gathering import gather_again, gather_thumbnails
from faemb.collection.index_files import is_undamaged
from faemb.collection.layout import Layout
from faemb.collection.model import Model
from faemb.collection.relearning import no_notice, obstacle, relearn
from faemb.collection.row_repair import repair_rows, row_faults
from faemb.collection.stored import stored_features
from faemb.collection.stores.embedded import EmbeddedTable
from faemb.collection.stores.store import Table
from faemb.collection.thumbnails import Thumbnails
from faemb.collection.writing import Report, Writer, writing_to
from faemb.errors import FaembError, FormatError, InputError, ModelFileError

_COMPARED_AT_ONCE = 256
"""Number of images whose vectors are read at once."""


@dataclass(frozen=True)
class Fault:
    """The damaged data of one image."""

    entry: Entry
    vector: bool
    features: bool

    def __str__(self) -> str:
        parts = [name for name, bad in (("vector", self.vector), ("local features", self.features)) if bad]
        return f"{self.entry.path}: its {' and '.join(parts)} {'are' if self.features else 'is'} damaged"

    @property
    def needs_file(self) -> bool:
        """Whether the damaged data can only be computed from the image file."""
        return self.features or self.entry.offset is None


class _UnknownTable:
    """Vectors whose dimension is not known, because the model is damaged, and an earlier version has saved it."""

    def damaged(self, images: Iterable[Entry]) -> set[int]:
        return set()


def all_faults(current: CurrentModel, thumbnails: Thumbnails) -> list[str]:
    """A sentence for each item that does not match its checksum; indexes are not among them."""
    model = current.summary().fault
    return [
        *([] if model is None else [model]),
        *(row.sentence for row in row_faults(current.catalogue)),
        *map(str, faults(current)),
        *thumbnail_faults(thumbnails),
    ]


def faults(current: CurrentModel) -> Iterator[Fault]:
    """Images whose data does not match its checksums; another process may change the collection meanwhile."""
    with current.catalogue.consistent(lambda: _table(current)) as table:
        generation, entries = current.catalogue.generation(), list(current.catalogue.sound_entries())
    for start in range(0, len(entries), _COMPARED_AT_ONCE):
        some = entries[start : start + _COMPARED_AT_ONCE]
        doubtful = _without_vectors(table, some)
        for entry in some:
            if entry.id in doubtful or not _features_match(current.layout, generation, entry):
                found = _confirmed(current, (generation, entry))
                if found is not None:
                    yield found


def damaged_indexes(layout: Layout, catalogue: Catalogue) -> list[Path]:
    """Index files that do not match their checksums; once deleted, they are rebuilt when needed."""
    return [path for path in layout.indexes(catalogue.generation()) if not is_undamaged(path)]


def repair(writer: Writer, current: CurrentModel, jobs: int | None) -> list[str]:
    """Compute damaged data again from undamaged data; a sentence for each image.

    If features are lost and the file cannot be read, an image with a vector is kept without features; one with neither
    is removed. An interrupted repair is continued by the next one.
    """
    damage = current.damage()
    model = current.get() if damage is None else current.to_learn()
    encoding = None if damage is not None else current.encoding()
    if damage is not None and not writer.keep_features:
        raise InputError(f"{damage}; {obstacle(writer.layout, writer.catalogue)}")
    rows = repair_rows(writer, encoding)
    to_read = [row.image for row in rows if row.image is not None]
    found = [fault for fault in faults(current) if fault.entry.path not in to_read]
    if found or to_read:
        _drop(writer, encoding, found)
        names = [*(fault.entry.path for fault in found if fault.needs_file), *to_read]
        lost = [writer.catalogue.entry(name) for name in names]
        gather_again(writer, [entry for entry in lost if entry is not None], model, jobs, Report())
    restored = _restore_features(writer, model, jobs)
    if damage is not None:
        restored += [_learn_again(writer, current, model, damage)]
    elif model.is_fitted:
        writer.encode_waiting(model)
    told = [(row.sentence, row.image) for row in rows] + [(str(fault), fault.entry.path) for fault in found]
    return [*(sentence + _end(writer, image) for sentence, image in told), *restored]


def _learn_again(writer: Writer, current: CurrentModel, model: Model, damage: str) -> str:
    """Replace a damaged model by one with its settings, learned from the stored features; a sentence about it."""
    if not writer.catalogue.about()["model"]:  # it had learned nothing that was used
        with writer.catalogue.change():
            model.save(writer.layout.model(writer.catalogue.in_use().model), overwrite=True)
        return damage
    try:
        done = relearn(writer, model, no_notice)
    except InputError as error:
        raise InputError(f"{damage}; {error}") from error
    current.keep(done.model, done.fingerprint)
    return f"{damage}; the model was learned again from {done.learned_from:,} images"


def _end(writer: Writer, image: str | None) -> str:
    if image is None or writer.catalogue.entry(image) is not None:
        return ""
    return "; nothing is left to compute it from, so the image was removed"


def _restore_features(writer: Writer, model: Model, jobs: int | None) -> list[str]:
    """Extract features that an earlier repair dropped because the file was missing; a sentence for each image."""
    if not writer.keep_features:
        return []
    lost = list(writer.catalogue.entries("features > 0 and offset is null"))
    gather_again(writer, lost, model, jobs, Report())
    now = (writer.catalogue.entry(entry.path) for entry in lost)
    return [f"the local features of {entry.path} were missing" for entry in now if entry and entry.offset is not None]


def thumbnail_faults(thumbnails: Thumbnails) -> list[str]:
    """Damage of stored thumbnails; missing ones are not reported, since the image file may be missing too."""
    try:
        damaged = thumbnails.damaged()
    except FormatError:
        return [f"the thumbnails in {thumbnails.path} are damaged"]
    except FaembError as error:
        return [str(error)]
    return [f"damaged thumbnails in {thumbnails.path}: {len(damaged)}"] if damaged else []


def repair_thumbnails(writer: Writer, jobs: int | None) -> list[str]:
    """Drop damaged thumbnails and dates, and make those that are missing; sentences if there were any."""
    found = thumbnail_faults(writer.thumbnails)
    if found:
        with writing_to(writer.layout.folder):
            writer.thumbnails.rebuild(set(writer.catalogue.hashes().values()))
    made, dated = gather_thumbnails(writer, jobs)
    if found or made:
        return found or [f"missing thumbnails in {writer.thumbnails.path}: {made}"]
    return [f"missing dates of photographs in {writer.thumbnails.path}: {dated}"] if dated else []


def _drop(writer: Writer, encoding: Encoding | None, found: Sequence[Fault]) -> None:
    with writer.catalogue.change():
        for fault in found:
            if fault.features:
                writer.catalogue.forget_features(fault.entry.id)
            if fault.vector:
                writer.catalogue.forget_vector(fault.entry.id)
        _continue_within_files(writer, encoding)


def _continue_within_files(writer: Writer, encoding: Encoding | None) -> None:
    """After damaged entries were dropped: let new data be appended at the end of a truncated file."""
    layout, catalogue, generation = writer.layout, writer.catalogue, writer.generation
    if catalogue.free_offset() > (size := _size(layout.features(generation))):
        catalogue.use(offsets=size)
    if encoding is None:
        return
    table = writer.table(encoding)
    if not isinstance(table, EmbeddedTable):
        return
    file = table.file
    if catalogue.free_slot() > (slots := _size(file.path) // file.row_bytes):
        catalogue.use(slots=slots)
        for index in layout.indexes(generation):  # they cover slots that get other vectors now
            index.unlink(missing_ok=True)


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def _confirmed(current: CurrentModel, known: tuple[int, Entry]) -> Fault | None:
    """The fault, if the catalogue still has the same entry: the data may have been replaced meanwhile."""
    table = _table(current)
    while (found := _compared(current.layout, table, *known)) is not None:
        with current.catalogue.consistent(lambda: _table(current)) as table:
            generation, entry = current.catalogue.generation(), current.catalogue.entry(found.entry.path)
        if entry is None or (generation, entry) == known:
            return found if entry is not None else None
        known = generation, entry
    return None


def _compared(layout: Layout, table: Table | _UnknownTable | None, generation: int, entry: Entry) -> Fault | None:
    vector, features = bool(_without_vectors(table, [entry])), not _features_match(layout, generation, entry)
    return Fault(entry, vector, features) if vector or features else None


def _table(current: CurrentModel) -> Table | _UnknownTable | None:
    """The table of vectors of the current state; None if the model is not fitted."""
    try:
        encoding = current.encoding()
    except ModelFileError:
        return _UnknownTable()
    return None if encoding is None else current.store.get().table(current.catalogue.table(), encoding)


def _without_vectors(table: Table | _UnknownTable | None, entries: Sequence[Entry]) -> set[int]:
    """Ids of the images whose vector is damaged, or cannot be computed."""
    lost = {entry.id for entry in entries if entry.slot is None and entry.features > 0 and entry.offset is None}
    placed = [entry for entry in entries if entry.slot is not None]
    return lost | (table.damaged(placed) if table is not None else {entry.id for entry in placed})


def _features_match(layout: Layout, generation: int, entry: Entry) -> bool:
    if entry.offset is None:
        return True
    try:
        stored_features(layout.features(generation), entry)
    except (FaembError, OSError):
        return False
    return True
