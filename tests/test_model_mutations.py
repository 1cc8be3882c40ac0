"""Models with right checksums and content that nobody has fitted: each is used without fault or refused."""

import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from faemb import Encoder, FastFAemb, Model, persistence
from faemb.collection import new_model
from faemb.component import Component
from faemb.declared import learned_hints, setting_hints
from faemb.errors import FaembError
from faemb.features.cnn import CnnMap, CnnPatches
from faemb.presets import NAMES, PUBLISHED, preset
from model_mutations import EXAMPLES, examples, mutate, read, use, write

pytestmark = pytest.mark.usefixtures("one_thread")

MUTATIONS = 40
"""Of each example; a fuzzer makes more."""
PATIENCE = 60
"""Seconds after which a call is taken to hang; it takes milliseconds."""


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return examples(tmp_path_factory.mktemp("models"))


FAMILIES = {name.rpartition("-")[0]: name for name in PUBLISHED}
"""One published preset of each method; others differ in their numbers of anchors."""
FITTED = [("small", None), *((name, variant) for name in FAMILIES.values() for variant in ("paper", "released"))]


@contextmanager
def patience() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise AssertionError(f"no end after {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(path: Path) -> str:
    with patience(), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of overflow, where arrays have extreme values
        try:
            use(path)
        except FaembError as error:
            told = str(error)
        else:
            told = ""
    assert "\n" not in told
    return told


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_are_valid_and_stay_so_when_they_are_written_again(
    originals: dict[str, Path], tmp_path: Path, name: str
) -> None:
    write(tmp_path / "same", *read(originals[name]))
    assert [outcome(originals[name]), outcome(tmp_path / "same")] == ["", ""]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_mutated_model_is_used_or_refused(originals: dict[str, Path], tmp_path: Path, name: str) -> None:
    path = tmp_path / "mutated"
    for number in range(MUTATIONS):
        what = mutate(originals[name], path, np.random.default_rng([16, number]))
        try:
            outcome(path)
        except Exception as error:
            raise AssertionError(f"mutation {number}: {what}") from error


@pytest.mark.parametrize("kind", [CnnMap, CnnPatches])
def test_a_mutated_model_with_a_network(tmp_path: Path, kind: type[CnnMap] | type[CnnPatches]) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from cnn_networks import cells, network, quarters

    program = network(cells()) if kind is CnnMap else network(quarters(), size=(16, 16))
    model = Model(kind(program), Encoder(FastFAemb(2))).fit([np.random.default_rng(2).random((40, 3))])
    persistence.save(model, tmp_path / "original")
    for number in range(MUTATIONS):
        mutate(tmp_path / "original", tmp_path / "mutated", np.random.default_rng([17, number]))
        outcome(tmp_path / "mutated")


def test_every_class_declares_its_settings_and_what_it_learns() -> None:
    known = {name: kind for name, kind in Component.registry.items() if kind.__module__.startswith("faemb.")}
    assert {"Model", "Encoder", "Network", "Fisher"} <= known.keys()
    for kind in known.values():
        assert set(kind.setting_names()) <= set(setting_hints(kind)), kind
        assert set(kind.learned) == set(learned_hints(kind)), kind


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_is_loaded_as_it_was_saved(tmp_path: Path, name: str) -> None:
    model = new_model(name=name)
    persistence.save(model, tmp_path / "model")
    assert Model.load(tmp_path / "model").fingerprint == model.fingerprint


@pytest.mark.parametrize(("name", "variant"), FITTED)
def test_each_method_is_loaded_as_it_was_fitted(tmp_path: Path, name: str, variant: str | None) -> None:
    """Few anchors and dimensions, but all stages."""
    encoder = preset(name, variant, rotation=True)
    encoder.embedding.n_anchors, encoder.discard_after, encoder.keep = 2, 0, None
    if hasattr(encoder.embedding, "restarts"):
        encoder.embedding.restarts = 1
    if encoder.projection is not None:
        encoder.projection.dimension = 4
    if encoder.whitening is not None:
        encoder.whitening.discard = encoder.whitening.raise_last = 0
    images = np.random.default_rng(5).random((12, 20, 16))
    encoder.fit(list(images)).save(tmp_path / "encoder")
    loaded = Encoder.load(tmp_path / "encoder")
    np.testing.assert_array_equal(loaded.encode(list(images)), encoder.encode(list(images)))
