"""Vectors of photographs, enlarged to as many rows as a benchmark needs, and collections of them.

Each row resamples an image and perturbs it: row = s o + sqrt(1 - s^2) m. o is the vector of a random image; s is drawn
from the similarities of the images to their nearest neighbours; m is the part of a random mixture of 16 other images
that is orthogonal to o, of length 1. So rows have the spectrum of the images, and each row is as near to the image that
it comes from as images are to their nearest. Queries are images from which no row comes.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from benchmarks import affine
from faemb.collection import Collection
from faemb.collection.catalogue import Catalogue
from faemb.collection.layout import Layout
from faemb.collection.locking import only_writer
from faemb.collection.model import Model, new_model
from faemb.collection.stores.embedded import EmbeddedTable
from faemb.collection.writing import Writer
from faemb.normalise import unit_length

SOURCE = "FAEMB_ENLARGE"
"""Environment variable: a collection of photographs; if not given, one is made of those under FAEMB_DATA."""
ROWS, FOLDER = "FAEMB_CODES_ROWS", "FAEMB_CODES_FOLDER"
_QUERIES = 100
_MIXED = 16
_AT_ONCE = 8192


class Photographs(NamedTuple):
    model: Model
    vectors: np.ndarray
    queries: np.ndarray


class Enlarged(NamedTuple):
    images: Photographs
    folder: Path
    """A collection of rows made from them."""


def enlarged_collection(scratch: Path) -> Enlarged | None:
    """A collection of as many rows as are asked for; None, which is told, if there are no photographs."""
    kept = Path(os.environ.get(FOLDER, scratch))
    images, rows = photographs(kept, _QUERIES), int(os.environ.get(ROWS, "20000"))
    if images is None:
        print(f"left out: set FAEMB_DATA, or {SOURCE} to a collection of photographs")
        return None
    folder = kept / f"rows-{rows}.faemb"
    if not folder.exists():
        start = time.perf_counter()
        collection_of(folder, images.model, enlarged(images.vectors, rows))
        print(f"{rows:,} rows written in {time.perf_counter() - start:.0f} s", flush=True)
    return Enlarged(images, folder)


def photographs(kept: Path, queries: int) -> Photographs | None:
    """Vectors of real images by one model, and some of them apart as queries; None if there is no data."""
    given, data = os.environ.get(SOURCE), affine.data_folder()
    if given is None and data is None:
        return None
    folder = Path(given) if given else _indexed(data or Path(), kept / "photographs.faemb")
    with Collection.open(folder) as collection:
        view, model = collection.view(), collection.model
        vectors = np.array(view.vectors[view.slots])
    order = np.random.default_rng(0).permutation(len(vectors))
    return Photographs(model, vectors[order[queries:]], vectors[order[:queries]])


def _indexed(data: Path, folder: Path) -> Path:
    """Learned from flickr1500, so that the others are as new to the model as those of its users."""
    if folder.exists():
        return folder
    with Collection.create(folder, new_model(), keep_features=False) as collection:
        collection.make_thumbnails = False
        collection.add(data / "flickr1500")
        for others in ("holidays811", "ukbench400"):
            collection.add(data / others, relearn=False)
    return folder


def enlarged(images: np.ndarray, count: int, seed: int = 1) -> Iterator[np.ndarray]:
    """Blocks of `count` rows in all."""
    rng = np.random.default_rng(seed)
    similarities = images @ images.T
    np.fill_diagonal(similarities, -1)
    nearest = np.clip(similarities.max(axis=1), 0, 1)
    for start in range(0, count, _AT_ONCE):
        rows = min(_AT_ONCE, count - start)
        origin = images[rng.integers(len(images), size=rows)]
        chosen = rng.integers(len(images), size=rows * _MIXED)
        weights = rng.standard_normal(rows * _MIXED).astype(np.float32)
        mixture = csr_array((weights, chosen, np.arange(0, rows * _MIXED + 1, _MIXED)), (rows, len(images))) @ images
        mixture -= np.einsum("nd,nd->n", mixture, origin)[:, None] * origin
        similar = rng.choice(nearest, (rows, 1)).astype(np.float32)
        yield similar * origin + np.sqrt(1 - similar**2) * unit_length(mixture)


Row = dict[str, str | int]


def row_of_no_file(number: int) -> Row:
    """An image in the catalogue whose file does not exist: sizes and contents differ, as those of photographs do."""
    size = 100_000 + number * 7919 % 4_000_000
    return {"path": f"/photographs/{number // 1000:04}/{number:09}.jpg", "bytes": size, "changed": number}


def collection_of(
    folder: Path, model: Model, blocks: Iterable[np.ndarray], row_of: Callable[[int], Row] = row_of_no_file
) -> None:
    """A collection whose catalogue and vectors are written as those of copies are, which need no features."""
    Collection.create(folder, model, keep_features=False).close()
    layout, number = Layout(folder), 0
    catalogue = Catalogue(layout.catalogue)
    with only_writer(layout):
        writer = Writer(layout, catalogue)
        for block in blocks:
            with catalogue.change():
                for crc in EmbeddedTable(layout, writer.generation, model).file.write(number, block):
                    usual: Row = {"hash": f"{number:032x}", "width": 1024, "height": 768, "features": 1000}
                    catalogue.put({**usual, **row_of(number), "slot": number, "vector_crc": crc})
                    number += 1
                catalogue.use(slots=number)
        writer.encode_waiting(model)
    catalogue.close()
