"""The whole pipeline on rendered sets: every order of stages, its limits, and what comes out for odd images."""

import inspect
import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFitted
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from backends import Backend
from faemb import ITQ, VLAD, Encoder, FastFAemb, Projection, Rotation, Whitening
from faemb.errors import FaembError, FormatError, InputError, NotFittedError
from faemb.persistence import load, save
from faemb.pooling import POOLINGS
from faemb.presets import COLLECTION, PUBLISHED, VARIANTS, Changes, preset
from faemb.runtime import UNKNOWN

WIDTH = 12
OBJECTS = 8


@pytest.fixture
def images(rng: np.random.Generator) -> list[np.ndarray]:
    """Two noisy views of each of eight objects; an object is a set of descriptors."""
    objects = [rng.standard_normal((30, WIDTH)) for _ in range(OBJECTS)]
    views = [o[rng.permutation(30)[:25]] + 0.15 * rng.standard_normal((25, WIDTH)) for o in objects for _ in range(2)]
    return [(v / np.linalg.norm(v, axis=1, keepdims=True)).astype(np.float32) for v in views]


@pytest.fixture
def learning(rng: np.random.Generator) -> list[np.ndarray]:
    sets = [rng.standard_normal((30, WIDTH)) for _ in range(60)]
    return [(s / np.linalg.norm(s, axis=1, keepdims=True)).astype(np.float32) for s in sets]


def small(**changes) -> Encoder:
    settings = {"projection": Projection(6, unit_after=True), "whitening": Whitening(discard=5)}
    return Encoder(FastFAemb(4, unit_residuals=True), **{**settings, **changes})


def partner_found(vectors: np.ndarray) -> float:
    """The share of images whose nearest other image shows the same object."""
    similarity = vectors @ vectors.T
    np.fill_diagonal(similarity, -np.inf)
    return float(np.mean(similarity.argmax(1) == np.arange(len(vectors)) ^ 1))


VARIETIES = {
    **{pooling: {"pooling": pooling} for pooling in POOLINGS},
    "without projection": {"projection": None},
    "without whitening": {"whitening": None},
    "rotation after the power law": {"rotation": Rotation("whiten")},
    "rotation before the power law": {"rotation": Rotation("rotate"), "finishing": "released", "discard_after": 3},
    "shortened": {"rotation": Rotation("whiten"), "keep": 20},
}


@pytest.mark.parametrize("changes", VARIETIES.values(), ids=VARIETIES)
def test_the_dimension_of_vectors_is_known_from_the_settings(changes: dict, learning) -> None:
    """Without a projection the descriptors decide it. Residuals of unit length do not vary in one direction."""
    encoder = small(**changes)
    fitted = encoder.clone().fit(learning)
    still = 0 if encoder.whitening is None or encoder.keep is not None else 1
    assert encoder.largest_dimension == (None if encoder.projection is None else fitted.dimension + still)


def test_so_it_is_without_the_components_that_the_paper_discards(learning) -> None:
    encoder = small(whitening=Whitening())
    assert encoder.largest_dimension == encoder.clone().fit(learning).dimension + 1


@pytest.mark.parametrize("changes", VARIETIES.values(), ids=VARIETIES)
def test_each_variety_finds_the_other_view(changes: dict, backend: Backend, images, learning) -> None:
    encoder = small(**changes, device=backend.device).fit(learning)
    vectors = encoder.encode(images)
    assert vectors.shape == (len(images), encoder.dimension)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert partner_found(vectors) >= 0.9


def test_the_paper_order_is_power_law_then_whitening_rotation(images, learning) -> None:
    encoder = small(rotation=Rotation("whiten")).fit(learning)
    plain = small().fit(learning).encode(images)  # pooled, power law, unit length
    assert encoder.rotation_ is not None
    rotated = encoder.rotation_.transform(plain)
    np.testing.assert_allclose(encoder.encode(images), rotated / np.linalg.norm(rotated, axis=1)[:, None], atol=1e-5)


def test_the_released_order_is_rotation_then_truncation_then_power_law(images, learning) -> None:
    encoder = small(rotation=Rotation("rotate"), finishing="released", discard_after=7).fit(learning)
    plain = small(power=1).fit(learning).encode(images)  # pooled, unit length
    assert encoder.rotation_ is not None
    rotated = encoder.rotation_.transform(plain)[:, 7:]
    powered = np.sign(rotated) * np.sqrt(np.abs(rotated))
    np.testing.assert_allclose(encoder.encode(images), powered / np.linalg.norm(powered, axis=1)[:, None], atol=1e-5)


