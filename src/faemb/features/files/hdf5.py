"""Safe reading of arrays from an HDF5 file: only hard links, only data stored in the file itself, only bounded sizes.

HDF5 can read data from any other file that this process can read (external and virtual datasets, external links), can
reach one group by many paths (soft links, cycles), and can declare or compress arrays of any size. Here links must be
hard, the depth of groups is bounded, and a dataset must be contiguous, compact or chunked, optionally with gzip.
"""

import math
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from faemb.errors import FormatError, MissingExtraError
from faemb.features.files.reading import CURE, VALUE_BYTES, require_numeric
from faemb.runtime.limits import item_memory, require_memory

DEEPEST = 64
"""Largest depth of nested groups."""
_DEFLATE, _SHUFFLE, _FLETCHER32 = 1, 2, 3
_LARGEST_EXPANSION = 1032
"""Largest compression ratio of deflate."""
_PIECE = 1 << 22


def h5py() -> Any:
    try:
        import h5py as library
    except ImportError as error:
        raise MissingExtraError("a file of hloc's features", "hloc") from error
    return library


def entries(file: Any, source: object) -> Iterator[tuple[str, str]]:
    """Path of the group ("" for the root) and name of each entry in the file; each group is visited once."""
    library = h5py()
    waiting, seen = [""], {_identity(library.h5o.get_info(file.id))}
    while waiting:
        place = waiting.pop()
        if place.count("/") >= DEEPEST:
            raise FormatError(f"{source} holds groups inside each other, more than {DEEPEST} levels deep; {CURE}")
        group = library.h5g.open(file.id, _encoded(place)) if place else file.id
        links: list[tuple[bytes, int]] = []
        group.links.iterate(lambda raw, link, links=links: links.append((raw, link.type)), info=True)
        for raw, kind in links:
            name = raw.decode("utf-8", "surrogateescape")
            _require_hard(kind, f"{place}/{name}", source)
            yield place, name
            found = library.h5o.get_info(group, raw)
            if found.type == library.h5o.TYPE_GROUP and _identity(found) not in seen:
                seen.add(_identity(found))
                waiting.append(f"{place}/{name}".lstrip("/"))


def opened(group: Any, place: str, source: object) -> Any:
    """The identifier of the object at a path in a group, reached by hard links only; None if there is none."""
    library = h5py()
    for name in place.split("/"):
        raw = _encoded(name)
        if not isinstance(group, library.h5g.GroupID) or not name or not group.links.exists(raw):
            return None
        _require_hard(group.links.get_info(raw).type, name, source)
        group = library.h5o.open(group, raw)
    return group


def needed(dataset: Any, name: str, source: str) -> int:
    """Bytes of memory to read a dataset, given by its identifier, as float32; raises an error if it is not allowed."""
    library = h5py()
    if not isinstance(dataset, library.h5d.DatasetID):
        raise FormatError(f"{source} holds a group named {name}; expected an array: {CURE}")
    dtype, shape, settings = dataset.dtype, dataset.shape, dataset.get_create_plist()
    if shape is None:
        raise FormatError(f"{source} is damaged: its {name} have no shape; {CURE}")
    require_numeric(dtype, name, source)
    layout = settings.get_layout()
    plain = (library.h5d.COMPACT, library.h5d.CONTIGUOUS, library.h5d.CHUNKED)
    if layout not in plain or settings.get_external_count():
        raise FormatError(f"{source} keeps its {name} in another file, which is not read; copy the values into it")
    filters = [settings.get_filter(index)[0] for index in range(settings.get_nfilters())]
    if len(set(filters)) < len(filters) or not set(filters) <= {_DEFLATE, _SHUFFLE, _FLETCHER32}:
        raise FormatError(f"{source} holds {name} in a compression that is not read; save it with gzip, or without any")
    chunk = math.prod(settings.get_chunk()) * dtype.itemsize if layout == library.h5d.CHUNKED else 0
    size = math.prod(shape) * (dtype.itemsize + VALUE_BYTES) + 2 * chunk  # a filter needs its input and its output
    require_memory(size, source)
    if _DEFLATE in filters:
        _require_honest_chunks(dataset, filters.index(_DEFLATE), chunk, f"{source} is damaged: its {name}")
    return size


def read_values(dataset: Any) -> np.ndarray:
    """All values of a dataset, given by its identifier."""
    return np.asarray(h5py().Dataset(dataset)[()])


def _require_honest_chunks(dataset: Any, position: int, size: int, what: str) -> None:
    """Raise an error for compressed chunks that expand beyond their declared size: HDF5 would allocate all of it."""
    allowed = item_memory() // _LARGEST_EXPANSION
    if dataset.get_storage_size() <= allowed:
        return
    chunks: list[Any] = []
    dataset.chunk_iter(chunks.append)
    for chunk in chunks:
        if chunk.size > allowed and not chunk.filter_mask >> position & 1:
            require_memory(chunk.size, what)
            if _inflated(dataset.read_direct_chunk(chunk.chunk_offset)[1], size + 4) > size + 4:
                raise FormatError(f"{what} hold more than their declared size; {CURE}")


def _inflated(raw: bytes, enough: int) -> int:
    """Size of the decompressed data, counted in pieces until it exceeds `enough`."""
    inflater, count = zlib.decompressobj(), 0
    while raw and not inflater.eof and count <= enough:
        count += len(inflater.decompress(raw, _PIECE))
        raw = inflater.unconsumed_tail
    return count


def _require_hard(kind: int, place: str, source: object) -> None:
    if kind != h5py().h5l.TYPE_HARD:
        raise FormatError(f"{source} holds a link at {place!r}, which is not followed; put the data itself there")


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _identity(found: Any) -> tuple[int, int]:
    return found.fileno, found.addr
