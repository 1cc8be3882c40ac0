"""The model of a collection: what it learns, from how little, and that it is the same after saving."""

from typing import Any

import numpy as np
import pytest

from faemb.collection import Collection, Model, new_model
from faemb.collection.model import learning_sample
from faemb.embedding import FastFAemb
from faemb.encoder import Encoder
from faemb.errors import FormatError, InputError, NotFittedError
from faemb.features import HessianAffine
from faemb.presets import PER_IMAGE, SIZES, preset, shrunk
from faemb.projection import Projection
from faemb.rerank.confidence import CALIBRATIONS, Confidence
from faemb.runtime import UNKNOWN
from faemb.whitening import Whitening
from pictures import pictures
from small_collections import tiny_model

DESCRIPTOR = 128


def small_model(**settings) -> Model:
    encoder = Encoder(
        FastFAemb(2, unit_residuals=True),
        projection=Projection(8, unit_after=True),
        whitening=Whitening(),
        pooling="sum",
    )
    return Model(HessianAffine(max_features=60), encoder, **settings)


def images(rng: np.random.Generator, count: int, each: int) -> list[np.ndarray]:
    """Sets of made-up descriptors; each image has its own mean."""
    taste = rng.random((count, 1, DESCRIPTOR)) ** 3
    rows = taste + 0.5 * rng.random((count, each, DESCRIPTOR))
    return list((rows / np.linalg.norm(rows, axis=2, keepdims=True)).astype(np.float32))


@pytest.fixture(scope="module")
def sets() -> list[np.ndarray]:
    return images(np.random.default_rng(3), 12, 60)


@pytest.fixture(scope="module")
def fitted(sets) -> Model:
    return small_model().fit(sets)


# What it gives


def test_one_row_per_image(fitted, sets):
    vectors = fitted.encode(sets)
    assert vectors.shape == (12, fitted.dimension)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_vectors_are_the_encoders_own(fitted, sets):
    np.testing.assert_array_equal(fitted.encode(sets), fitted.encoder_.encode(sets))


@pytest.mark.parametrize("shrink", [False, True])
def test_fitting_leaves_the_settings_as_they_are(sets, shrink):
    encoder = preset("small", pooling="sum")
    if not shrink:
        encoder = small_model().encoder
    before = repr(encoder.get_params())
    model = Model(HessianAffine(), encoder, shrink=shrink).fit(sets)
    assert model.encoder is encoder
    assert repr(encoder.get_params()) == before
    assert not encoder.is_fitted
    if shrink:
        assert model.encoder_.embedding.n_anchors < encoder.embedding.n_anchors


def test_after_few_images_many_teach_an_encoder_of_the_size_asked_for(rng):
    model = Model(HessianAffine(), preset("small", pooling="sum"), shrink=True)
    small = model.fit(images(rng, 2, 200)).encoder_.embedding.n_anchors
    assert model.fit(images(rng, 40, 300)).encoder_.embedding.n_anchors > small


def test_an_image_without_descriptors_has_zeros(fitted, sets):
    vectors = fitted.encode([sets[0], np.zeros((0, DESCRIPTOR), np.float32)])
    assert vectors[0].any()
    assert not vectors[1].any()


def test_the_same_settings_and_images_give_the_same_model(fitted, sets):
    assert small_model().fit(sets).fingerprint == fitted.fingerprint


def test_images_are_read_one_at_a_time_and_learned_from_in_part(rng):
    """Only some descriptors of a large image are used."""
    seen: list[int] = []

    class Listening(Encoder):
        def fit(self, images: Any, y: object = None, **options: Any) -> Encoder:
            seen.extend(map(len, images))
            return super().fit(images, y, **options)

    model = small_model()
    model.encoder = Listening(**model.encoder.get_params(deep=False))
    model.fit([*images(rng, 70, 20), *images(rng, 1, PER_IMAGE + 50)])
    assert seen == [20] * 70 + [PER_IMAGE]