def test_batches_do_not_change_a_vector(images, learning, monkeypatch: pytest.MonkeyPatch) -> None:
    uneven = [image[: 3 + 2 * i] for i, image in enumerate(images)]
    encoder = small().fit(learning)
    together = encoder.encode(uneven)
    monkeypatch.setattr("faemb.encoder.BATCH", 3)
    # Each image is solved to the same tolerance from the same start; only rounding and the stopping step may differ.
    np.testing.assert_allclose(np.sum(encoder.encode(uneven) * together, axis=1), 1, atol=1e-3)


def test_a_list_and_flat_with_offsets_are_the_same(images, learning) -> None:
    encoder = small().fit(learning)
    flat, offsets = np.concatenate(images), np.cumsum([0, *(len(i) for i in images)])
    np.testing.assert_array_equal(encoder.encode((flat, offsets)), encoder.encode(images))


def test_an_image_without_descriptors_is_the_zero_vector(images, learning) -> None:
    for rotation in (None, Rotation("whiten")):
        encoder = small(rotation=rotation).fit(learning)
        result = encoder.explain([images[0], np.zeros((0, WIDTH), np.float32)])
        assert not result.vectors[1].any()
        assert result.weights[1].shape == (0,)
        np.testing.assert_allclose(np.linalg.norm(result.vectors[0]), 1, atol=1e-5)


def test_an_image_with_one_descriptor_has_a_direction(images, learning) -> None:
    vector = small().fit(learning).encode([images[0][:1]])
    np.testing.assert_allclose(np.linalg.norm(vector), 1, atol=1e-5)


