"""Searching with each kind of index: in small collections the answer is the same."""

import sys

import pytest

from faemb.collection import Collection, backends
from faemb.errors import InputError, MissingExtraError
from pictures import picture
from small_collections import assert_finds, touch


@pytest.mark.parametrize("kind", ["exact", "rabitq", "hnsw", "ivf-pq", "binary"])
class TestIndexes:
    @pytest.fixture(autouse=True)
    def library(self):
        pytest.importorskip("faiss")

    def test_all_give_the_same_answer_in_a_small_collection(self, collection, photos, kind):
        expected = collection.search(photos / "a.png")[0].hits
        assert collection.search(photos / "a.png", index=kind)[0].hits == expected

    def test_one_is_chosen_when_the_collection_is_made(self, tmp_path, photos, model, kind):
        with Collection.create(tmp_path / "new.faemb", model, index=kind) as made:
            made.add(photos)
            assert made.info().index == made.info().index_in_use == kind
            assert len(made.search(photos / "a.png")[0].hits) == 5
            assert len(list(made.layout.folder.glob(f"{kind}-1-5.faiss"))) == (kind != "exact")

    def test_it_follows_every_change(self, collection, photos, kind):
        """Also of the last images, whose slots were known to the index."""
        assert len(collection.search(photos / "a.png", index=kind)[0].hits) == 5
        collection.remove(photos / "trip")
        picture(photos / "new.png", 44)
        picture(photos / "c.jpg", 45)
        touch(photos / "c.jpg")
        collection.add([photos, photos / "trip" / "d.png", photos / "trip" / "e.png"])
        for name in ("new.png", "c.jpg", "trip/e.png"):
            hits = collection.search(photos / name, top=5, index=kind)[0].hits
            assert hits == collection.search(photos / name, top=5, index="exact")[0].hits
            assert hits[0].path == photos / name

    def test_a_collection_of_one_image(self, empty, photos, kind):
        empty.add(photos / "a.png")
        assert_finds(empty.search(photos / "a.png", index=kind)[0].hits, photos / "a.png")

    def test_a_folder_or_a_link_in_its_place_is_left_alone(self, collection, photos, kind):
        expected = collection.search(photos / "a.png", index="exact")[0].hits
        place = collection.layout.folder / f"{kind}-1-5.faiss"
        place.mkdir()
        assert collection.check() == []
        assert collection.check(repair=True) == []
        assert collection.search(photos / "a.png", index=kind)[0].hits == expected
        assert place.is_dir()
        place.rmdir()
        place.symlink_to("/dev/zero")
        assert collection.check() == []
        assert collection.search(photos / "a.png", index=kind)[0].hits == expected

    def test_an_empty_collection(self, empty, photos, kind):
        assert empty.search(photos / "a.png", index=kind)[0].hits == []


def test_an_unknown_index_is_explained(collection, photos):
    with pytest.raises(InputError, match="index is 'tree'"):
        collection.search(photos / "a.png", index="tree")
    with pytest.raises(InputError, match="index is 'tree'"):
        collection.duplicates(index="tree")


def test_a_large_collection_is_compared_exactly_where_the_extra_is_missing(collection, photos, monkeypatch):
    """And says so, once; an index that is asked for is an error."""
    expected = collection.search(photos / "a.png")[0]
    with monkeypatch.context() as patch:
        patch.setattr(backends, "EXACT_UP_TO", 4)
        patch.setitem(sys.modules, "faiss", None)
        first, second = (collection.search(photos / "a.png")[0] for _ in range(2))
        assert first.hits == second.hits == expected.hits
        assert "needs the extra 'faiss': pip install \"faemb[faiss]\"" in first.note
        assert second.note == ""
        with pytest.raises(MissingExtraError):
            collection.search(photos / "a.png", index="rabitq")
    with Collection.open(collection.layout.folder) as again, monkeypatch.context() as patch:
        patch.setattr(backends, "EXACT_UP_TO", 4)
        patch.setitem(sys.modules, "faiss", None)
        assert "needs the extra 'faiss'" in again.duplicates().note


def test_the_building_of_an_index_is_reported(collection, photos):
    pytest.importorskip("faiss")
    told: list[tuple[str, int, int]] = []
    for _ in range(2):
        collection.search_many([photos / "a.png"], index="hnsw", progress=lambda *each: told.append(each))
    assert [each for each in told if each[0] == "index"] == [("index", 0, 5), ("index", 0, 5), ("index", 5, 5)]
