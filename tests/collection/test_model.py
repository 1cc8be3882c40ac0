"""The model of a collection: what it learns, from how little, and that it is the same after saving."""

import numpy as np
import pytest

from faemb.binary import ITQ
from faemb.collection import Model, new_model
from faemb.collection.model import BITS, LESSONS, MOST_PARTS, PER_IMAGE, Lessons
from faemb.embedding import VLAD, FastFAemb
from faemb.encoder import Encoder
from faemb.errors import FormatError, InputError, NotFittedError
from faemb.features import HessianAffine
from faemb.presets import SMALLER, preset, shrunk
from faemb.projection import Projection
from faemb.whitening import Whitening

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
    """Sets of made-up descriptors; each image has a taste of its own."""
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
    coded = fitted.encode(sets)
    assert coded.vectors.shape == (12, fitted.width)
    assert coded.short.shape == (12, fitted.short_width)
    assert coded.codes.shape == (12, fitted.code_bytes)
    assert (coded.vectors.dtype, coded.short.dtype, coded.codes.dtype) == (np.float32, np.float32, np.uint8)
    for rows in (coded.vectors, coded.short):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_vectors_are_the_encoders_own(fitted, sets):
    np.testing.assert_array_equal(fitted.encode(sets).vectors, fitted.encoder.encode(sets))


def test_short_vectors_have_the_products_of_the_vectors(fitted, sets):
    """All of them here: there are fewer dimensions than a short vector has."""
    coded = fitted.encode(sets)
    np.testing.assert_allclose(coded.short @ coded.short.T, coded.vectors @ coded.vectors.T, atol=1e-5)


def test_short_vectors_begin_with_what_tells_images_apart(fitted, sets):
    variance = fitted.encode(sets).short.var(axis=0)
    quarter = len(variance) // 4
    assert variance[:quarter].sum() > 1.5 * variance[-quarter:].sum()


def test_an_image_without_descriptors_has_zeros(fitted, sets):
    coded = fitted.encode([sets[0], np.zeros((0, DESCRIPTOR), np.float32)])
    assert not coded.vectors[1].any()
    assert not coded.short[1].any()


def test_the_same_settings_and_images_give_the_same_model(fitted, sets):
    assert small_model().fit(sets).fingerprint == fitted.fingerprint


def test_images_are_read_one_at_a_time_and_learned_from_in_part(rng):
    """Of a large image only some descriptors teach the encoder, so that no image speaks for all."""
    seen: list[int] = []

    class Listening(Encoder):
        def fit(self, images, **options):
            seen.extend(map(len, images))
            return super().fit(images, **options)

    model = small_model()
    model.encoder = Listening(**model.encoder.get_params(deep=False))
    model.fit([*images(rng, 3, 20), *images(rng, 1, PER_IMAGE + 50)])
    assert seen == [20, 20, 20, PER_IMAGE]