def test_an_image_whose_equation_has_no_solution_says_so(images, learning, rng: np.random.Generator) -> None:
    crowd = rng.standard_normal((900, WIDTH)).astype(np.float32)  # in 78 dimensions
    result = small().fit(learning).explain([images[0], crowd])
    assert result.ridges[0] == 0
    assert result.ridges[1] > 0
    np.testing.assert_allclose(np.linalg.norm(result.vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_order_of_descriptors_does_not_matter(pooling: str, images, learning, rng: np.random.Generator) -> None:
    encoder = small(pooling=pooling).fit(learning)
    shuffled = [image[rng.permutation(len(image))] for image in images]
    np.testing.assert_allclose(np.sum(encoder.encode(images) * encoder.encode(shuffled), axis=1), 1, atol=1e-4)


def test_empty_learning_images_change_nothing(images, learning) -> None:
    empty = [np.zeros((0, WIDTH), np.float32)] * 30
    with_them = small(rotation=Rotation("whiten")).fit([*learning, *empty]).encode(images)
    np.testing.assert_allclose(small(rotation=Rotation("whiten")).fit(learning).encode(images), with_them, atol=1e-6)


def test_a_fit_that_fails_leaves_what_was_learned(images, learning) -> None:
    encoder = small(rotation=Rotation("whiten")).fit(learning)
    mark, vectors = encoder.fingerprint, encoder.encode(images)
    with pytest.raises(InputError, match="span 4 directions"):
        encoder.fit([learning[0][:5] + 1])
    assert encoder.fingerprint == mark
    np.testing.assert_array_equal(encoder.encode(images), vectors)


def test_scikit_learn_agrees_on_what_is_fitted(learning) -> None:
    with pytest.raises(SklearnNotFitted):
        check_is_fitted(small())
    check_is_fitted(small().fit(learning))


def test_weights_explain_the_vector(images, learning) -> None:
    encoder = small(power=1).fit(learning)
    result = encoder.explain(images[:3])
    count = sum(map(len, images[:3]))
    assert repr(result) == f"Encoded(3 vectors of {encoder.dimension} dimensions, weights of {count} descriptors)"
    assert encoder.projection_ is not None
    assert encoder.whitening_ is not None
    for image, vector, weights in zip(images, result.vectors, result.weights, strict=False):
        rows = encoder.embedding_.embed(encoder.projection_.transform(image)).dense() - encoder.whitening_.mean_
        pooled = weights @ (rows @ encoder.whitening_.matrix_.T)
        np.testing.assert_allclose(vector, pooled / np.linalg.norm(pooled), atol=1e-4)


def test_intra_normalised_vlad_has_cells_of_equal_length(images, learning) -> None:
    encoder = Encoder(VLAD(4, normalise_cells=True), pooling="sum", power=1).fit(learning)
    cells = encoder.encode(images).reshape(len(images), 4, WIDTH)
    np.testing.assert_allclose(np.linalg.norm(cells, axis=2), 0.5, atol=1e-5)


def test_intra_normalisation_of_whitened_vectors_is_refused(learning) -> None:
    with pytest.raises(InputError, match="set whitening=None"):
        Encoder(VLAD(4, normalise_cells=True), whitening=Whitening()).fit(learning)


def test_saved_and_loaded_encodes_to_the_same_bits(images, learning, tmp_path) -> None:
    encoder = small(rotation=Rotation("whiten")).fit(learning)
    mark = encoder.save(tmp_path / "model.safetensors")
    loaded = Encoder.load(tmp_path / "model.safetensors")
    assert loaded.fingerprint == mark == encoder.fingerprint
    np.testing.assert_array_equal(loaded.encode(images), encoder.encode(images))


def test_a_file_with_a_part_only_is_no_encoder(tmp_path) -> None:
    save(FastFAemb(4), tmp_path / "part.safetensors")
    with pytest.raises(FormatError, match="holds a FastFAemb, not an Encoder"):
        Encoder.load(tmp_path / "part.safetensors")


def test_moving_between_libraries_keeps_the_vectors(backend: Backend, images, learning, tmp_path) -> None:
    encoder = small().fit(learning)
    save(encoder, tmp_path / "model.safetensors")
    moved = load(tmp_path / "model.safetensors").set_params(device=backend.device).to(backend.device)
    assert isinstance(moved, Encoder)
    np.testing.assert_allclose(moved.encode(images), encoder.encode(images), atol=2e-3)


def test_arrays_of_either_library_go_in(backend: Backend, images, learning) -> None:
    encoder = small(device=backend.device).fit([backend.array(s) for s in learning])
    np.testing.assert_allclose(encoder.encode([backend.array(i) for i in images]), encoder.encode(images), atol=1e-6)


def test_fitting_twice_gives_the_same_fingerprint(learning) -> None:
    assert small().fit(learning).fingerprint == small().fit(learning).fingerprint


def test_clone_is_unfitted_and_equal_in_settings(learning) -> None:
    encoder = small(rotation=Rotation("whiten")).fit(learning)
    copy = clone(encoder)
    assert not copy.is_fitted
    assert isinstance(encoder.embedding, FastFAemb)
    assert copy.get_params()["embedding__mu"] == encoder.embedding.mu
    with pytest.raises(NotFittedError, match="call fit"):
        copy.encode(learning)


def test_progress_names_its_stages(learning) -> None:
    seen = []
    small(rotation=Rotation()).fit(learning, progress=lambda stage, done, total: seen.append((stage, done, total)))
    assert {"projection", "anchors: k-means", "statistics", "rotation"} <= {stage for stage, _, _ in seen}
    assert all(total == UNKNOWN or 0 <= done <= total for _, done, total in seen)


def test_codes_of_two_views_are_close(images, learning) -> None:
    encoder = small().fit(learning)
    codes = ITQ(24).fit(encoder.encode(learning)).encode(encoder.encode(images))
    assert codes.shape == (len(images), 3)


def test_wrong_width_is_explained(learning) -> None:
    with pytest.raises(InputError, match="descriptors have 5 columns; this model was fitted on 12"):
        small().fit(learning).encode([np.ones((3, 5), np.float32)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pooling": "max"}, "expected one of sum, democratic, sinkhorn, gmp"),
        ({"finishing": "both"}, "expected one of paper, released"),
        ({"power": 0}, "power is 0; expected a number, more than 0, at most 1"),
        ({"keep": 0}, "keep is 0; expected a whole number, 1 or more"),
        ({"discard_after": -3}, "discard_after is -3"),
        ({"discard_after": 79}, "discard_after is 79, and the vectors have 78 components"),
        ({"sample": 0}, "sample is 0"),
        ({"whitening_rows": 0}, "whitening_rows is 0"),
        ({"whitening": Whitening(floor=float("nan"))}, "floor is nan"),
        ({"rotation": Rotation(max_axes=0)}, "max_axes is 0"),
    ],
)
def test_settings_that_make_no_sense_are_explained(changes: dict, message: str, learning) -> None:
    with pytest.raises(InputError, match=message):
        small(**changes).fit(learning)


def test_a_device_that_is_not_there_is_explained(learning) -> None:
    """With PyTorch's message where it is installed, otherwise with the name of the extra."""
    with pytest.raises(FaembError, match=r"cannot use device='no-such-device'|needs the extra 'torch'"):
        small(device="no-such-device").fit(learning)


def test_learning_images_without_descriptors_are_explained() -> None:
    with pytest.raises(InputError, match="have no descriptors"):
        small().fit([np.zeros((0, WIDTH), np.float32)] * 3)


def test_too_few_descriptors_for_the_whitening_are_explained(learning) -> None:
    with pytest.raises(InputError, match="span 19 directions, and 40 are to be discarded"):
        small(whitening=Whitening(discard=40)).fit([learning[0][:20]])


def test_fewer_descriptors_than_dimensions_still_fit(images, learning) -> None:
    """Twenty descriptors for an embedding of 84 dimensions: the span of what was seen is whitened."""
    vectors = small(whitening=Whitening(discard=0)).fit([learning[0][:20]]).encode(images)
    assert vectors.shape[1] <= 19
    assert np.isfinite(vectors).all()


@pytest.mark.parametrize(
    ("name", "variant"), [*((name, None) for name in COLLECTION), *itertools.product(PUBLISHED, VARIANTS)]
)
def test_every_preset_is_a_valid_encoder(name: str, variant: str | None) -> None:
    encoder = preset(name, variant, rotation=True)
    assert not encoder.is_fitted
    assert clone(encoder).get_params(deep=False).keys() == encoder.get_params(deep=False).keys()


@pytest.mark.parametrize("name", ["small", "f-faemb-8"])
def test_an_unknown_variant_is_explained(name: str) -> None:
    with pytest.raises(InputError, match="has no variant 'original'"):
        preset(name, "original")


def test_type_checkers_refuse_what_the_messages_refuse() -> None:
    """Each comment is an error of mypy if it has nothing to ignore."""
    encoder = Encoder(VLAD(4))
    with pytest.raises(InputError, match="descriptor sets are of type int"):
        encoder.fit(42)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="anchors are of type str"):
        VLAD(4).with_anchors("oops")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="wrong_setting"):
        preset("small", wrong_setting=1)  # type: ignore[call-arg]


