"""SqueezeNet on photographs: average pooling finds the other pictures of the same object."""

from pathlib import Path

import numpy as np
import pytest

from faemb.errors import FormatError
from faemb.features.cnn import CnnMap, CnnPatches, Network, rmac, spoc


@pytest.fixture(scope="module")
def squeezenet(data: Path) -> Network:
    path = data / "models" / "squeezenet1_1_trunk.onnx"
    return Network.open(path, channels="bgr", mean=(103.939, 116.779, 123.68), std=1)


@pytest.fixture(scope="module")
def maps(data: Path, squeezenet: Network) -> list[np.ndarray]:
    """Maps of the first 25 groups of four, at 320 x 240."""
    extractor = CnnMap(squeezenet, max_side=320)
    return [extractor.map(data / "ukbench400" / "jpg" / f"ukbench{number:05}.jpg") for number in range(100)]


def ns_score(vectors: list[np.ndarray]) -> float:
    """How many of the four best are of the image's own group, itself included: 4 at best."""
    x = np.array(vectors) - np.mean(vectors, axis=0)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    best = np.argsort(-(x @ x.T), axis=1, kind="stable")[:, :4]
    return float((best // 4 == np.arange(len(x))[:, None] // 4).sum(axis=1).mean())


def test_average_pooling_finds_the_same_object(maps: list[np.ndarray]) -> None:
    """3.93 on these 100 images; 3.86 on all 400 of ukbench400."""
    assert maps[0].shape == (512, 14, 19)
    assert ns_score([each.mean(axis=(1, 2)) for each in maps]) > 3.88


def test_the_baselines_find_it_too(maps: list[np.ndarray]) -> None:
    """3.94 both."""
    assert ns_score([spoc(each) for each in maps]) > 3.88
    assert ns_score([rmac(each) for each in maps]) > 3.88


def test_patches_and_locations_of_a_photograph(data: Path, squeezenet: Network) -> None:
    photograph = data / "ukbench400" / "jpg" / "ukbench00000.jpg"
    locations = CnnMap(squeezenet).extract(photograph)
    assert locations.descriptors.shape == (29 * 39, 512)
    fixed = Network(**squeezenet.get_params() | {"size": (64, 64)})
    fixed.program_ = squeezenet.program_
    assert CnnPatches(fixed).extract(photograph).descriptors.shape == (497, 512)


@pytest.mark.parametrize("side", [3, 15, 22])
def test_an_input_too_small_is_an_error_and_not_the_end_of_the_process(squeezenet: Network, side: int) -> None:
    """onnxruntime 1.31 with its fastest layouts divides by zero here."""
    with pytest.raises(FormatError, match=f"fails on an input of {side} x {side} pixels"):
        CnnMap(squeezenet, least=1).extract(np.full((side, side, 3), 9, np.uint8))
