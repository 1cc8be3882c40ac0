"""One contract for all stores of vectors: files in the collection's folder, and a Milvus server.

The half that needs the server runs with `make test-milvus`.
"""

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from faemb.collection import Collection, Model, store_transfer
from faemb.collection.backends import BACKENDS
from faemb.collection.catalogue import Catalogue, Entry
from faemb.collection.layout import Layout
from faemb.collection.stores.attached import CurrentStore, made_store
from faemb.collection.stores.embedded import Embedded
from faemb.collection.stores.milvus import MilvusTable, SearchMode
from faemb.collection.stores.milvus_indexes import KINDS
from faemb.collection.stores.milvus_server import BOUNDED, Server, StoreAwayError
from faemb.collection.stores.store import Store, Table, nearest_in
from faemb.errors import FaembError, FormatError, InputError
from faemb.rerank.vector_expansion import BY_VECTORS
from milvus_beside import MilvusBeside
from pictures import picture, pictures
from recording import recording
from small_collections import counts, names_below, new_tiny_model, tiny_model, vectors_of

EMBEDDED, MILVUS = "embedded", "milvus"
NUMBER = itertools.count()
PARTS = 2


@pytest.fixture(params=[EMBEDDED, pytest.param(MILVUS, marks=pytest.mark.milvus)])
def address(request: pytest.FixtureRequest) -> str | None:
    """Where a new store can be made; None: in the folder."""
    if request.param == EMBEDDED:
        return None
    return request.getfixturevalue("milvus_server").address(f"contract_{next(NUMBER)}")


@pytest.fixture
def store(address: str | None, tmp_path: Path) -> Iterator[Store]:
    layout = Layout(tmp_path / "store.faemb")
    layout.folder.mkdir()
    made = Embedded(layout) if address is None else made_store(layout, address, "me")
    yield made
    made.close()


def with_parts() -> Model:
    model = Model(**{**new_tiny_model().get_params(deep=False), "parts": PARTS})
    model.encoder_ = tiny_model().encoder_
    return model


def images(count: int, first: int = 0) -> list[Entry]:
    return [
        Entry(number + 1, f"../photos/{number} é.png", f"{number:064x}", *(1, 2, 3, 4, 5), None, None, None, None, None)
        for number in range(first, first + count)
    ]


def unit_rows(rng: np.random.Generator, count: int, model: Model) -> np.ndarray:
    rows = rng.standard_normal((count, model.vectors_per_image, model.dimension)).astype("<f4")
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).reshape(count, -1)


def placed(entries: list[Entry], crcs: list[int], first: int = 0) -> list[Entry]:
    return [
        Entry(**{**vars(entry), "slot": slot, "vector_crc": crc})
        for slot, (entry, crc) in enumerate(zip(entries, crcs, strict=True), first)
    ]


class TestTables:
    def test_rows_are_stored_bit_for_bit_and_replaced(self, store, rng):
        model = with_parts()
        table, rows = store.table(1, model), unit_rows(rng, 7, model)
        crcs = table.write(0, rows[:5], images(5))
        crcs[3:] = table.write(3, rows[5:], images(2, 5))  # as after a process that was killed
        expected = np.concatenate([rows[:3], rows[5:]])
        np.testing.assert_array_equal([table.row(slot) for slot in range(5)], expected)
        assert table.count() == 5
        assert table.row(5) is None
        whole, stored = table.vectors(5)
        np.testing.assert_array_equal(stored[np.array([4, 0])], expected[[4, 0]].reshape(2, 5, -1))
        np.testing.assert_array_equal(whole[np.array([4, 0])], expected[[4, 0]].reshape(2, 5, -1)[:, 0])
        entries = placed(images(5), crcs)
        assert table.damaged(entries) == set()
        other = Entry(**{**vars(entries[2]), "vector_crc": 1})
        assert table.damaged([entries[0], other, Entry(**{**vars(entries[1]), "slot": 6})]) == {2, 3}

    @pytest.mark.parametrize("parts", [False, True], ids=["whole", "parts"])
    def test_the_nearest_are_those_of_a_comparison_with_all(self, store, rng, parts):
        model = with_parts()
        table, rows = store.table(1, model), unit_rows(rng, 60, model)
        table.write(0, rows, images(60))
        queries = unit_rows(rng, 3, tiny_model())
        vectors = table.vectors(60)[parts]
        scores = np.einsum("qd,nvd->qnv", queries, rows.reshape(60, 5, -1)[:, : 5 if parts else 1]).max(-1)
        for live, some in ((np.arange(60), False), (np.arange(1, 50, 2), False), (np.array([3, 9, 40]), True)):
            for count in (1, 10, 100):
                found = nearest_in(vectors, queries, live, count, some=some)
                best = -np.sort(-scores[:, live], axis=1)[:, :count]
                np.testing.assert_allclose(found.scores, best, atol=1e-5)
                np.testing.assert_allclose(np.take_along_axis(scores, found.rows, 1), best, atol=1e-5)
                assert all(set(rows) <= set(live) and len(set(rows)) == len(rows) for rows in found.rows.tolist())

    def test_rows_that_are_not_in_use_are_deleted_by_the_next_writer(self, store, rng):
        model = tiny_model()
        table, rows = store.table(1, model), unit_rows(rng, 9, model)
        table.write(0, rows, images(9))
        live = np.array([0, 2, 3])
        table.remove([1])
        table.tidy(live)
        found = nearest_in(table.vectors(9)[0], rows[[1, 8]], live, 9)
        assert set(found.rows.ravel().tolist()) == {0, 2, 3}
        if isinstance(table, MilvusTable):
            assert table.count() == 3

    def test_only_tables_in_use_are_kept(self, store, rng):
        model = tiny_model()
        for number in (1, 2):
            store.table(number, model).write(0, unit_rows(rng, 2, model), images(2))
        store.publish(1)
        store.drop(1)
        store.drop(7)
        assert store.table(1, model).damaged(placed(images(1), [0])) == {1}
        store.sweep({2})
        assert store.table(2, model).count() == 2
        store.require_free() if store.address is None else None


