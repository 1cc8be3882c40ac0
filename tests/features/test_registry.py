"""Extractors by name, and errors for names, settings and networks that do not fit."""

import json
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from cnn_networks import cells, quarters, saved, tokens
from faemb.errors import FaembError, InputError
from faemb.features import DETECTORS, Extractor, HessianAffine, make_extractor
from faemb.features.cnn import CnnMap, CnnPatches, CnnTokens

PROGRAMS: dict[str, Callable[[], onnx.ModelProto]] = {"patches": quarters, "map": cells, "tokens": tokens}
KINDS: dict[str, type[Extractor]] = {"patches": CnnPatches, "map": CnnMap, "tokens": CnnTokens}


@pytest.fixture
def network(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The .onnx file of a small network that fits the detector, described beside it."""
    description = {"channels": "rgb", "mean": 0, "std": 255, "multiple": 7 if request.param == "tokens" else 1}
    (tmp_path / "model.json").write_text(json.dumps(description))
    return saved(PROGRAMS[request.param](), tmp_path)


def test_every_detector_is_known_by_name():
    assert set(DETECTORS) == {"hessian-affine", *KINDS}


def test_the_papers_detector_is_the_one_when_nothing_is_said():
    extractor = make_extractor()
    assert type(extractor) is HessianAffine
    assert extractor.fingerprint == HessianAffine().fingerprint


def test_settings_are_passed_on():
    extractor = make_extractor("hessian-affine", max_features=7, rotation_invariant=True, max_side=None)
    assert isinstance(extractor, HessianAffine)
    assert (extractor.max_features, extractor.rotation_invariant, extractor.max_side) == (7, True, None)


@pytest.mark.parametrize(("detector", "network"), [(n, n) for n in KINDS], indirect=["network"], ids=list(KINDS))
def test_networks_by_name(detector, network, rng):
    extractor = make_extractor(detector, network=str(network), max_side=64)
    assert type(extractor) is KINDS[detector]
    assert extractor.max_side == 64
    assert len(extractor.extract(rng.integers(0, 256, (56, 56, 3)).astype("uint8"))) > 0


@pytest.mark.parametrize("name", ["", "sift", "Hessian-Affine", "hessian_affine", "maps"])
def test_an_unknown_name_is_explained(name):
    with pytest.raises(InputError, match=r"detector is .*; expected one of hessian-affine, patches, map, tokens"):
        make_extractor(name)


def test_unknown_settings_are_named():
    with pytest.raises(InputError, match="the detector hessian-affine has no setting colour, sizes"):
        make_extractor(sizes=(64,), colour=True)


@pytest.mark.parametrize(
    ("detector", "setting"), [("hessian-affine", "sizes"), ("map", "rotation_invariant"), ("patches", "max_features")]
)
def test_settings_of_another_detector_are_unknown(detector, setting):
    network = None if detector == "hessian-affine" else "net.onnx"
    with pytest.raises(InputError, match=f"the detector {detector} has no setting {setting}"):
        make_extractor(detector, network=network, **{setting: 1})


@pytest.mark.parametrize("detector", KINDS)
def test_a_network_that_is_not_given_is_asked_for(detector):
    with pytest.raises(InputError, match=f"the detector {detector} needs a network; give its .* with --network"):
        make_extractor(detector)


def test_a_network_that_is_not_needed_is_refused():
    with pytest.raises(InputError, match="uses no network; choose one of patches, map, tokens"):
        make_extractor("hessian-affine", network="net.onnx")


def test_a_network_that_is_not_there_is_explained(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*gone\.onnx"):
        make_extractor("map", network=tmp_path / "gone.onnx")


@pytest.mark.parametrize(
    "settings",
    [{"max_features": 0}, {"max_side": 5}, {"max_side": -1}, {"threshold": -1.0}, {"patch": 4}],
    ids=str,
)
def test_wrong_values_are_refused_at_once_and_not_at_the_first_image(settings):
    (name,) = settings
    with pytest.raises(FaembError, match=f"{name} is"):
        make_extractor("hessian-affine", **settings)
