"""Approximate indexes: one contract for all of them, over vectors that are made up; and the exact search beside them.

Indexes are used as a collection uses them, through a `View` of its slots.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

from faemb.collection import backends, reading
from faemb.collection.backends import APPROXIMATE, EXACT_UP_TO, HNSW, IVFPQ, Backend, Binary, RaBitQ, backend_for
from faemb.collection.layout import Layout
from faemb.collection.reading import View
from faemb.errors import FormatError, InputError, MissingExtraError
from recording import recording
from small_collections import tiny_model

faiss = pytest.importorskip("faiss")

WIDTH = 32
Kind = type[Backend]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """faiss threads that wait for each other are slow on a busy machine."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


class InParts(RaBitQ):
    """Codes in several parts, as those of large collections are."""

    part_rows = 40


@pytest.fixture(params=[*APPROXIMATE.values(), InParts], ids=[*APPROXIMATE, "rabitq-in-parts"])
def kind(request) -> Kind:
    return request.param


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def points(rng: np.random.Generator, count: int, width: int = WIDTH) -> np.ndarray:
    return unit(rng.standard_normal((count, width)))


def clusters(rng: np.random.Generator, centres: int, each: int, width: int) -> np.ndarray:
    middle = rng.standard_normal((centres, 1, width))
    rows = middle + 0.5 * rng.standard_normal((centres, each, width))
    return unit(rng.permutation(rows.reshape(-1, width)))


def built(kind: Kind, data: np.ndarray) -> Backend:
    return kind.build(data, np.arange(len(data)))


def view_of(folder: Path, data: np.ndarray, *, dead: tuple[int, ...] = (), generation: int = 1) -> View:
    slots = np.setdiff1d(np.arange(len(data)), dead)
    return View(Layout(folder), tiny_model(), generation, slots, slots + 100, data)


