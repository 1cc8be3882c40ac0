"""Collections that also store vectors of parts of their images."""

import shutil
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from faemb.collection import Collection, Hit, Model
from faemb.collection.backends import APPROXIMATE
from faemb.collection.duplicates import least_similarity
from faemb.collection.layout import Layout
from faemb.collection.nearest import Neighbours, best_of, nearest
from faemb.collection.queries import QueryFeatures
from faemb.collection.reading import View
from faemb.errors import FaembError, InputError
from faemb.features import LocalFeatures
from faemb.rerank import Confidence, Unrelated
from faemb.rerank.confidence import probability
from pictures import picture, pictures
from small_collections import exported_vectors, new_tiny_model, tiny_model

PARTS = 2
SIZE = (240, 180)


def with_parts(parts: int = PARTS) -> Model:
    """As `tiny_model`, with parts."""
    model = Model(**{**new_tiny_model().get_params(deep=False), "parts": parts})
    model.encoder_ = tiny_model().encoder_
    return model


def stored_rows(collection: Collection) -> dict[str, np.ndarray]:
    """All vectors of each image, by file name."""
    view = collection.view()
    names = {entry.id: Path(entry.path).name for entry in collection.entries()}
    return {
        names[image]: np.array(view.stored[slot]) for slot, image in zip(view.slots, view.ids.tolist(), strict=True)
    }


def assert_all_encoded(collection: Collection) -> None:
    """Every image has the vectors that the model gives to its stored features."""
    rows = stored_rows(collection)
    assert len(rows) == len(collection)
    for entry in collection.entries():
        features = collection.features(collection.layout.path_of(entry.path))
        expected = collection.model.encode_with_parts([features], collection.model.parts)[0]
        np.testing.assert_allclose(rows[Path(entry.path).name], expected, atol=1e-4)
    assert collection.check() == []


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("parts")
    pictures(root / "photos", range(8), SIZE)
    with Collection.create(root / "photos.faemb", with_parts()) as collection:
        collection.add(root / "photos")
    return root


@pytest.fixture
def collection(made: Path, tmp_path: Path):
    for name in ("photos", "photos.faemb"):
        shutil.copytree(made / name, tmp_path / name)
    with Collection.open(tmp_path / "photos.faemb") as opened:
        yield opened


class TestVectors:
    def test_are_those_of_the_image_and_of_the_features_in_each_part(self, collection):
        assert_all_encoded(collection)
        assert collection.view().stored.shape[1] == 5
        assert collection.info().parts == PARTS

    def test_a_part_with_few_features_has_the_vector_of_the_whole(self, collection, made):
        features = collection.features(collection.layout.path_of(next(iter(collection.entries())).path))
        left = features.select(features.centres[:, 0] < 0.35 * SIZE[0])
        vectors = collection.model.encode_with_parts([left], PARTS)[0]
        np.testing.assert_array_equal(vectors[2], vectors[0])
        assert (vectors[1] != vectors[0]).any()

    def test_of_an_image_without_features_are_zeros(self, collection):
        none = LocalFeatures.none(128, (10, 10))
        np.testing.assert_array_equal(collection.model.encode_with_parts([none], PARTS), 0)

    def test_whole_images_are_exported(self, collection, tmp_path):
        for name, vector in exported_vectors(collection, tmp_path).items():
            np.testing.assert_array_equal(vector, stored_rows(collection)[name][0])

    def test_without_parts_the_file_holds_vectors_of_whole_images_alone(self, made, tmp_path):
        with Collection.create(tmp_path / "c", tiny_model()) as plain:
            plain.add(made / "photos")
            content = plain.layout.vectors(1).read_bytes()
            assert len(content) == 8 * 4 * plain.model.dimension
            assert plain.model.fingerprint == tiny_model().fingerprint
            np.testing.assert_array_equal(plain.view().stored[:, 0], plain.view().vectors)


class TestChanges:
    def test_images_that_come_and_go(self, collection, tmp_path):
        picture(tmp_path / "photos" / "new.png", 90, SIZE)
        (tmp_path / "photos" / "003.png").unlink()
        shutil.copy(tmp_path / "photos" / "004.png", tmp_path / "photos" / "copy.png")
        report = collection.update()
        assert (report.added, report.removed) == (2, 1)
        assert_all_encoded(collection)

    def test_compaction(self, collection, tmp_path):
        pictures(tmp_path / "more", range(40, 80))
        collection.add(tmp_path / "more")
        before = stored_rows(collection)
        collection.remove(sorted((tmp_path / "more").iterdir())[:-1])
        assert collection.view().generation == 2
        for name, rows in stored_rows(collection).items():
            np.testing.assert_array_equal(rows, before[name])
        assert_all_encoded(collection)

    def test_learning_again(self, collection):
        fingerprint = collection.model.fingerprint
        collection.relearn()
        assert collection.model.parts == PARTS
        assert collection.model.fingerprint != fingerprint
        assert_all_encoded(collection)

    def test_a_damaged_vector_of_a_part_is_found_and_repaired(self, collection):
        file = collection.layout.vectors(1)
        content = bytearray(file.read_bytes())
        content[-1] ^= 0x55  # of the last part of the last image
        file.write_bytes(content)
        (fault,) = collection.check()
        assert "its vector is damaged" in fault
        collection.check(repair=True)
        assert_all_encoded(collection)

    def test_features_that_are_not_kept(self, made, tmp_path):
        with Collection.create(tmp_path / "c", with_parts(), keep_features=False) as small:
            small.add(made / "photos")
            with Collection.open(made / "photos.faemb") as full:
                expected = stored_rows(full)
            for name, rows in stored_rows(small).items():
                np.testing.assert_allclose(rows, expected[name], atol=1e-4)