@pytest.fixture
def make(address: str | None, tmp_path: Path) -> Callable[..., Collection]:
    """A collection of pictures in this store."""

    def made(model: Model, *photos: Path, **how: object) -> Collection:
        collection = Collection.create(tmp_path / "photos.faemb", model, store=address, **how)  # type: ignore[arg-type]
        for place in photos:
            collection.add(place)
        return collection

    return made


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return pictures(tmp_path / "photos", range(6))


@pytest.fixture
def plain(photos: Path, tmp_path: Path, model: Model) -> Iterator[Collection]:
    """The same images, whose vectors lie in the folder."""
    with Collection.create(tmp_path / "plain.faemb", model) as collection:
        collection.add(photos)
        yield collection


def rows_in_store(collection: Collection) -> int:
    """As far as the store deletes rows at once."""
    table = collection._store.get().table(collection._catalogue.table(), collection.model)
    return table.count() if isinstance(table, MilvusTable) else collection.info().searchable


def answers(collection: Collection, photos: Path, **how: object) -> dict[str, float]:
    """Similarity by the query's and the result's name."""
    queries = sorted(photos.glob("*.png"))
    found = collection.search(queries, top=4, **how)  # type: ignore[arg-type]
    return {
        f"{Path(answer.query).name} {hit.path.name}": hit.similarity
        for answer in found
        for hit in answer.hits
        if hit.similarity
    }


SEARCHES: list[dict[str, object]] = [{}, {"verify": 0}, {"query_parts": 2}, {"expand": "results"}]
SEARCHES += [{"verify": 0, "expand": how} for how in BY_VECTORS]


