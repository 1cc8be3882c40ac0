"""Comparison of a collection with its checksums, and repair.

Damaged data is dropped and computed again: vectors from local features, local features and thumbnails from the image
files.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from faemb.collection.backends import is_undamaged
from faemb.collection.catalogue import Catalogue, Entry
from faemb.collection.current_model import CurrentModel
from faemb.collection.gathering import gather_again, gather_thumbnails
from faemb.collection.layout import Layout
from faemb.collection.model import Model
from faemb.collection.row_repair import repair_rows
from faemb.collection.stored import stored_features, vector_file, vector_matches
from faemb.collection.thumbnails import Thumbnails
from faemb.collection.writing import Report, Writer, writing_to
from faemb.errors import FaembError, FormatError


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


def faults(current: CurrentModel) -> Iterator[Fault]:
    """Images whose data does not match its checksums; another process may change the collection meanwhile."""
    with current.snapshot() as model:
        generation, entries = current.catalogue.generation(), list(current.catalogue.sound_entries())
    for entry in entries:
        found = _confirmed(current, model, (generation, entry))
        if found is not None:
            yield found


def damaged_indexes(layout: Layout, catalogue: Catalogue) -> list[Path]:
    """Index files that do not match their checksums; once deleted, they are rebuilt when needed."""
    return [path for path in layout.indexes(catalogue.generation()) if not is_undamaged(path)]


def repair(writer: Writer, current: CurrentModel, jobs: int | None) -> list[str]:
    """Compute damaged data again from undamaged data; a sentence for each image.

    Lost features whose file cannot be read are forgotten if the image has its vector; an image with neither is removed.
    If this is stopped, the next repair continues.
    """
    model = current.get()
    rows = repair_rows(writer, model)
    to_read = [row.image for row in rows if row.image is not None]
    found = [fault for fault in faults(current) if fault.entry.path not in to_read]
    if found or to_read:
        _drop(writer, model, found)
        names = [*(fault.entry.path for fault in found if fault.needs_file), *to_read]
        lost = [writer.catalogue.entry(name) for name in names]
        gather_again(writer, [entry for entry in lost if entry is not None], model, jobs, Report())
    restored = _restore_features(writer, model, jobs)
    if model.is_fitted:
        writer.encode_waiting(model)
    told = [(row.sentence, row.image) for row in rows] + [(str(fault), fault.entry.path) for fault in found]
    return [*(sentence + _end(writer, image) for sentence, image in told), *restored]


def _end(writer: Writer, image: str | None) -> str:
    if image is None or writer.catalogue.entry(image) is not None:
        return ""
    return "; nothing is left to compute it from, so the image was removed"


def _restore_features(writer: Writer, model: Model, jobs: int | None) -> list[str]:
    """Extract features that an earlier repair had to give up, because the file was away; a sentence for each image."""
    if not writer.keep_features:
        return []
    lost = list(writer.catalogue.entries("features > 0 and offset is null"))
    gather_again(writer, lost, model, jobs, Report())
    now = (writer.catalogue.entry(entry.path) for entry in lost)
    return [f"the local features of {entry.path} were missing" for entry in now if entry and entry.offset is not None]


def thumbnail_faults(thumbnails: Thumbnails) -> list[str]:
    """Damage of stored thumbnails; missing ones are no fault, since the image file may be away."""
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


def _drop(writer: Writer, model: Model, found: Sequence[Fault]) -> None:
    with writer.catalogue.change():
        for fault in found:
            if fault.features:
                writer.catalogue.forget_features("id = ?", fault.entry.id)
            if fault.vector:
                writer.catalogue.forget_vector(fault.entry.id)
        _continue_within_files(writer, model)


def _continue_within_files(writer: Writer, model: Model) -> None:
    """New data follows the end of a file that was cut short; the catalogue must name nothing behind it any more."""
    layout, catalogue, generation = writer.layout, writer.catalogue, writer.generation
    if catalogue.free_offset() > (size := _size(layout.features(generation))):
        catalogue.use(offsets=size)
    if not model.is_fitted:
        return
    file = vector_file(layout, generation, model)
    if catalogue.free_slot() > (slots := _size(file.path) // file.row_bytes):
        catalogue.use(slots=slots)
        for index in layout.indexes(generation):  # they cover slots that get other vectors now
            index.unlink(missing_ok=True)


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def _confirmed(current: CurrentModel, model: Model, known: tuple[int, Entry]) -> Fault | None:
    """A fault counts only if the catalogue still has the same entry: the data may have been replaced meanwhile."""
    while (found := _compared(current.layout, model, *known)) is not None:
        with current.snapshot() as model:
            generation, entry = current.catalogue.generation(), current.catalogue.entry(found.entry.path)
        if entry is None or (generation, entry) == known:
            return found if entry is not None else None
        known = generation, entry
    return None


def _compared(layout: Layout, model: Model, generation: int, entry: Entry) -> Fault | None:
    if entry.slot is None:
        vector = entry.features > 0 and entry.offset is None  # its vector cannot be computed
    else:
        vector = not vector_matches(layout, generation, model, entry)
    features = entry.offset is not None and not _features_match(layout, generation, entry)
    return Fault(entry, vector, features) if vector or features else None


def _features_match(layout: Layout, generation: int, entry: Entry) -> bool:
    try:
        stored_features(layout.features(generation), entry)
    except (FaembError, OSError):
        return False
    return True