class TestSearching:
    def test_an_image_is_as_similar_as_the_nearest_of_its_vectors(self, collection, made):
        query = collection.features(collection.layout.path_of("../photos/005.png")).inside((0, 0, 144, 108))
        (answer,) = collection.search_features([query], top=8, verify=0)
        vector = collection.model.encode([query.descriptors])[0]
        rows = stored_rows(collection)
        expected = {name: float((vectors @ vector).max()) for name, vectors in rows.items()}
        assert {hit.path.name: hit.similarity for hit in answer.hits} == pytest.approx(expected, abs=1e-4)
        assert answer.hits[0].path.name == "005.png"
        assert answer.hits[0].similarity > rows["005.png"][0] @ vector + 0.05  # the whole image is less similar

    def test_parts_of_a_query_are_searched_for_too(self, collection):
        """Each image is as similar as the nearest pair of one of its vectors and one of the query's."""
        query = collection.features(collection.layout.path_of("../photos/006.png"))
        vectors = collection.model.encode_with_parts([query], PARTS)[0]
        (answer,) = collection.search_features([query], verify=0, query_parts=PARTS)
        expected = {name: float((rows @ vectors.T).max()) for name, rows in stored_rows(collection).items()}
        assert {hit.path.name: hit.similarity for hit in answer.hits} == pytest.approx(expected, abs=1e-4)
        (plain,) = collection.search_features([query], verify=0)
        assert sum(hit.similarity for hit in answer.hits) > sum(hit.similarity for hit in plain.hits) + 0.1

    def test_whole_images_are_compared_where_parts_are_not_asked_for(self, collection):
        """As duplicates are."""
        view = collection.view()
        whole = np.array(view.vectors[view.slots])
        found = view.search(whole, 3, None)
        np.testing.assert_allclose(found.scores, -np.sort(-(whole @ whole.T), axis=1)[:, :3], atol=1e-4)

    @pytest.mark.parametrize("kind", APPROXIMATE.values(), ids=str)
    def test_an_index_holds_the_vectors_of_parts_too(self, rng, tmp_path, kind):
        pytest.importorskip("faiss")
        data = rng.standard_normal((300, 5, 16)).astype(np.float32)
        data /= np.linalg.norm(data, axis=2, keepdims=True)
        slots = np.setdiff1d(np.arange(300), [7, 299])
        view = View(Layout(tmp_path), tiny_model(), 1, slots, slots + 100, data[:, 0], data)
        queries = data[[3, 150, 298], [4, 2, 0]]
        found, exact = (view.search(queries, 3, how, parts=True) for how in (kind, None))
        assert view.slots[found.rows[:, 0]].tolist() == [3, 150, 298]
        np.testing.assert_allclose(found.scores[:, 0], 1, atol=1e-5)
        np.testing.assert_array_equal(found.rows[:, 0], exact.rows[:, 0])
        grown = View(Layout(tmp_path), tiny_model(), 1, slots, slots + 100, data[:, 0], data)
        np.testing.assert_array_equal(grown.search(queries, 3, kind, parts=True).rows, found.rows)

    def test_unrelated_images_are_compared_as_a_search_compares_them(self, rng):
        data = rng.standard_normal((60, 5, 64))
        data /= np.linalg.norm(data, axis=2, keepdims=True)
        assert Unrelated.of(data[:, 0], data[:, :1]) == pytest.approx(Unrelated.of(data[:, 0]))
        assert Unrelated.of(data[:, 0], data).typical > Unrelated.of(data[:, 0]).typical + 0.05