class TestCollections:
    def test_answers_are_the_same_as_from_the_folder(self, make, photos, plain, model):
        with make(model, photos) as collection:
            assert collection.check() == []
            assert rows_in_store(collection) == 6
            for how in SEARCHES:
                assert answers(collection, photos, **how) == pytest.approx(answers(plain, photos, **how), abs=1e-5)
            query = plain.features(photos / "003.png")
            (one,) = collection.search_features([query], top=4, among=[2, 4, 5], verify=0)
            (other,) = plain.search_features([query], top=4, among=[2, 4, 5], verify=0)
            assert names_below(one.hits, photos) == names_below(other.hits, photos)
            assert len(one.hits) == 3
            assert len(collection.duplicates(0.1, verify=False)) == len(plain.duplicates(0.1, verify=False)) > 0
            explained = collection.explain(photos / "001.png", photos / "002.png")
            assert explained.similarity == pytest.approx(
                plain.explain(photos / "001.png", photos / "002.png").similarity, abs=1e-5
            )

    @pytest.mark.parametrize("kind", sorted(KINDS))
    def test_indexes_of_short_vectors_and_codes(self, make, photos, plain, model, kind):
        with make(model, photos, index=kind) as collection:
            found = answers(collection, photos, verify=0)
            assert found == pytest.approx(answers(plain, photos, verify=0), abs=1e-5)  # few enough to compare all
            assert len(collection.duplicates(0.1, verify=False)) > 0
            names = {path.name for path in collection.layout.folder.glob(f"{kind}-*")}
            collection.remove(photos / "000.png")
            collection.add(picture(photos.parent / "later.png", 30))  # is compared although it is not indexed
            (answer,) = collection.search(photos.parent / "later.png", top=9, verify=0)
            assert answer.hits[0].similarity == 1
            assert photos / "000.png" not in [hit.path for hit in answer.hits]
            assert len(answer.hits) == 6
            assert names == {path.name for path in collection.layout.folder.glob(f"{kind}-*")}

    @pytest.mark.parametrize("kind", sorted({*BACKENDS} - {*KINDS}))
    def test_a_collection_of_any_other_kind_of_index_can_be_searched(self, make, photos, plain, model, kind):
        with make(model, photos, index=kind) as collection:
            found = answers(collection, photos, verify=0)
            assert found == pytest.approx(answers(plain, photos, verify=0), abs=1e-5)
            assert len(collection.duplicates(0.1, verify=False)) > 0

    def test_changed_and_removed_images(self, make, photos, model, tmp_path):
        with make(model, photos) as collection:
            picture(photos / "001.png", 77)
            shutil.copy(photos / "002.png", photos / "copy.png")
            (photos / "003.png").rename(photos / "moved.png")
            (photos / "004.png").unlink()
            assert counts(collection.update()) == (1, 1, 3, 1)
            assert collection.remove(photos / "000.png") == 1
            left = {"001.png", "002.png", "copy.png", "moved.png", "005.png"}
            assert set(names_below(collection, photos)) == left
            assert rows_in_store(collection) == 5
            for name in left:
                (answer,) = collection.search(photos / name, top=6)
                assert answer.hits[0].similarity == 1
                assert name in {hit.path.name for hit in answer.hits if hit.similarity == 1}
                assert {hit.path.name for hit in answer.hits} == left
            assert collection.check() == []

    def test_a_model_that_is_learned_again(self, make, photos, tmp_path):
        later = pictures(tmp_path / "later", range(10, 18))
        with make(new_tiny_model(), photos) as collection:
            before = collection.model.fingerprint
            assert collection.add(later).relearned_from == 14
            assert collection.model.fingerprint != before
            assert collection.check() == []
            assert rows_in_store(collection) == 14
            assert vectors_of(collection).keys() == {entry.path for entry in collection.entries()}
            assert collection.search(later / "010.png", verify=0)[0].hits[0].similarity == 1

    def test_compaction_of_features_keeps_the_vectors(self, make, photos, model, monkeypatch):
        monkeypatch.setattr("faemb.collection.writing._UNUSED_BYTES", 0)
        with make(model, photos) as collection:
            before = vectors_of(collection)
            collection.remove([photos / "000.png", photos / "001.png", photos / "005.png"])
            assert collection.view().generation == 2
            after = vectors_of(collection)
            assert len(after) == 3
            for name, vector in after.items():
                np.testing.assert_array_equal(vector, before[name])
            assert collection.check() == []

    def test_what_a_stopped_process_has_stored_is_not_answered_and_goes(self, make, photos, model, monkeypatch):
        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        with make(model, photos) as collection:
            with monkeypatch.context() as patch:
                patch.setattr(Catalogue, "place", stop)  # after the rows were stored, before they are named
                with pytest.raises(KeyboardInterrupt):
                    collection.add(pictures(photos.parent / "more", range(20, 23)))
            (answer,) = collection.search(photos / "000.png", top=20, verify=0)
            assert len([hit for hit in answer.hits if hit.similarity is not None]) == 6
            collection.remove(photos / "005.png")
            assert rows_in_store(collection) == 5
            assert counts(collection.update())[0] == 0
            assert collection.info().waiting == 0
            assert rows_in_store(collection) == collection.info().searchable == 8
            assert collection.check() == []

    def test_lost_rows_are_found_and_computed_again(self, make, photos, model, address):
        with make(model, photos) as collection:
            before = vectors_of(collection)
            store = collection._store.get()
            if address is None:
                collection.layout.vectors(1).unlink()
            else:
                store.table(1, model).remove([2])
                assert len(collection.check()) == 1
                assert len(collection.check(repair=True)) == 1
                assert collection.check() == []
                store.drop(1)
                with pytest.raises(FormatError, match=r"has (no|lost a) collection .* --repair"):
                    collection.add(photos)
            assert len(collection.check()) == 6
            assert len(collection.check(repair=True)) == 6
            assert collection.check() == []
            after = vectors_of(collection)
            for name, vector in before.items():
                np.testing.assert_allclose(after[name], vector, atol=1e-5)


