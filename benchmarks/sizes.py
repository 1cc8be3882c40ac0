"""Bytes per image of everything that a collection stores, measured on the files of real collections.

    FAEMB_DATA=... python -m benchmarks sizes

Catalogue, vectors, features and thumbnails: of a collection of photographs. Indexes: of 20,000 rows made from vectors
of photographs (enlarged.py); an index of one half of them is extended by the other, so that the difference in length
has no part that comes once.
"""

import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from benchmarks import affine
from benchmarks.enlarged import enlarged_collection
from benchmarks.report import Result
from faemb.collection import Collection, Model
from faemb.collection.backends import APPROXIMATE
from faemb.collection.layout import Layout
from faemb.collection.reading import View

_PHOTOGRAPHS = 300
_UNIT = "bytes/image"


def run() -> Iterator[Result]:
    data = affine.data_folder()
    with tempfile.TemporaryDirectory() as scratch:
        rows = enlarged_collection(Path(scratch))
        if rows is None:
            return
        if data is not None:
            yield from of_photographs(data / "holidays811", rows.images.model, Path(scratch) / "stored.faemb")
        with Collection.open(rows.folder) as collection:
            view = collection.view()
            arrays = view.slots, view.ids, view.position
            held = sum(array.nbytes for array in arrays) / len(view.slots)
            yield Result("slot, number and position of an image in an open collection", held, _UNIT)
            yield from of_indexes(view, Path(scratch))


def of_photographs(photographs: Path, model: Model, folder: Path) -> Iterator[Result]:
    with Collection.create(folder, model) as collection:
        collection.add(list(islice(sorted(photographs.rglob("*.jpg")), _PHOTOGRAPHS)))
        entries = list(collection.entries())
    layout, count = Layout(folder), len(entries)
    letters, features = (sum(each) / count for each in zip(*((len(e.path), e.features) for e in entries), strict=True))
    for name, file in (
        ("full vector", layout.vectors(1)),
        (f"catalogue, names of {letters:.0f} letters", layout.catalogue),
        (f"local features, {features:.0f} points", layout.features(1)),
        ("thumbnail", layout.thumbnails),
    ):
        yield Result(name, file.stat().st_size / count, _UNIT)
    yield Result("model, once", layout.model().stat().st_size, "bytes")


def of_indexes(view: View, scratch: Path) -> Iterator[Result]:
    half = len(view.slots) // 2
    for kind in APPROXIMATE.values():
        file, lengths = scratch / f"{kind.name}.faiss", []
        index = kind.build(view._rows[:half], view.slots[:half])
        for later in (view._rows[:0], view._rows[half:]):
            index.extend(later)
            index.save(file)
            lengths.append(file.stat().st_size)
        each = (lengths[1] - lengths[0]) / (len(view.slots) - half)
        yield Result(f"index {kind.name}", each, _UNIT)
        yield Result(f"index {kind.name}, once", lengths[0] - half * each, "bytes")
