"""Vectors of a collection as files of other tools, read back as those tools would."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from faemb.collection import Collection
from faemb.collection.export import FORMATS, export_vectors
from faemb.errors import FaembError, InputError, MissingExtraError
from faemb.features.files.vecs import read_vecs
from pictures import picture
from small_collections import tiny_model, working_here

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
    """Path to vector, by the book."""
    view = collection.view()
    known = {entry.slot: entry.path for entry in collection.entries()}
    return {str(collection.layout.path_of(known[int(slot)])): view.data.vectors[slot] for slot in view.slots}


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


def test_hloc(collection, expected, tmp_path):
    """Names as hloc has them: relative to the folder that holds the collection."""
    h5py = pytest.importorskip("h5py")
    assert collection.export(tmp_path / "out.h5", "hloc-h5") == 3
    base = collection.layout.folder.parent
    with h5py.File(tmp_path / "out.h5") as file:
        found: dict[str, np.ndarray] = {}
        file.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    assert set(found) == {f"{Path(path).relative_to(base).as_posix()}/global_descriptor" for path in expected}
    for path, vector in expected.items():
        name = f"{Path(path).relative_to(base).as_posix()}/global_descriptor"
        np.testing.assert_array_equal(found[name], vector)


def test_hloc_calls_images_from_elsewhere_by_their_whole_path(collection, expected, tmp_path):
    h5py = pytest.importorskip("h5py")
    paths = [Path(path) for path in expected]
    export_vectors(collection.view(), paths, tmp_path / "other", tmp_path / "out.h5", "hloc-h5")
    with h5py.File(tmp_path / "out.h5") as file:
        for path, vector in expected.items():
            np.testing.assert_array_equal(file[path.lstrip("/")]["global_descriptor"], vector)


@pytest.mark.parametrize("form", FORMATS)
def test_what_was_there_before_is_replaced(collection, tmp_path, form):
    out = tmp_path / "out"
    out.write_text("old")
    collection.export(out, form)
    first = out.read_bytes()
    assert first != b"old"
    collection.export(out, form)
    assert len(out.read_bytes()) == len(first)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


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
    with pytest.raises(InputError, match=r"format is .* expected one of npz, fvecs, faiss, hloc-h5"):
        collection.export(tmp_path / "out", form)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("form", "module", "extra"), [("faiss", "faiss", "faiss"), ("hloc-h5", "h5py", "hloc")])
def test_without_the_extra_it_is_explained(collection, tmp_path, monkeypatch, form, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf'needs the extra \'{extra}\': pip install "faemb\[{extra}\]"'):
        collection.export(tmp_path / "out", form)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("form", FORMATS)
def test_a_name_that_is_no_text(collection, expected, tmp_path, form):
    """Linux allows such names; a file of names must still be text."""
    paths = [Path(os.fsdecode(b"/photos/\xff.png")), *map(Path, list(expected)[1:])]
    export_vectors(collection.view(), paths, tmp_path, tmp_path / "out", form)
    if form in ("fvecs", "faiss"):
        names = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
        assert names == [str(path) for path in paths]
