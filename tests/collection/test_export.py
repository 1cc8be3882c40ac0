"""Vectors of a collection as files of other tools, read back as those tools would."""

import json
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faemb.collection import Collection, export, parquet
from faemb.collection.export import FORMATS, export_vectors, picture_folder
from faemb.collection.reading import Rows
from faemb.errors import FaembError, InputError, MissingExtraError
from faemb.features.files.vecs import read_vecs
from pictures import picture
from process_beside import process_beside
from small_collections import make_collection, tiny_model, working_here

NAMES = ["a.png", "naïve 写真.png", "trip/c.png"]


@pytest.fixture(scope="module")
def collection(tmp_path_factory) -> Iterator[Collection]:
    """Three images, and a fourth that was removed: slots are not places."""
    folder = tmp_path_factory.mktemp("export")
    for seed, name in enumerate(["0-removed.png", *NAMES]):
        picture(folder / "photos" / name, seed)
    with working_here(), Collection.create(folder / "photos.faemb", tiny_model()) as made:
        made.add(folder / "photos")
        made.remove(folder / "photos" / "0-removed.png")
        yield made


@pytest.fixture(scope="module")
def expected(collection) -> dict[str, np.ndarray]:
    """Path to vector, from the view."""
    view = collection.view()
    known = {entry.slot: entry.path for entry in collection.entries()}
    return {str(collection.layout.path_of(known[int(slot)])): view.vectors[slot] for slot in view.slots}


def assert_expected(paths: list[str], vectors: np.ndarray, expected: dict[str, np.ndarray]) -> None:
    assert paths == list(expected)
    np.testing.assert_array_equal(vectors, np.array(list(expected.values())))


def test_npz(collection, expected, tmp_path):
    assert collection.export(tmp_path / "out.npz", "npz") == 3
    with np.load(tmp_path / "out.npz", allow_pickle=False) as held:
        assert_expected(held["paths"].tolist(), held["vectors"], expected)
        assert held["vectors"].dtype == np.float32


def test_fvecs(collection, expected, tmp_path):
    assert collection.export(tmp_path / "out.fvecs", "fvecs") == 3
    paths = json.loads((tmp_path / "out.fvecs.json").read_text(encoding="utf-8"))
    assert_expected(paths, read_vecs(tmp_path / "out.fvecs"), expected)


def test_faiss(collection, expected, tmp_path):
    faiss = pytest.importorskip("faiss")
    assert collection.export(tmp_path / "out.faiss", "faiss") == 3
    index = faiss.read_index(str(tmp_path / "out.faiss"))
    paths = json.loads((tmp_path / "out.faiss.json").read_text(encoding="utf-8"))
    assert_expected(paths, index.reconstruct_n(0, 3), expected)
    scores, places = index.search(expected[paths[1]][None], 3)
    assert places[0][0] == 1
    assert scores[0][0] == pytest.approx(1, abs=1e-5)


class Counted(np.ndarray):
    """Vectors that note how many of them are read at a time."""

    read: list[int]

    def __getitem__(self, chosen: Any) -> Any:
        self.read.append(np.size(chosen))
        return np.asarray(self)[chosen]


@pytest.mark.parametrize("form", FORMATS)
def test_a_bounded_number_of_vectors_is_read_at_a_time(form, tmp_path, monkeypatch):
    for module, name in ((export, "_PIECE_BYTES"), (parquet, "_GROUP_BYTES")):
        monkeypatch.setattr(module, name, 4 * 8 * 5)
    vectors = np.random.default_rng(0).random((40, 8), np.float32).view(Counted)
    vectors.read = []
    slots = np.arange(3, 40, 2)
    paths = [tmp_path / f"{slot}.png" for slot in slots]
    export_vectors(Rows(slots, slots, vectors), paths, [tmp_path], tmp_path / "pieces", form)
    assert vectors.read == [5, 5, 5, 4]
    monkeypatch.undo()
    export_vectors(Rows(slots, slots, np.asarray(vectors)), paths, [tmp_path], tmp_path / "whole", form)
    if form in ("fvecs", "faiss"):
        assert (tmp_path / "pieces").read_bytes() == (tmp_path / "whole").read_bytes()