def index_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def count_builds(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> list[int]:
    """Sizes of the indexes that are built from now on."""
    sizes: list[int] = []
    build = recording(lambda rows, *_: sizes.append(len(rows)), kind.build)
    monkeypatch.setattr(kind, "build", staticmethod(build))
    return sizes


# The contract


class TestContract:
    def test_candidates_are_slots(self, kind, rng):
        data = points(rng, 300)
        index = built(kind, data)
        assert index.covered == 300
        found = index.candidates(data[:4], 20)
        assert found.shape == (4, 20)
        assert ((found >= 0) & (found < 300)).all()
        assert all(len(set(row)) == 20 for row in found)

    def test_a_vector_is_a_candidate_for_itself(self, kind, rng):
        data = points(rng, 300)
        found = built(kind, data).candidates(data, 5)
        assert all(place in row for place, row in enumerate(found))

    @pytest.mark.parametrize("count", [1, 2, 3, 5, 40, 255, 256])
    def test_with_enough_candidates_it_is_exact(self, kind, rng, tmp_path, count):
        """Down to a collection of one image. All are candidates here, and full vectors rank them."""
        view = view_of(tmp_path, points(rng, count))
        queries = points(rng, 6)
        found, expected = (view.search(queries, count, how) for how in (kind, None))
        np.testing.assert_array_equal(found.rows, expected.rows)
        np.testing.assert_allclose(found.scores, expected.scores, atol=1.1e-5)

    def test_more_answers_than_images(self, kind, rng, tmp_path):
        found = view_of(tmp_path, points(rng, 5)).search(points(rng, 2), 50, kind)
        assert found.rows.shape == (2, 5)
        assert sorted(found.rows[0]) == [0, 1, 2, 3, 4]

    def test_without_live_slots_nothing_is_found(self, kind, rng, tmp_path):
        for count in (0, 3):
            view = view_of(tmp_path, points(rng, count), dead=(0, 1, 2))
            assert view.search(points(rng, 2), 5, kind).rows.shape == (2, 0)
        assert index_files(tmp_path) == []

    def test_removed_slots_are_never_returned(self, kind, rng, tmp_path):
        """Not even if they are the nearest; results are positions among the slots in use."""
        data = points(rng, 100)
        view_of(tmp_path, data).search(data, 1, kind)
        dead = tuple(range(0, 100, 3))
        view = view_of(tmp_path, data, dead=dead)
        found = view.search(data, 66, kind)
        assert (found.rows >= 0).all()
        assert not set(view.slots[found.rows].ravel()) & set(dead)
        np.testing.assert_array_equal(found.rows, view.search(data, 66, None).rows)

    def test_later_slots_are_found_without_a_new_index(self, kind, rng, tmp_path, monkeypatch):
        data = points(rng, 110)
        sizes = count_builds(monkeypatch, kind)
        view_of(tmp_path, data[:100]).search(data[:1], 1, kind)
        later = data[100:110]
        found = view_of(tmp_path, data).search(later, 1, kind)
        np.testing.assert_array_equal(found.rows[:, 0], np.arange(100, 110))
        assert sizes == [100]

    def test_later_slots_that_died_are_not_returned(self, kind, rng, tmp_path):
        data = points(rng, 110)
        view_of(tmp_path, data[:100]).search(data[:1], 1, kind)
        view = view_of(tmp_path, data, dead=(105, 109))
        assert not {105, 109} & set(view.slots[view.search(data, 20, kind).rows].ravel())

    def test_equal_vectors_are_in_order_of_slot(self, kind, tmp_path):
        data = unit(np.tile(np.eye(2, WIDTH), (20, 1)))
        found = view_of(tmp_path, data).search(data[:1], 5, kind)
        np.testing.assert_array_equal(found.rows, [[0, 2, 4, 6, 8]])

    @pytest.mark.parametrize(
        ("width", "least"),
        [
            (24, {"rabitq": 0.99, "hnsw": 0.98, "ivf-pq": 0.95, "binary": 0.85}),
            (67, {"rabitq": 0.99, "hnsw": 0.98, "ivf-pq": 0.9, "binary": 0.85}),
        ],
        ids=["24 dimensions", "67 dimensions, a prime"],
    )
    def test_recall(self, kind, rng, tmp_path, width, least):
        """Recall of the ten best among 2,000 vectors in clusters of 20."""
        data = clusters(rng, 100, 20, width)
        queries = data[0:2000:40]
        view = view_of(tmp_path, data)
        found, expected = (view.search(queries, 10, how).rows for how in (kind, None))
        recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, expected, strict=True)])
        assert recall >= least[kind.name]

    @pytest.mark.parametrize("width", [1, 7, 65, 130])
    def test_any_width(self, kind, rng, tmp_path, width):
        data = points(rng, 30, width)
        view = view_of(tmp_path, data)
        found, expected = (view.search(data, 30, how) for how in (kind, None))
        np.testing.assert_array_equal(np.sort(found.rows, axis=1), np.sort(expected.rows, axis=1))

    def test_without_the_extra_it_is_explained(self, kind, rng, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "faiss", None)
        with pytest.raises(MissingExtraError, match=r'needs the extra \'faiss\': pip install "faemb\[faiss\]"'):
            view_of(tmp_path, points(rng, 5)).search(points(rng, 1), 1, kind)