class TestConfidence:
    """The nearest of several vectors of a query is nearer by chance alone."""

    @staticmethod
    def by_the_book(collection: Collection, vectors: np.ndarray, hit: Hit) -> float:
        rows = np.array(list(stored_rows(collection).values()))
        nearest = np.array([[max(stored @ vector for stored in row) for vector in vectors] for row in rows])
        unrelated = Unrelated.of(rows[:, 0], rows)
        typical = unrelated.typical + np.median(nearest.max(1)) - np.median(nearest[:, 0])
        assert hit.similarity is not None
        deviations = np.array([(hit.similarity - typical) / unrelated.spread])
        evidence = None if hit.verification is None else np.array([hit.verification.evidence])
        return float(probability(Confidence().score(deviations, evidence))[0])

    @pytest.mark.parametrize("per_side", [0, 2, 3])
    def test_of_a_query_with_parts(self, collection, per_side):
        query = collection.features(collection.layout.path_of("../photos/006.png"))
        vectors = collection.model.encode_with_parts([query], per_side)[0]
        (answer,) = collection.search_features([query], query_parts=per_side)
        for hit in answer.hits:
            assert hit.confidence == pytest.approx(self.by_the_book(collection, vectors, hit), rel=1e-3)

    def test_of_a_query_that_is_described_at_twice_its_size(self, collection):
        plain = collection.features(collection.layout.path_of("../photos/006.png"))
        query = QueryFeatures.of(plain.select(np.arange(5)), plain.select(np.arange(5, 30)))
        vectors = collection.model.encode([query.plain.descriptors, query.features.descriptors])
        alone, beside = collection.search_features([query])[0], collection.search_features([plain, query])[1]
        for answer in (alone, beside):
            for hit in answer.hits:
                assert hit.confidence == pytest.approx(self.by_the_book(collection, vectors, hit), rel=1e-3)

    def test_of_a_query_with_one_vector_is_as_it_was(self, collection):
        view, query = collection.view(), collection.features(collection.layout.path_of("../photos/006.png"))
        assert view.unrelated_to(collection.model.encode([query.descriptors])) == view.unrelated
        enlarged = QueryFeatures.of(query.select(np.arange(5)), query.select(np.arange(5, 30)))
        alone, beside = collection.search_features([query])[0], collection.search_features([query, enlarged])[0]
        assert [hit.confidence for hit in alone.hits] == pytest.approx([hit.confidence for hit in beside.hits])

    def test_an_explanation_has_that_of_the_search(self, collection, tmp_path):
        with PIL.Image.open(tmp_path / "photos" / "005.png") as image:
            image.crop((0, 0, 144, 108)).save(tmp_path / "part.png")
        (answer,) = collection.search(tmp_path / "part.png", top=8)
        for hit in answer.hits:
            found = collection.explain(tmp_path / "part.png", hit.path)
            assert (found.similarity, found.confidence) == pytest.approx((hit.similarity, hit.confidence), abs=1e-6)
        outside = shutil.copy(tmp_path / "photos" / "005.png", tmp_path / "outside.png")
        found = collection.explain(tmp_path / "part.png", outside)
        assert found.similarity == pytest.approx(answer.hits[0].similarity, abs=1e-4)

    def test_of_whole_images_is_measured_by_whole_images(self, collection):
        """Results that search in turn, and duplicates, are compared without their parts."""
        view = collection.view()
        whole = np.array(view.vectors[view.slots])
        assert view.unrelated_whole == pytest.approx(Unrelated.of(whole))
        assert view.unrelated_whole.typical < view.unrelated.typical
        expected = view.unrelated_whole.typical + 4 * view.unrelated_whole.spread
        assert least_similarity(view, None, verify=True) == pytest.approx(min(0.3, expected))


class TestNearest:
    def test_rows_of_several_vectors(self, rng):
        vectors = rng.standard_normal((400, 3, 8)).astype(np.float32)
        queries, live = rng.standard_normal((4, 8)).astype(np.float32), np.arange(0, 400, 2)
        found = nearest(queries, vectors, live, 10)
        products = np.einsum("qd,nvd->qnv", queries, vectors[live]).max(2)
        np.testing.assert_array_equal(found.rows, live[np.argsort(-products, axis=1)[:, :10]])
        np.testing.assert_allclose(found.scores, -np.sort(-products, axis=1)[:, :10], rtol=1e-5)

    def test_the_best_of_several_vectors_of_a_query(self):
        scores = np.array([[0.9, 0.5, 0.1], [0.8, 0.6, -np.inf], [0.3, 0.2, 0.1], [0.4, 0.2, 0.1]], np.float32)
        rows = np.array([[4, 2, 1], [2, 7, -1], [1, 2, 3], [3, 2, 1]])
        best = best_of(Neighbours(scores, rows), 2)
        assert best.rows.tolist() == [[4, 2, 7], [3, 1, 2]]
        np.testing.assert_array_equal(best.scores, np.array([[0.9, 0.8, 0.6], [0.4, 0.3, 0.2]], np.float32))


class TestSettings:
    @pytest.mark.parametrize("parts", [1, 6, -1], ids=str)
    def test_unusable_ones_are_refused(self, tmp_path, parts):
        with pytest.raises(InputError, match=r"parts is .*; expected a whole number, 2 to 5"):
            Collection.create(tmp_path / "c", with_parts(parts))

    def test_those_of_a_query_too(self, collection, tmp_path):
        with pytest.raises(InputError, match="query_parts is 9; expected a whole number, 0 to 5"):
            collection.search(tmp_path / "photos" / "001.png", query_parts=9)

    def test_a_collection_is_not_continued_with_others(self, collection):
        with pytest.raises(FaembError, match="was made with other settings"):
            Collection.resume(collection.layout.folder, with_parts(3))

    def test_a_model_keeps_them(self, tmp_path):
        with_parts(3).save(tmp_path / "m")
        assert Model.load(tmp_path / "m").parts == 3
