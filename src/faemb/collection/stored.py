"""Vectors and local features of a collection's images, in the files that the catalogue names."""

import zlib
from pathlib import Path

from faemb.collection.catalogue import Entry
from faemb.collection.layout import Layout
from faemb.collection.model import Model
from faemb.collection.packing import unpack
from faemb.collection.slots import SlotFile, read_at
from faemb.errors import FormatError, InputError
from faemb.features import LocalFeatures


def vector_file(layout: Layout, generation: int, model: Model) -> SlotFile:
    return SlotFile(layout.vectors(generation), "<f4", model.dimension)


def stored_features(file: Path, entry: Entry) -> LocalFeatures:
    """The local features of an image, after a comparison with their checksum."""
    content = packed_features(file, entry)
    if zlib.crc32(content) != entry.features_crc:
        raise FormatError(f"{file} is damaged at the features of {entry.path}; run: faemb check {file.parent} --repair")
    return unpack(content)


def packed_features(file: Path, entry: Entry) -> bytes:
    if entry.offset is None or entry.length is None:
        raise InputError(f"the local features of {entry.path} are not kept in this collection")
    try:
        return read_at(file, entry.offset, entry.length)
    except OSError as error:
        raise FormatError(
            f"{file} cannot be read: {error.strerror}; run: faemb check {file.parent} --repair"
        ) from error
    except ValueError as error:
        raise FormatError(
            f"the catalogue is damaged at {entry.path} ({error}); run: faemb check COLLECTION --repair"
        ) from error
