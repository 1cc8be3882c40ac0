"""Export of a collection's vectors to formats of other tools, a few megabytes of vectors at a time."""

import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from jaxtyping import Float

from faemb.collection.index_files import faiss, write_index
from faemb.collection.parquet import is_our_parquet, pyarrow, write_parquet
from faemb.collection.reading import Rows
from faemb.errors import InputError
from faemb.features.files.hdf5 import h5py
from faemb.features.files.hloc import is_our_hloc, new_hloc
from faemb.features.files.vecs import fvecs_records
from faemb.runtime.paths_and_urls import common_parent
from faemb.runtime.storage import AnyPath, IsOurs, replacing, require_output

FORMATS = ("npz", "fvecs", "faiss", "hloc-h5", "parquet")
_WITH_NAMES = ("fvecs", "faiss")
"""Formats that have no place for the paths of the images, nor for the name of the program that wrote them."""
_PIECE_BYTES = 1 << 25
"""Bytes of vectors that are read together."""
_COMMENT = b"vectors of images, written by faemb"
"""Comment of the zip archive that an .npz file is."""


def require_export(out: AnyPath, form: str, *, overwrite: bool = False) -> None:
    """Raise the error with which `export_vectors` would refuse the path: before the vectors are computed."""
    ours: dict[str, IsOurs] = {"npz": _is_our_npz, "hloc-h5": is_our_hloc, "parquet": is_our_parquet}
    target = require_output(out, ours.get(form), overwrite=overwrite)
    if form == "hloc-h5":
        h5py()
    if form == "parquet":
        pyarrow()
    if form in _WITH_NAMES:
        require_output(_names_file(target), None, overwrite=overwrite)


def export_vectors(
    rows: Rows, paths: Sequence[Path], folders: Iterable[Path], out: Path, form: str, *, overwrite: bool = False
) -> None:
    """Vectors in the order of their slots, with the images' paths: inside the file, or beside it in a .json file.

    hloc names images relative to the picture folder, which `picture_folder` finds with `folders`.
    Existing files are replaced only if they are recognised as written here, or with `overwrite`.
    """
    require_export(out, form, overwrite=overwrite)
    names = [str(path) for path in paths]
    if form == "npz":
        with replacing(out) as temporary:
            _write_npz(temporary, rows, names)
    elif form == "fvecs":
        with replacing(out) as temporary, temporary.open("wb") as file:
            for piece in _pieces(rows):
                file.write(fvecs_records(piece))
        _write_names(out, names)
    elif form == "faiss":
        _write_faiss(rows, out)
        _write_names(out, names)
    elif form == "parquet":
        with replacing(out) as temporary, temporary.open("wb") as file:
            write_parquet(file, rows.vectors, rows.slots, rows.ids, list(map(_as_text, names)))
    else:
        base = picture_folder(paths, folders)
        relative = [path.relative_to(base).as_posix() for path in paths]
        _write_hloc(out, zip(relative, chain.from_iterable(_pieces(rows)), strict=True))


def picture_folder(paths: Sequence[Path], folders: Iterable[Path]) -> Path:
    """The folder that hloc's names are relative to.

    The remembered folder, if it contains all images; else the common parent of the remembered folders and of the
    images outside them, so that no two images have the same name.
    """
    by_depth = sorted(folders, key=lambda folder: len(folder.parts))
    roots = {next((folder for folder in by_depth if path.is_relative_to(folder)), path.parent) for path in paths}
    try:
        return common_parent(list(roots)) if roots else Path()
    except ValueError:
        raise InputError(
            "the images lie on several drives or servers, and hloc has one picture folder; use --format npz"
        ) from None


def _pieces(rows: Rows) -> Iterator[Float[np.ndarray, "m D"]]:
    """The vectors in the order of their slots."""
    step = max(1, _PIECE_BYTES // (4 * rows.vectors.shape[1]))
    for start in range(0, len(rows.slots), step):
        yield rows.vectors[rows.slots[start : start + step]]


def _write_npz(path: Path, rows: Rows, names: list[str]) -> None:
    """As np.savez does, which would need all vectors at once."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(rows.slots), rows.vectors.shape[1])}
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = _COMMENT
        with archive.open("vectors.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, header)
            for piece in _pieces(rows):
                member.write(piece.astype("<f4", copy=False).tobytes())
        with archive.open("paths.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, np.array(names, str), allow_pickle=False)


def _is_our_npz(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.comment == _COMMENT
    except (zipfile.BadZipFile, OSError):
        return False


def _names_file(out: Path) -> Path:
    return out.with_suffix(out.suffix + ".json")


def _write_names(out: Path, names: list[str]) -> None:
    escaped = any(name != _as_text(name) for name in names)
    with replacing(_names_file(out)) as temporary:
        temporary.write_text(json.dumps(names, ensure_ascii=escaped, indent=0) + "\n", encoding="utf-8")


def _as_text(name: str) -> str:
    """Linux allows file names that are not valid text: the invalid bytes are escaped."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _write_faiss(rows: Rows, out: Path) -> None:
    library = faiss()
    index = library.IndexFlatIP(rows.vectors.shape[1])
    for piece in _pieces(rows):
        index.add(np.ascontiguousarray(piece))
    with replacing(out) as temporary, temporary.open("wb") as file:
        write_index(index, file.write)


def _write_hloc(out: Path, items: Iterator[tuple[str, np.ndarray]]) -> None:
    """hloc's format of global descriptors: a group per image with one dataset."""
    with new_hloc(out) as file:
        for name, vector in items:
            file.require_group(_as_text(name)).create_dataset("global_descriptor", data=vector)
