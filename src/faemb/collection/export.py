"""Vectors and features of a collection as files of other tools."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from faemb.collection.backends import faiss
from faemb.collection.reading import View
from faemb.errors import InputError, MissingExtraError
from faemb.features.files.vecs import write_fvecs
from faemb.runtime.storage import replacing

FORMATS = ("npz", "fvecs", "faiss", "hloc-h5")


def export_vectors(view: View, paths: list[Path], base: Path, out: Path, form: str) -> None:
    """Live vectors in the order of their slots, with the images' paths: inside the file, or beside it in a .json.

    hloc calls images by their place below a folder: here the one that holds the collection.
    """
    vectors, names = view.data.vectors, [str(path) for path in paths]
    if form == "npz":
        with replacing(out) as temporary, temporary.open("wb") as file:
            np.savez(file, vectors=vectors[view.slots], paths=np.array(names, str))
    elif form == "fvecs":
        write_fvecs(out, vectors[view.slots])
        _write_names(out, names)
    elif form == "faiss":
        _write_faiss(view, out)
        _write_names(out, names)
    elif form == "hloc-h5":
        below = [path.relative_to(base if path.is_relative_to(base) else path.anchor).as_posix() for path in paths]
        _write_hloc(out, zip(below, (vectors[slot] for slot in view.slots), strict=True))
    else:
        raise InputError(f"format is {form!r}; expected one of {', '.join(FORMATS)}")


def _write_names(out: Path, names: list[str]) -> None:
    escaped = any(name != _as_text(name) for name in names)
    with replacing(out.with_suffix(out.suffix + ".json")) as temporary:
        temporary.write_text(json.dumps(names, ensure_ascii=escaped, indent=0) + "\n", encoding="utf-8")


def _as_text(name: str) -> str:
    """Linux allows file names that are none: what cannot be written is escaped."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _write_faiss(view: View, out: Path) -> None:
    library = faiss()
    index = library.IndexFlatIP(view.data.vectors.shape[1])
    for start in range(0, len(view.slots), 4096):
        index.add(np.ascontiguousarray(view.data.vectors[view.slots[start : start + 4096]]))
    with replacing(out) as temporary:
        library.write_index(index, str(temporary))


def _write_hloc(out: Path, items: Iterator[tuple[str, Any]]) -> None:
    """hloc's layout of global descriptors: a group per image with one dataset."""
    try:
        import h5py
    except ImportError as error:
        raise MissingExtraError("hloc HDF5 files", "hloc") from error
    with replacing(out) as temporary, h5py.File(temporary, "w") as file:
        for name, vector in items:
            file.require_group(_as_text(name)).create_dataset("global_descriptor", data=vector)