def test_without_the_extra_the_exact_search_works(rng, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    data = points(rng, 5)
    np.testing.assert_array_equal(view_of(tmp_path, data).search(data, 1, None).rows[:, 0], np.arange(5))


def test_an_image_and_its_copy_have_similarity_one(rng, tmp_path):
    """Exactly 1 in spite of float32 rounding: a threshold of 1 finds copies."""
    data = points(rng, 200, 999)
    for how in (None, HNSW):
        found = view_of(tmp_path, data).search(data, 1, how)
        np.testing.assert_array_equal(found.scores, 1)


# Files


class TestFiles:
    def test_saved_and_loaded_it_answers_the_same(self, kind, rng, tmp_path):
        data = points(rng, 300)
        index = built(kind, data)
        index.save(tmp_path / "index")
        loaded = kind.load(tmp_path / "index")
        assert loaded.covered == 300
        np.testing.assert_array_equal(loaded.candidates(data, 9), index.candidates(data, 9))

    def test_it_is_written_once_and_used_again(self, kind, rng, tmp_path, monkeypatch):
        data, sizes = points(rng, 50), count_builds(monkeypatch, kind)
        for _ in range(3):
            view_of(tmp_path, data).search(data, 3, kind)
        assert sizes == [50]
        assert index_files(tmp_path) == [f"{kind.name}-1-50.faiss"]

    def test_a_view_opens_it_once(self, kind, rng, tmp_path, monkeypatch):
        data = points(rng, 50)
        view_of(tmp_path, data).search(data, 3, kind)
        opened: list[Path] = []
        monkeypatch.setattr(kind, "load", staticmethod(recording(lambda path, mapped: opened.append(path), kind.load)))
        view = view_of(tmp_path, data)
        for _ in range(3):
            view.search(data, 3, kind)
        assert len(opened) == 1

    @pytest.mark.parametrize(("later", "rebuilt"), [(12, False), (13, True)], ids=["a fifth unknown", "more unknown"])
    def test_it_is_made_again_when_it_knows_too_little(self, kind, rng, tmp_path, monkeypatch, later, rebuilt):
        data, sizes = points(rng, 48 + later), count_builds(monkeypatch, kind)
        view_of(tmp_path, data[:48]).search(data, 1, kind)
        found = view_of(tmp_path, data).search(data, 1, kind)
        np.testing.assert_array_equal(found.rows[:, 0], np.arange(48 + later))
        assert sizes == ([48, 48 + later] if rebuilt else [48])
        assert index_files(tmp_path) == [f"{kind.name}-1-{sizes[-1]}.faiss"]

    def test_it_is_used_on_when_the_last_slots_have_died(self, kind, rng, tmp_path, monkeypatch):
        """A slot is never used for another image before compaction, so that an index stays valid."""
        data, sizes = points(rng, 80), count_builds(monkeypatch, kind)
        view_of(tmp_path, data).search(data, 1, kind)
        shorter = view_of(tmp_path, data[:70], dead=(3,))
        np.testing.assert_array_equal(shorter.search(data, 69, kind).rows, shorter.search(data, 69, None).rows)
        assert sizes == [80]

    @pytest.mark.parametrize("damage", ["empty", "cut", "cut to its first bytes", "garbage", "longer", "no index"])
    def test_a_damaged_one_is_replaced(self, kind, rng, tmp_path, monkeypatch, damage):
        data = points(rng, 50)
        view_of(tmp_path, data).search(data, 1, kind)
        (path,) = tmp_path.iterdir()
        whole = path.read_bytes()
        spoilt = {
            "empty": b"",
            "cut": whole[: len(whole) // 2],
            "cut to its first bytes": whole[:18],
            "garbage": bytes(reversed(whole)),
            "longer": whole + whole,
            "no index": b"this is a text\n",
        }
        path.write_bytes(spoilt[damage])
        sizes = count_builds(monkeypatch, kind)
        found = view_of(tmp_path, data).search(data, 1, kind)
        np.testing.assert_array_equal(found.rows[:, 0], np.arange(50))
        assert sizes == [50]
        assert path.read_bytes() == whole

    def test_a_file_cut_anywhere_is_refused(self, kind, rng, tmp_path):
        """faiss itself crashes on some of them."""
        path = tmp_path / "index"
        built(kind, points(rng, 20)).save(path)
        whole = path.read_bytes()
        for length in {*range(0, len(whole), max(1, len(whole) // 40)), len(whole) - 1}:
            path.write_bytes(whole[:length])
            with pytest.raises(FormatError, match="is damaged, or is not an index"):
                kind.load(path)

    def test_one_that_names_slots_that_are_not_there_does_no_harm(self, kind, rng, tmp_path, monkeypatch):
        data = points(rng, 50)
        wild = np.array([[-1, 3, 50, 1 << 60]])
        monkeypatch.setattr(kind, "candidates", lambda self, queries, count: wild.repeat(len(queries), axis=0))
        np.testing.assert_array_equal(view_of(tmp_path, data).search(data, 1, kind).rows, 3)

    def test_those_of_other_kinds_and_generations_are_left_alone(self, kind, rng, tmp_path):
        data = points(rng, 20)
        names = ["hnsw-2-20.faiss", "other-1-20.faiss", f"{kind.name}-1-many.faiss"]
        for name in names:
            (tmp_path / name).write_text("precious")
        view_of(tmp_path, data).search(data, 1, kind)
        assert all((tmp_path / name).read_text() == "precious" for name in names)
        assert (tmp_path / f"{kind.name}-1-20.faiss").is_file()

    def test_a_folder_that_may_not_be_written_to_is_searched_all_the_same(self, kind, rng, tmp_path):
        data = points(rng, 20)
        found = view_of(tmp_path / "gone", data).search(data, 1, kind)
        np.testing.assert_array_equal(found.rows[:, 0], np.arange(20))


class TestParts:
    @pytest.mark.parametrize("queries", [1, 300], ids=["one query", "many"])
    def test_parts_find_what_one_index_finds(self, rng, queries):
        data, asked = points(rng, 300), points(rng, queries)
        whole, parts = (built(kind, data).candidates(asked, 25) for kind in (RaBitQ, InParts))
        same = [len(set(some) & set(others)) for some, others in zip(parts, whole, strict=True)]
        assert np.mean(same) >= 24.9  # what is compared in full depends on what has been found before

    def test_they_are_compared_in_threads(self, rng, monkeypatch):
        data = points(rng, 300)
        expected = built(InParts, data).candidates(data[:1], 25)
        monkeypatch.setattr(faiss, "omp_get_max_threads", lambda: 2)
        monkeypatch.setattr(backends, "cores", lambda: 2)
        np.testing.assert_array_equal(built(InParts, data).candidates(data[:1], 25), expected)

    def test_one_more_begins_when_the_last_is_full(self, rng, tmp_path):
        data = points(rng, 100)
        index = built(InParts, data[:30])
        for start, stop in ((30, 40), (40, 90), (90, 100)):
            index.extend(data[start:stop])
            index.save(tmp_path / "index")
            index = InParts.load(tmp_path / "index", mapped=False)
            assert index.covered == stop
        np.testing.assert_array_equal(index.candidates(data[:5], 10), built(InParts, data).candidates(data[:5], 10))
        assert (tmp_path / "index").read_bytes().count(b"IxPT") == 1  # the map to short vectors is stored once

    def test_an_index_of_an_earlier_version_has_one_part(self, rng, tmp_path):
        """It was larger, and is extended by further parts."""
        data = points(rng, 120)
        built(RaBitQ, data[:100]).save(tmp_path / "index")
        index = InParts.load(tmp_path / "index", mapped=False)
        index.extend(data[100:])
        assert index.covered == 120
        assert all(place in row for place, row in enumerate(index.candidates(data, 5)))


# The choice


@pytest.mark.parametrize(
    ("name", "images", "expected"),
    [
        ("auto", 0, None),
        ("auto", EXACT_UP_TO, None),
        ("auto", EXACT_UP_TO + 1, RaBitQ),
        ("exact", 1 << 40, None),
        ("rabitq", 1, RaBitQ),
        ("hnsw", 1, HNSW),
        ("ivf-pq", 1, IVFPQ),
        ("binary", 1, Binary),
    ],
)
def test_the_kind_for_a_number_of_images(name, images, expected):
    assert backend_for(name, images) is expected


def test_an_unknown_kind_is_refused():
    with pytest.raises(InputError, match="index is 'tree'; expected one of auto, exact, rabitq, hnsw, ivf-pq, binary"):
        backend_for("tree", 5)


def test_few_answers_are_chosen_from_many_candidates(rng, tmp_path, monkeypatch):
    """More are requested where many belong to removed images, and not as many more as images were removed."""
    asked: list[int] = []
    candidates = recording(lambda self, q, count: asked.append(count), HNSW.candidates)
    monkeypatch.setattr(HNSW, "candidates", candidates)
    data, most = points(rng, 500), HNSW.least
    for dead, count in (((), 1), ((), 40), (tuple(range(0, 500, 5)), 1)):
        view_of(tmp_path, data, dead=dead).search(data[:1], count, HNSW)
    assert asked == [most, 40 * reading._MORE, most]
    asked.clear()
    nearest_ones = np.argsort(-(data @ data[0]))[:300]
    found = view_of(tmp_path, data, dead=tuple(nearest_ones)).search(data[:1], 1, HNSW)
    assert asked == [most, 2 * most, 4 * most, 500]
    assert found.rows[0, 0] >= 0


def test_an_index_is_extended_by_many_later_slots(kind, rng, tmp_path, monkeypatch):
    """With the linear map that it has: the codes of the others stay as they are."""
    monkeypatch.setattr(reading, "_MOST_UNCOVERED", 5)
    data, sizes = points(rng, 110), count_builds(monkeypatch, kind)
    view_of(tmp_path, data[:100]).search(data[:1], 1, kind)
    view_of(tmp_path, data[:105]).search(data[:1], 1, kind)
    assert index_files(tmp_path) == [f"{kind.name}-1-100.faiss"]
    view = view_of(tmp_path, data)
    np.testing.assert_array_equal(view.search(data, 1, kind).rows[:, 0], np.arange(110))
    assert index_files(tmp_path) == [f"{kind.name}-1-110.faiss"]
    assert kind.load(tmp_path / f"{kind.name}-1-110.faiss").covered == 110
    assert sizes == [100]