@pytest.mark.milvus
class TestMilvus:
    @pytest.fixture
    def address(self, milvus_server: MilvusBeside) -> str:
        return milvus_server.address(f"alone_{next(NUMBER)}")

    def test_copied_there_and_back(self, plain, photos, address):
        expected, folder = answers(plain, photos), plain.layout.folder
        plain.remove(photos / "000.png")  # slots have a gap
        expected = answers(plain, photos)
        assert plain.copy(address) == 5
        assert plain.info().store == address
        assert not list(folder.glob("vectors-*"))
        assert answers(plain, photos) == pytest.approx(expected, abs=1e-5)
        assert plain.check() == []
        assert counts(plain.add(photos / "000.png")) == (1, 0, 0, 0)
        with Collection.open(folder) as again:
            assert rows_in_store(again) == 6
        with pytest.raises(InputError, match="are there already"):
            plain.copy(address)
        assert plain.copy("embedded") == 6
        assert plain.info().store is None
        assert plain.check() == []
        assert (folder / "vectors-1.f32").exists()
        with Collection.create(folder.parent / "next.faemb", plain.model, store=address):
            pass  # the name is free again

    def test_a_copy_that_is_stopped_changes_nothing_and_can_be_made_again(self, plain, photos, address, monkeypatch):
        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        before = vectors_of(plain)
        with monkeypatch.context() as patch:
            patch.setattr("faemb.collection.store_transfer._require_equal", stop)
            with pytest.raises(KeyboardInterrupt):
                plain.copy(address)
        assert plain.info().store is None
        assert vectors_of(plain).keys() == before.keys()
        assert plain.copy(address) == 6
        assert vectors_of(plain).keys() == before.keys()

    def test_a_backup_that_was_made_during_a_copy_does_not_delete_the_copy(self, plain, photos, address, monkeypatch):
        backup = photos.parent / "backup.faemb"
        with monkeypatch.context() as patch:
            folder = plain.layout.folder
            compared = recording(lambda *_: shutil.copytree(folder, backup), store_transfer._require_equal)
            patch.setattr(store_transfer, "_require_equal", compared)
            plain.copy(address)
        with Collection.open(backup) as other:
            other.remove(photos / "005.png")
            assert other.check() == []
            assert other.info().left_stores == []
        assert plain.check() == []
        assert len(plain.search(photos / "000.png", verify=0)[0].hits) == 6

    def test_vectors_of_a_lost_server_are_computed_again_in_an_empty_one_and_copied_home(
        self, make, photos, model, address, milvus_server
    ):
        with make(model, photos) as collection:
            folder, expected = collection.layout.folder, answers(collection, photos, verify=0)
            collection._store.get().drop(1)
        with Collection.open(folder, store=milvus_server.address(f"alone_{next(NUMBER)}")) as elsewhere:
            assert len(elsewhere.check(repair=True)) == 6
        with Collection.open(folder) as collection:
            assert collection.copy("embedded") == 6
            assert collection.check() == []
            assert answers(collection, photos, verify=0) == pytest.approx(expected, abs=1e-5)

    def test_a_server_that_goes_away_after_a_change(self, make, photos, model, monkeypatch):
        """The change is made; what is left in the server goes with the next one."""
        ask = Server.ask

        def without_deleting(server: Server, what: str, *arguments: object, **named: object) -> object:
            if what == "delete":
                raise StoreAwayError("away")
            return ask(server, what, *arguments, **named)

        with make(model, photos) as collection:
            with monkeypatch.context() as patch:
                patch.setattr(Server, "ask", without_deleting)
                assert collection.remove(photos / "005.png") == 1
            assert rows_in_store(collection) == 6
            collection.remove(photos / "004.png")
            assert rows_in_store(collection) == collection.info().searchable == 4

    def test_an_index_that_another_process_has_replaced(self, make, photos, model, tmp_path):
        with make(model, photos) as collection, Collection.open(collection.layout.folder) as other:
            expected = answers(collection, photos, index="hnsw", verify=0)
            (file,) = collection.layout.folder.glob("hnsw-*.map")
            file.unlink()
            assert answers(other, photos, index="hnsw", verify=0) == pytest.approx(expected, abs=1e-5)
            other.add(picture(tmp_path / "later.png", 30))  # a writer deletes the index that no file names
            (answer,) = collection.search(tmp_path / "later.png", index="hnsw", verify=0)
            assert answer.hits[0].similarity == 1

    def test_an_index_is_complete_when_it_was_just_built(self, store, rng):
        """However old the state is that is searched: its rows alone may be read with bounded consistency."""
        table, rows = store.table(1, tiny_model()), unit_rows(rng, 60, tiny_model())
        table.write(0, rows, images(60))
        live, long_ago = np.arange(60), SearchMode(parts=False, some=False, level=BOUNDED, index="hnsw")
        _, (found,) = table._candidates(rows[:1], live, 60, long_ago)
        assert set(found) == set(live)

    def test_other_programs_find_rows_by_the_name_of_the_store(self, make, photos, model, address):
        with make(model, photos) as collection:
            server = collection._store.get().server
            name = address.rsplit("/", 1)[1]
            (row,) = server.ask("query", name, filter="image == 3", output_fields=["*"], consistency_level="Strong")
            entry = collection.entry(3)
            assert (row["name"], row["hash"], row["part"]) == (entry.path, entry.hash, 0)

    def test_stores_of_others_are_refused(self, make, photos, model, address, milvus_server, tmp_path):
        with make(model, photos):
            with pytest.raises(InputError, match=r"exists already .* give another name"):
                Collection.create(tmp_path / "second.faemb", model, store=address)
            assert not (tmp_path / "second.faemb").exists()
            other = milvus_server.address(f"alone_{next(NUMBER)}")
            with Collection.create(tmp_path / "third.faemb", model, store=other) as third:
                third.add(photos)
        with Collection.open(tmp_path / "photos.faemb", store=other) as wrong:
            for use in (lambda: wrong.search(photos / "000.png"), lambda: wrong.add(photos), lambda: wrong.check()):
                with pytest.raises((InputError, FormatError), match=r"belongs to another collection|has no collection"):
                    use()
        assert Collection.open(tmp_path / "photos.faemb").info().store == address

    def test_vectors_of_another_model_are_refused(self, make, photos, model, address):
        with make(model, photos) as collection:
            stranger = new_tiny_model(30)
            stranger.encoder_ = model.encoder_
            table: Table = collection._store.get().table(1, stranger)
            with pytest.raises(InputError, match="were made by another model"):
                table.row(0)

    def test_a_copied_folder_cannot_change_the_vectors_that_both_use(self, make, photos, model, tmp_path):
        with make(model, photos) as collection:
            copied = shutil.copytree(collection.layout.folder, tmp_path / "copied.faemb")
            collection.remove(photos / "005.png")
            more = pictures(tmp_path / "more", range(20, 22))
            refusal = pytest.raises(FaembError, match="changed through another copy of this folder")
            with Collection.open(copied) as other, refusal:
                other.add(more)
            assert counts(collection.add(tmp_path / "more")) == (2, 0, 0, 0)
            assert collection.check() == []

    def test_a_server_that_has_moved_is_remembered(self, make, photos, model, address, tmp_path):
        with make(model, photos):
            pass
        folder, moved = tmp_path / "photos.faemb", address.replace("127.0.0.1", "localhost")
        with Collection.open(folder, store=moved) as collection:
            assert collection.search(photos / "000.png")[0].hits[0].similarity == 1
            assert collection.info().store == address
            collection.remove(photos / "001.png")
            assert collection.info().store == moved


def test_a_new_address_is_not_that_of_a_store_to_which_the_vectors_were_copied(tmp_path: Path) -> None:
    pytest.importorskip("pymilvus")
    old, moved, target = (f"milvus://{host}:19530/photos" for host in ("old", "moved", "target"))
    catalogue = Catalogue.create(tmp_path / "catalogue.sqlite", {"store": old, "store_id": "first"})
    current = CurrentStore(Layout(tmp_path), catalogue, moved)
    with closing(catalogue), closing(current):
        assert current.get().address == moved
        current.remember()
        assert catalogue.store() == (moved, "first")
        with catalogue.change():  # as another process does that copies the vectors
            catalogue.set("store", target)
            catalogue.set("store_id", "second")
        assert current.get().address == target
        current.remember()
        assert catalogue.store() == (target, "second")
