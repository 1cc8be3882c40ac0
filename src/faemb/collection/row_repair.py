"""Damaged rows of the catalogue: which there are, and what can be made of them.

Vectors and local features have checksums of their own, so that they tell which values of an image's row are right. The
rest is read from the image file, now or, if the file is away, by the next `update`.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from faemb.collection.catalogue import Catalogue, Entry
from faemb.collection.description import Encoding
from faemb.collection.layout import typed
from faemb.collection.rows import DamagedRow
from faemb.collection.sources import is_there
from faemb.collection.stored import stored_features
from faemb.collection.writing import Writer
from faemb.errors import FaembError

_CONSEQUENCE = {
    "folders": "; it was forgotten: give the folder again with: faemb add {folder} FOLDER",
    "removed": "; it was forgotten: `faemb update` may bring a removed image back",
}


class RowFault(NamedTuple):
    sentence: str
    image: str | None = None
    """Name of an image whose file must be read."""


def row_faults(catalogue: Catalogue) -> list[RowFault]:
    """A sentence for each row that does not match its checksum."""
    return [RowFault(_sentence_for(row)) for row in catalogue.damaged_rows()]


def repair_rows(writer: Writer, model: Encoding | None) -> list[RowFault]:
    """Correct the rows of images as far as their data allows, and drop damaged rows of other tables."""
    found = writer.catalogue.damaged_rows()
    if not found:
        return []
    with writer.catalogue.change():
        return [_repaired(writer, model, row) for row in found]


def _repaired(writer: Writer, model: Encoding | None, row: DamagedRow) -> RowFault:
    path = row.values.get("path")
    if row.table != "images" or not isinstance(path, str):
        writer.catalogue.drop_row(row)
        more = _CONSEQUENCE.get(row.table, "").format(folder=typed(writer.layout.folder))
        return RowFault(_sentence_for(row) + more)
    entry = _confirmed(writer, model, row)
    writer.catalogue.rewrite(row, **{name: value for name, value in vars(entry).items() if name != "id"})
    if is_there(writer.layout.path_of(path)) or (entry.slot is None and entry.offset is None):
        return RowFault(_sentence_for(row), path)
    return RowFault(f"{_sentence_for(row)}; its file is not there and is read by the next update")


def _confirmed(writer: Writer, model: Encoding | None, row: DamagedRow) -> Entry:
    """The row's values that are possible and confirmed by stored data; its file counts as changed."""
    held: dict[str, Any] = {name: value if _is_count(value) else None for name, value in row.values.items()}
    text = {name: str(row.values[name]) for name in ("path", "hash")}
    size = {name: held[name] or 0 for name in ("width", "height")}
    entry = Entry(**{**held, **text, **size, "bytes": 0, "changed": 0, "features": max(1, held["features"] or 1)})
    if entry.slot is None or model is None or writer.table(model).damaged([entry]):
        entry = replace(entry, slot=None, vector_crc=None)
    try:
        features = stored_features(writer.layout.features(writer.generation), entry)
    except FaembError:
        return replace(entry, offset=None, length=None, features_crc=None)
    width, height = features.image_size
    return replace(entry, features=len(features), width=width, height=height)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _sentence_for(row: DamagedRow) -> str:
    if row.table == "images":
        return f"{row.values['path']}: its row in the catalogue is damaged"
    return f"{next(iter(row.values.values()))}: its row in the table {row.table} of the catalogue is damaged"
