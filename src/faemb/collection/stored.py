"""Vectors and local features of a collection's images, in the files that the catalogue names."""

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from faemb.collection.catalogue import Entry
from faemb.collection.layout import repair_command
from faemb.collection.model import Model
from faemb.collection.packing import unpack
from faemb.collection.slots import read_at
from faemb.errors import FormatError, InputError
from faemb.features import LocalFeatures


def encoded_rows(model: Model, images: Sequence[LocalFeatures]) -> Float[np.ndarray, "B w"]:
    """The content of the slots of these images."""
    vectors = model.encode_with_parts(images, model.parts)
    return vectors.reshape(len(vectors), -1)


def stored_features(file: Path, entry: Entry) -> LocalFeatures:
    """The local features of an image, after a comparison with their checksum."""
    content = sound_features(file, entry)
    try:
        return unpack(content)
    except FormatError as error:
        raise FormatError(f"{file}: {error}; run: {repair_command(file)}") from error


def sound_features(file: Path, entry: Entry) -> bytes:
    """The packed features of an image, after a comparison with their checksum."""
    content = packed_features(file, entry)
    if zlib.crc32(content) != entry.features_crc:
        raise FormatError(f"{file} is damaged at the features of {entry.path}; run: {repair_command(file)}")
    return content


def packed_features(file: Path, entry: Entry) -> bytes:
    if entry.offset is None or entry.length is None:
        raise InputError(f"the local features of {entry.path} are not kept in this collection")
    try:
        return read_at(file, entry.offset, entry.length)
    except OSError as error:
        raise FormatError(f"{file} cannot be read: {error.strerror}; run: {repair_command(file)}") from error
    except ValueError as error:
        raise FormatError(f"the catalogue is damaged at {entry.path} ({error}); run: {repair_command(file)}") from error