def test_of_few_images_more_descriptors_are_learned_from(rng):
    few = learning_sample([np.zeros((3000, 4))] * 10, rng)
    assert [len(each) for each in few] == [2000] * 10
    many = learning_sample([np.zeros((3000, 4))] * 100, rng)
    assert [len(each) for each in many] == [PER_IMAGE] * 100


def test_progress_names_every_stage(sets):
    calls: list[tuple[str, int, int]] = []
    small_model().fit(sets, progress=lambda *call: calls.append(call))
    last = {stage: (done, total) for stage, done, total in calls}
    assert list(last) == ["projection", "anchors: k-means", "statistics", "whitening: eigenvalues of 72 x 72"]
    assert all(done == total for done, total in last.values())
    assert all(total == UNKNOWN or 0 <= done <= total for _, done, total in calls)


def test_a_model_that_has_learned_nothing_says_so(sets):
    with pytest.raises(NotFittedError, match="call fit"):
        small_model().encode(sets)
    assert not small_model().is_fitted


# Saved and loaded


def test_saved_and_loaded_it_gives_the_same(fitted, sets, tmp_path):
    mark = fitted.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    assert loaded.is_fitted
    assert loaded.fingerprint == fitted.fingerprint == mark
    np.testing.assert_array_equal(loaded.encode(sets), fitted.encode(sets))
    assert loaded.dimension == fitted.dimension