def test_progress_names_every_stage(sets):
    told: list[tuple[str, int, int]] = []
    small_model().fit(sets, progress=lambda *call: told.append(call))
    stages = list(dict.fromkeys(stage for stage, _, _ in told))
    assert stages == ["projection", "anchors", "statistics", "whitening", "done", "short vectors"]
    assert all(0 <= done <= total for _, done, total in told)


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
    for ours, theirs in zip(fitted.encode(sets), loaded.encode(sets), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (loaded.width, loaded.short_width, loaded.code_bytes) == (
        fitted.width,
        fitted.short_width,
        fitted.code_bytes,
    )


def test_a_loaded_model_extracts_as_the_saved_one(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    assert Model.load(tmp_path / "model").extractor.fingerprint == fitted.extractor.fingerprint


def test_before_it_has_learned_it_can_be_saved_too(sets, tmp_path):
    small_model().save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    assert not loaded.is_fitted
    assert loaded.fit(sets).fingerprint == small_model().fit(sets).fingerprint


def test_another_component_is_no_model(fitted, tmp_path):
    fitted.encoder.save(tmp_path / "encoder")
    with pytest.raises(FormatError, match=r"holds a Encoder, not a model of pictures; make one with: faemb fit"):
        Model.load(tmp_path / "encoder")


def test_a_file_that_is_none_is_explained(tmp_path):
    (tmp_path / "text").write_text("no model")
    for name in ("text", "gone"):
        with pytest.raises(FormatError, match=name):
            Model.load(tmp_path / name)


# Codes


def test_bits_are_a_multiple_of_eight_that_the_images_can_teach(fitted):
    assert fitted.code is not None
    assert fitted.code.bits == 8 * fitted.code_bytes == fitted.width // 8 * 8 == 32 < BITS


def test_fewer_bits_may_be_wanted(sets):
    assert small_model(code=ITQ(16)).fit(sets).code_bytes == 2


def test_very_few_images_teach_no_code(rng):
    """Two images with two descriptors each, say, have four parts at most."""
    plain = Encoder(VLAD(1), projection=Projection(2), pooling="sum")
    few = Model(HessianAffine(), plain).fit(images(rng, 2, 2))
    assert few.code is None
    assert few.is_fitted
    assert few.code_bytes == 0
    assert few.encode(images(rng, 3, 2)).codes.shape == (3, 0)


def test_a_model_without_a_code_is_saved_and_loaded(rng, tmp_path):
    few = Model(HessianAffine(), Encoder(VLAD(1), projection=Projection(2), pooling="sum")).fit(images(rng, 2, 2))
    few.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    assert loaded.is_fitted
    assert loaded.fingerprint == few.fingerprint


@pytest.mark.parametrize("distinct", [9, 20])
def test_copies_of_images_teach_no_bits(rng, distinct):
    """600 images are not split, so that copies have equal vectors; they must not be in the way of the others."""
    plain = Encoder(VLAD(4), projection=Projection(8), pooling="sum")
    some = images(rng, distinct, 20)
    model = Model(HessianAffine(), plain).fit([some[i % distinct] for i in range(LESSONS)])
    assert model.code_bytes == (distinct - 1) // 8


# How little is enough


def test_a_smaller_encoder_for_fewer_descriptors():
    """Ever larger with more of them, and never larger than asked for."""
    sizes = []
    for count in (0, 10, 36, 135, 136, 272, 1055, 1056, 2112, 4224, 10**6):
        encoder = shrunk(preset("small"), count)
        sizes.append((encoder.embedding.n_anchors, encoder.projection.dimension))
    places = [SMALLER.index(size) for size in sizes]
    assert places == sorted(places, reverse=True)
    assert sizes[0] == SMALLER[-1]
    assert sizes[-1] == (8, 32)
    assert len(set(sizes)) == len(SMALLER) - 1


def test_a_published_row_is_never_made_smaller():
    encoder = shrunk(preset("f-faemb-8"), 10)
    assert (encoder.embedding.n_anchors, encoder.projection.dimension) == (8, 45)


def test_a_collections_model_learns_from_a_single_image(rng):
    model = new_model(HessianAffine()).fit(images(rng, 1, 300))
    assert model.is_fitted
    assert (model.encoder.embedding.n_anchors, model.encoder.projection.dimension) == (2, 16)


@pytest.mark.parametrize(("count", "each"), [(1, 10), (1, 60), (2, 20), (3, 60), (5, 2), (10, 20)])
def test_a_collections_model_learns_from_little(rng, count, each):
    sets = images(rng, count, each)
    model = new_model(HessianAffine()).fit(sets)
    vectors = model.encode(sets).vectors
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize(("count", "each"), [(1, 1), (1, 8), (4, 2), (3, 0)])
def test_too_little_is_explained_in_terms_of_images(rng, count, each):
    words = f"{count} images with {count * each} local features in all are too little to learn from; give more images"
    with pytest.raises(InputError, match=words):
        new_model(HessianAffine()).fit(images(rng, count, each))


def test_after_too_little_it_learns_from_more_as_if_nothing_was(rng):
    model, enough = new_model(HessianAffine()), images(rng, 1, 290)
    with pytest.raises(InputError, match="too little"):
        model.fit(images(rng, 1, 5))
    assert not model.is_fitted
    assert model.fit(enough).fingerprint == new_model(HessianAffine()).fit(enough).fingerprint


def test_images_of_which_none_can_be_compared_are_explained():
    """Equal descriptors only."""
    with pytest.raises(InputError, match=r"too little to learn from|equal"):
        new_model(HessianAffine()).fit([np.ones((50, DESCRIPTOR), np.float32)] * 3)


class TestLessons:
    def test_few_images_are_split_into_parts_that_make_them_up(self, rng):
        sets = images(rng, 5, 33)
        lessons = Lessons(sets, rng)
        assert len(lessons) == 5 * MOST_PARTS
        for place, whole in enumerate(sets):
            parts = [lessons[place * MOST_PARTS + part] for part in range(MOST_PARTS)]
            assert {len(part) for part in parts} <= {2, 3}
            rows = np.concatenate(parts)
            np.testing.assert_array_equal(np.unique(rows, axis=0), np.unique(whole, axis=0))
            assert len(rows) == len(whole)

    @pytest.mark.parametrize(("count", "parts"), [(1, 16), (37, 16), (38, 16), (40, 15), (300, 2), (599, 2), (600, 1)])
    def test_enough_in_all_and_no_more_parts_than_needed(self, rng, count, parts):
        assert len(Lessons([np.zeros((4, 2))] * count, rng)) == count * parts

    def test_many_images_stay_whole(self, rng):
        sets = images(rng, LESSONS, 3)
        lessons = Lessons(sets, rng)
        np.testing.assert_array_equal(lessons[7], sets[7])

    def test_the_same_seed_gives_the_same_parts(self, rng):
        sets = images(rng, 2, 40)
        first, again = (Lessons(sets, np.random.default_rng(9)) for _ in range(2))
        for a, b in zip(first, again, strict=True):
            np.testing.assert_array_equal(a, b)

    def test_they_are_a_sequence(self, rng):
        lessons = Lessons(images(rng, 1, 40), rng)
        np.testing.assert_array_equal(lessons[-1], lessons[len(lessons) - 1])
        with pytest.raises(IndexError):
            lessons[len(lessons)]

    def test_of_no_images_there_are_none(self, rng):
        assert len(Lessons([], rng)) == 0