def test_a_preset_changes_any_setting_of_the_encoder() -> None:
    settings = set(inspect.signature(Encoder).parameters) - {"rotation"}
    assert set(Changes.__annotations__) == settings
    assert preset("small", pooling="sum", seed=3).get_params()["pooling"] == "sum"


def test_the_small_preset_fits_encodes_and_finds(rng: np.random.Generator) -> None:
    """On 12 of its 32 dimensions: its 4224 components take half a minute to learn."""
    objects = [rng.standard_normal((60, 20)) for _ in range(OBJECTS)]
    views = [o + 0.2 * rng.standard_normal(o.shape) for o in objects for _ in range(2)]
    learning = [rng.standard_normal((150, 20)) for _ in range(60)]
    encoder = preset("small", whitening_rows=1)
    assert encoder.embedding.n_anchors == 8
    assert encoder.projection is not None
    assert encoder.projection.dimension == 32
    encoder.set_params(projection__dimension=12).fit(learning)
    assert encoder.whitening_ is not None
    still = 1  # residuals of unit length do not vary in one direction
    assert encoder.dimension == 8 * 12 * 13 // 2 - 32 * 33 // 4 - still
    assert partner_found(encoder.encode(views)) == 1


def test_an_unknown_preset_is_explained() -> None:
    with pytest.raises(InputError, match="there are small, medium, best, vlad-64"):
        preset("large")


# Settings stay as they were given


def test_fitting_changes_no_setting_and_no_given_part(images, learning) -> None:
    parts = FastFAemb(4), Projection(6), Whitening(), Rotation()
    encoder = Encoder(parts[0], projection=parts[1], whitening=parts[2], rotation=parts[3])
    before = encoder.get_params()
    encoder.fit(learning).encode(images)
    assert encoder.get_params() == before
    assert not any(part.is_fitted for part in parts)
    assert all(part.is_fitted for part in encoder.learned_parts().values())


def test_two_encoders_may_share_their_parts(images, learning) -> None:
    whitening, projection = Whitening(), Projection(6)
    first = Encoder(FastFAemb(4), projection=projection, whitening=whitening).fit(learning)
    vectors = first.encode(images)
    Encoder(FastFAemb(2), projection=projection, whitening=whitening).fit(learning[:10])
    np.testing.assert_array_equal(first.encode(images), vectors)


def test_an_encoder_is_a_step_of_a_pipeline(images, learning) -> None:
    pipeline = Pipeline([("encode", small()), ("code", ITQ(16))])
    codes = pipeline.fit(learning).transform(images)
    encoder = small().fit(learning)
    np.testing.assert_array_equal(codes, ITQ(16).fit(encoder.encode(learning)).encode(encoder.encode(images)))
    assert clone(pipeline).set_params(encode__power=0.3, code__bits=8).fit(learning).transform(images).shape[1] == 1