def test_a_loaded_model_extracts_as_the_saved_one(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    assert Model.load(tmp_path / "model").extractor.fingerprint == fitted.extractor.fingerprint


def test_before_it_has_learned_it_can_be_saved_too(sets, tmp_path):
    small_model().save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    assert not loaded.is_fitted
    assert loaded.fit(sets).fingerprint == small_model().fit(sets).fingerprint


def test_another_component_is_no_model(fitted, tmp_path):
    fitted.encoder_.save(tmp_path / "encoder")
    with pytest.raises(FormatError, match=r"is a saved Encoder, not a model of images; make one with: faemb fit"):
        Model.load(tmp_path / "encoder")


def test_a_file_that_is_none_is_explained(tmp_path):
    (tmp_path / "text").write_text("no model")
    for name in ("text", "gone"):
        with pytest.raises(FormatError, match=name):
            Model.load(tmp_path / name)


# How little is enough


@pytest.mark.parametrize("name", ["small", "medium", "best"])
def test_a_smaller_encoder_for_fewer_descriptors(name):
    """The size grows with their number, up to the size asked for."""
    largest = SIZES.index(next(size for size in SIZES if size[:2] == size_of(preset(name))))
    for place, size in enumerate(SIZES):
        for count in (size.least_descriptors, size.least_descriptors - 1):
            found = size_of(shrunk(preset(name), max(count, 0)))
            expected = SIZES[max(place + (count < size.least_descriptors and count >= 0), largest)]
            assert found == expected[:2]


def size_of(encoder: Encoder) -> tuple[int, int | None]:
    assert encoder.projection is not None
    return encoder.embedding.n_anchors, encoder.projection.dimension


def test_only_an_encoder_of_its_full_size_discards_components():
    full, smaller = (shrunk(preset("small"), count).whitening for count in (10**6, 1000))
    assert full is not None
    assert full.discard == preset("small").whitening.discard != 0  # type: ignore[union-attr]
    assert smaller is not None
    assert smaller.discard == 0


@pytest.mark.parametrize(("count", "each"), [(3, 500), (20, 2000), (120, 400), (500, 350)])
def test_a_preset_has_the_size_of_the_encoder_of_a_collection(rng, count, each):
    """Which reads a part of the descriptors only."""
    sets = [np.zeros((each, 128), np.float32)] * count
    learned = sum(map(len, learning_sample(sets, rng)))
    assert size_of(preset("small", sized_for=sets)) == size_of(shrunk(preset("small"), learned, 128))
    assert size_of(preset("small")) == (8, 32)


def test_a_published_row_has_one_size(rng):
    with pytest.raises(InputError, match="'f-faemb-8' is a published row of fixed size; leave sized_for out"):
        preset("f-faemb-8", sized_for=images(rng, 3, 20))


def test_a_published_row_is_never_made_smaller():
    encoder = shrunk(preset("f-faemb-8"), 10)
    assert encoder.projection is not None
    assert (encoder.embedding.n_anchors, encoder.projection.dimension) == (8, 45)


def test_a_collections_model_learns_from_a_single_image(rng):
    model = new_model(HessianAffine()).fit(images(rng, 1, 300))
    assert model.is_fitted
    assert model.encoder_.projection is not None
    assert size_of(model.encoder_) == (1, 16)


@pytest.mark.parametrize(("count", "each"), [(1, 10), (1, 60), (2, 20), (3, 60), (5, 2), (10, 20)])
def test_a_collections_model_learns_from_little(rng, count, each):
    sets = images(rng, count, each)
    model = new_model(HessianAffine()).fit(sets)
    vectors = model.encode(sets)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize(("count", "each"), [(1, 1), (1, 8), (4, 2), (3, 0)])
def test_too_little_is_explained_in_terms_of_images(rng, count, each):
    words = f"{count} images with {count * each} local features in all are too few to learn from; give more images"
    with pytest.raises(InputError, match=words):
        new_model(HessianAffine()).fit(images(rng, count, each))


def test_after_too_few_images_it_learns_from_more_as_before(rng):
    model, enough = new_model(HessianAffine()), images(rng, 1, 290)
    with pytest.raises(InputError, match="too few"):
        model.fit(images(rng, 1, 5))
    assert not model.is_fitted
    assert model.fit(enough).fingerprint == new_model(HessianAffine()).fit(enough).fingerprint


def test_images_of_which_none_can_be_compared_are_explained():
    """Equal descriptors only."""
    with pytest.raises(InputError, match=r"too few to learn from|equal"):
        new_model(HessianAffine()).fit([np.ones((50, DESCRIPTOR), np.float32)] * 3)


def test_a_model_keeps_its_calibration_when_a_later_version_has_another(tmp_path, monkeypatch):
    """The default of a later version is in force for new models alone."""
    path = tmp_path / "model.faemb"
    tiny_model().save(path)
    later = CALIBRATIONS | {2: Confidence(bias=-1.0)}
    for module in ("faemb.collection.model", "faemb.rerank.confidence"):
        monkeypatch.setattr(f"{module}.CALIBRATIONS", later)
        monkeypatch.setattr(f"{module}.NEWEST", 2)
    assert Model.load(path).confidence == CALIBRATIONS[1]
    newer = tiny_model().clone().set_params(calibration=2)
    assert newer.confidence.bias == -1.0


def test_the_confidences_of_a_collection_are_those_of_its_model(tmp_path, monkeypatch):
    pictures(tmp_path / "photos", range(3))
    with Collection.create(tmp_path / "c", tiny_model()) as collection:
        collection.add(tmp_path / "photos")
        query, result = tmp_path / "photos" / "000.png", tmp_path / "photos" / "001.png"
        before = collection.explain(query, result).confidence
        monkeypatch.setitem(CALIBRATIONS, 1, Confidence(bias=3.0))
        (answer,) = collection.search(query)
        found = {hit.path: hit.confidence for hit in answer.hits}
        assert found[result] == collection.explain(query, result).confidence > before


def test_an_unknown_calibration_is_refused():
    with pytest.raises(InputError, match="calibration"):
        Model(HessianAffine(), tiny_model().encoder, calibration=99).check_settings()


def test_moving_a_model_leaves_the_encoder_of_the_caller_alone():
    encoder = Encoder(FastFAemb(2), device="cuda")
    model = Model(HessianAffine(), encoder).to("cpu")
    assert (encoder.device, model.encoder.device) == ("cuda", "cpu")