def test_an_npz_is_the_one_that_numpy_writes(collection, expected, tmp_path):
    collection.export(tmp_path / "out.npz", "npz")
    np.savez(tmp_path / "numpy.npz", vectors=np.array(list(expected.values())), paths=np.array(list(expected), str))
    with zipfile.ZipFile(tmp_path / "out.npz") as ours, zipfile.ZipFile(tmp_path / "numpy.npz") as theirs:
        assert ours.namelist() == theirs.namelist()
        for one, other in zip(ours.infolist(), theirs.infolist(), strict=True):
            assert (one.compress_type, one.file_size) == (other.compress_type, other.file_size)
            assert ours.read(one) == theirs.read(other)


def names_in_hloc(file: Path) -> dict[str, np.ndarray]:
    h5py = pytest.importorskip("h5py")
    found: dict[str, np.ndarray] = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]

    with h5py.File(file) as opened:
        opened.visititems(visit)
    return found


def test_parquet(collection, expected, tmp_path, monkeypatch):
    """In groups of two rows: vectors are never read all at once."""
    read = pytest.importorskip("pyarrow.parquet")
    width = len(next(iter(expected.values())))
    monkeypatch.setattr("faemb.collection.parquet._GROUP_BYTES", 2 * 4 * width)
    assert collection.export(tmp_path / "out.parquet", "parquet") == 3
    table = read.read_table(tmp_path / "out.parquet")
    assert table.schema.field("vector").type.list_size == width
    assert read.ParquetFile(tmp_path / "out.parquet").num_row_groups == 2
    vectors = np.stack(table["vector"].to_numpy())
    assert_expected(table["path"].to_pylist(), vectors, expected)
    known = {str(collection.layout.path_of(entry.path)): entry.id for entry in collection.entries()}
    assert table["id"].to_pylist() == [known[path] for path in expected]


def test_hloc(collection, expected, tmp_path):
    """Names are relative to the picture folder, as hloc has them."""
    assert collection.export(tmp_path / "out.h5", "hloc-h5") == 3
    found = names_in_hloc(tmp_path / "out.h5")
    assert set(found) == {f"{name}/global_descriptor" for name in NAMES}
    for path, vector in expected.items():
        name = Path(path).relative_to(collection.layout.folder.parent / "photos").as_posix()
        np.testing.assert_array_equal(found[f"{name}/global_descriptor"], vector)


def test_hloc_names_of_images_that_lie_elsewhere(tmp_path):
    """The collection itself may lie anywhere: here in another folder than the images."""
    picture(tmp_path / "photos" / "trip" / "a.png", 1)
    with working_here(), Collection.create(tmp_path / "elsewhere" / "c.faemb", tiny_model()) as made:
        made.add(tmp_path / "photos")
        made.export(tmp_path / "out.h5", "hloc-h5")
    assert set(names_in_hloc(tmp_path / "out.h5")) == {"trip/a.png/global_descriptor"}


@pytest.mark.parametrize(
    ("folders", "paths", "expected"),
    [
        (["/p"], ["/p/a.png", "/p/trip/b.png"], "/p"),
        (["/p", "/p/trip"], ["/p/a.png", "/p/trip/b.png"], "/p"),
        (["/p", "/p/trip"], ["/p/trip/b.png"], "/p"),
        (["/p", "/q/r"], ["/p/a.png"], "/p"),
        (["/x/p", "/x/q"], ["/x/p/a.png", "/x/q/a.png"], "/x"),
        ([], ["/x/p/a.png"], "/x/p"),
        ([], ["/x/p/a.png", "/x/q/r/b.png"], "/x"),
        (["/x/p"], ["/x/p/deep/a.png", "/x/b.png"], "/x"),
        ([], [], "."),
    ],
    ids=["one folder", "nested", "only below", "an empty folder", "two folders", "a file", "files", "both", "nothing"],
)
def test_the_picture_folder(folders, paths, expected):
    assert picture_folder(list(map(Path, paths)), map(Path, folders)) == Path(expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the process beside the tests forks")
@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk_is_explained(tmp_path, form):
    """The file is a few bytes too long for the disk: faiss itself would not notice."""
    folder = make_collection(tmp_path, NAMES) / "photos.faemb"
    beside, out = process_beside(), tmp_path / "out"
    assert beside.run("export", folder, out, form, 1 << 20).fault == ""
    size = out.stat().st_size
    for written in tmp_path.glob("out*"):
        written.unlink()
    ended = beside.run("export", folder, out, form, size - 10)
    assert ended.fault.startswith(f"FaembError: cannot write {out}")
    assert not out.exists()


@pytest.mark.parametrize("form", FORMATS)
def test_only_what_was_exported_before_is_replaced(collection, tmp_path, form):
    out = tmp_path / "out"
    out.write_text("old")
    with pytest.raises(InputError, match=r"out exists and .* written by faemb; give another name, or --overwrite"):
        collection.export(out, form)
    assert out.read_text() == "old"
    collection.export(out, form, overwrite=True)
    first = out.read_bytes()
    assert first != b"old"
    collection.export(out, form, overwrite=form in ("fvecs", "faiss"))  # these do not say who wrote them
    assert len(out.read_bytes()) == len(first)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("form", ["fvecs", "faiss"])
def test_a_file_in_the_place_of_the_names_is_kept(collection, tmp_path, form):
    (tmp_path / "out.json").write_text("mine")
    with pytest.raises(InputError, match=r"out.json exists and may not have been written by faemb"):
        collection.export(tmp_path / "out", form)
    assert os.listdir(tmp_path) == ["out.json"]


def test_nothing_is_exported_into_a_collection(collection, tmp_path):
    for place in (collection.layout.folder / "out.npz", collection.layout.folder / "catalogue.sqlite"):
        with pytest.raises(InputError, match="is a collection; give a name outside of it"):
            collection.export(place, "npz")
    with pytest.raises(InputError, match="is a collection; give a name outside of it"):
        collection.export(collection.layout.catalogue, "npz", overwrite=True)
    assert not (collection.layout.folder / "out.npz").exists()


@pytest.mark.parametrize("form", FORMATS)
def test_an_empty_collection_gives_an_empty_file(tmp_path, form):
    with Collection.create(tmp_path / "empty.faemb", tiny_model()) as empty:
        assert empty.export(tmp_path / "out", form) == 0
    assert (tmp_path / "out").is_file()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("place", ["gone/out", "."])
def test_a_place_where_nothing_can_be_written_is_explained(collection, tmp_path, form, place):
    with pytest.raises(FaembError, match="cannot write"):
        collection.export(tmp_path / place, form)


@pytest.mark.parametrize("form", ["csv", "", "NPZ"])
def test_an_unknown_format_is_refused(collection, tmp_path, form):
    with pytest.raises(InputError, match=r"format is .* expected one of npz, fvecs, faiss, hloc-h5, parquet"):
        collection.export(tmp_path / "out", form)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("form", "module", "extra"),
    [("faiss", "faiss", "faiss"), ("hloc-h5", "h5py", "hloc"), ("parquet", "pyarrow", "parquet")],
)
def test_without_the_extra_it_is_explained(collection, tmp_path, monkeypatch, form, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf'needs the extra \'{extra}\': pip install "faemb\[{extra}\]"'):
        collection.export(tmp_path / "out", form)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("form", FORMATS)
def test_a_name_that_is_no_text(collection, expected, tmp_path, form):
    """Linux allows such names; a file of names must still be text."""
    paths = [Path(os.fsdecode(b"/photos/\xff.png")), *map(Path, list(expected)[1:])]
    with collection._reader.rows() as rows:
        export_vectors(rows, paths, [], tmp_path / "out", form)
    if form in ("fvecs", "faiss"):
        names = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
        assert names == [str(path) for path in paths]
