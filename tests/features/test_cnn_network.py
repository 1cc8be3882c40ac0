"""A network as a component: reading, preprocessing, saving, copying, execution providers."""

import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from sklearn.base import clone

from cnn_networks import cells, network, picture, program, quarters, saved
from faemb import persistence
from faemb.errors import InputError, NotFittedError
from faemb.features.cnn import CnnMap, CnnPatches, Network

DESCRIPTION = {"channels": "bgr", "mean": [1.0, 2, 3], "std": 2}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A network with the JSON file beside it."""
    (tmp_path / "model.json").write_text(json.dumps(DESCRIPTION))
    return saved(cells(), tmp_path)


def input_by_the_book(pixels: np.ndarray, channels: str, mean: Any, std: Any) -> np.ndarray:
    """(pixel - mean) / std, one pixel and one channel at a time."""
    values = np.zeros((3, *pixels.shape[:2]))
    for y, x in np.ndindex(pixels.shape[:2]):
        for place, name in enumerate(channels):
            values[place, y, x] = (float(pixels[y, x, "rgb".index(name)]) - mean[place]) / std[place]
    return values


def cells_by_the_book(image: np.ndarray, cell: int, mixing: np.ndarray) -> np.ndarray:
    """One cell at a time: its average colour, mixed, negative values cut off."""
    h, w = image.shape[1] // cell, image.shape[2] // cell
    values = np.zeros((len(mixing), h, w))
    for i, j in np.ndindex(h, w):
        square = image[:, i * cell : (i + 1) * cell, j * cell : (j + 1) * cell]
        values[:, i, j] = np.maximum(mixing @ square.reshape(3, -1).mean(axis=1), 0)
    return values


@pytest.mark.parametrize("channels", ["rgb", "bgr"])
def test_a_picture_enters_as_the_settings_say(rng: np.random.Generator, channels: str) -> None:
    mean, std = (103.939, 116.779, 123.68), (58.0, 57.0, 1.5)
    pixels = picture(rng, 9, 7)
    prepared = Network(channels, mean, std).prepare(pixels, (9, 7))
    assert prepared.dtype == np.float32
    np.testing.assert_allclose(prepared, input_by_the_book(pixels, channels, mean, std), rtol=1e-5)


def test_one_number_stands_for_three(rng: np.random.Generator) -> None:
    pixels = picture(rng, 9, 7)
    one, three = Network("rgb", 100, 2).prepare(pixels, (9, 7)), Network("rgb", [100] * 3, [2] * 3)
    np.testing.assert_array_equal(one, three.prepare(pixels, (9, 7)))


def test_floating_pixels_enter_like_whole_ones(rng: np.random.Generator) -> None:
    pixels, net = picture(rng, 20, 20), Network("rgb", 0, 1)
    np.testing.assert_array_equal(net.prepare(pixels, (7, 30)), net.prepare(pixels.astype(np.float32), (7, 30)))


@pytest.mark.parametrize("size", [(10, 6), (10, 18), (40, 6), (40, 24)], ids=str)
def test_a_resized_picture_keeps_its_average(rng: np.random.Generator, size: tuple[int, int]) -> None:
    """All pixels are averaged along an axis that shrinks, also if the other one grows."""
    pixels = np.kron(rng.integers(0, 256, (12, 20, 1)), np.ones((1, 1, 3))).astype(np.uint8)
    pixels[[0, -1]], pixels[:, [0, -1]] = 128, 128  # interpolation repeats the border: keep it flat
    small = Network("rgb", 0, 1).prepare(pixels, size)
    assert small.shape == (3, size[1], size[0])
    np.testing.assert_allclose(small.mean(), pixels.mean(), rtol=0.02)


def test_every_value_of_a_map_is_the_formulas(rng: np.random.Generator) -> None:
    mixing = rng.standard_normal((5, 3))
    batch = rng.standard_normal((2, 3, 16, 24)).astype(np.float32)
    values = network(cells(8, mixing)).run(batch)
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, [cells_by_the_book(image, 8, mixing) for image in batch], atol=1e-6)


def test_large_and_small_inputs_give_the_same_values(rng: np.random.Generator) -> None:
    """The careful session for small inputs, and the fast one for large."""
    batch = rng.standard_normal((1, 3, 128, 136)).astype(np.float32)
    net = network(cells(8, rng.standard_normal((5, 3))))
    np.testing.assert_allclose(net.run(batch)[..., :8, :], net.run(batch[:, :, :64]), atol=1e-6)


def test_a_network_exported_for_one_picture_takes_many(rng: np.random.Generator) -> None:
    batch = rng.standard_normal((3, 3, 16, 16)).astype(np.float32)
    single = network(cells(shape=(1, 3, "height", "width")))
    np.testing.assert_array_equal(single.run(batch), network(cells()).run(batch))


def test_a_network_of_half_precision_takes_and_gives_floats(rng: np.random.Generator) -> None:
    batch = rng.random((2, 3, 4, 4)).astype(np.float32)
    half = program([helper.make_node("Neg", ["image"], ["features"])], kind=TensorProto.FLOAT16)
    values = network(half).run(batch)
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, -batch, atol=1e-3)


def test_an_output_can_be_named(rng: np.random.Generator) -> None:
    batch = rng.standard_normal((1, 3, 16, 16)).astype(np.float32)
    model = cells(mixing=-np.eye(3), outputs=("features", "mixed"))
    first, named = network(model).run(batch), network(model, output="mixed").run(batch)
    np.testing.assert_array_equal(first, np.maximum(named, 0))
    assert named.min() < 0


def test_opening_reads_the_json_beside_it(file: Path) -> None:
    net = Network.open(file)
    assert net.settings() == DESCRIPTION | {"size": None, "multiple": 1, "output": None, "prefix_tokens": 1}
    assert net.program_.tobytes() == file.read_bytes()


def test_keywords_complete_and_override_the_json(file: Path) -> None:
    net = Network.open(str(file), std=(1, 2, 3), size=(32, 16), threads=1)
    assert (net.channels, net.mean, net.std, net.size, net.threads) == ("bgr", [1.0, 2, 3], (1, 2, 3), (32, 16), 1)


def test_keywords_alone_will_do(tmp_path: Path) -> None:
    net = Network.open(saved(cells(), tmp_path), channels="rgb", mean=0, std=1)
    assert net.is_fitted


def test_the_size_is_the_settings_or_the_programs() -> None:
    assert network(cells()).input_size is None
    assert network(cells(), size=[32, 16]).input_size == (32, 16)
    assert network(quarters(16)).input_size == (16, 16)


@pytest.mark.parametrize(
    ("wanted", "multiple", "usable"),
    [((100, 60), 1, (100, 64)), ((100, 60), 14, (98, 70)), ((1, 500), 8, (64, 496)), ((105.6, 104.4), 1, (106, 104))],
)
def test_a_usable_size_is_near_and_not_too_small(
    wanted: tuple[float, float], multiple: int, usable: tuple[int, int]
) -> None:
    assert network(cells(), multiple=multiple).size_for(*wanted, least=64) == usable


def test_where_one_size_is_taken_no_other_is_usable() -> None:
    assert network(quarters(16)).size_for(500, 300, least=64) == (16, 16)


def test_saved_and_loaded_it_is_the_same(tmp_path: Path, rng: np.random.Generator) -> None:
    extractor = CnnPatches(network(cells(), mean=(1.0, 2.5, 3.0), size=(16, 16), threads=1), sizes=(16,))
    persistence.save(extractor, tmp_path / "extractor")
    loaded = persistence.load(tmp_path / "extractor")
    assert isinstance(loaded, CnnPatches)
    pixels = picture(rng, 40, 30)
    before, after = extractor.extract(pixels), loaded.extract(pixels)
    np.testing.assert_array_equal(before.descriptors, after.descriptors)
    assert before.fingerprint == after.fingerprint == extractor.fingerprint


def test_the_fingerprint_covers_weights_and_settings_but_not_where_it_runs() -> None:
    def mark(model: Any = None, **settings: Any) -> str:
        return CnnMap(network(model or cells(), **settings)).fingerprint

    assert mark() == mark(threads=1) == mark(providers=("CPUExecutionProvider",)) == mark(mean=0)
    assert mark(mean=(1, 2, 3)) == mark(mean=[1.0, 2.0, 3.0])
    assert len({mark(), mark(cells(mixing=2 * np.eye(3))), mark(mean=1), mark(channels="bgr"), mark(size=(8, 8))}) == 5


def test_the_fingerprint_follows_every_change() -> None:
    extractor = CnnMap(network(cells()))
    first = extractor.fingerprint
    assert extractor.set_params(least=32).fingerprint != first
    assert extractor.set_params(least=64).fingerprint == first
    extractor.network.program_ = network(cells(mixing=2 * np.eye(3))).program_
    assert extractor.fingerprint != first


def test_it_can_be_sent_to_another_process(rng: np.random.Generator) -> None:
    extractor, pixels = CnnMap(network(cells())), picture(rng, 64, 64)
    before = extractor.extract(pixels)  # starts a session, which cannot be sent
    sent = pickle.loads(pickle.dumps(extractor))  # noqa: S301
    np.testing.assert_array_equal(sent.extract(pixels).descriptors, before.descriptors)
    assert sent.fingerprint == before.fingerprint


def test_a_clone_keeps_the_program(rng: np.random.Generator) -> None:
    extractor, pixels = CnnMap(network(cells()), scales=(1.0, 0.6)), picture(rng, 64, 64)
    copy = clone(extractor)
    assert copy.network is not extractor.network
    np.testing.assert_array_equal(copy.extract(pixels).descriptors, extractor.extract(pixels).descriptors)
    assert not clone(Network("rgb", 0, 1)).is_fitted


def test_a_new_program_is_used_at_once(rng: np.random.Generator) -> None:
    batch, net = rng.random((1, 3, 16, 16)).astype(np.float32), network(cells())
    before = net.run(batch)
    net.program_ = network(cells(mixing=2 * np.eye(3))).program_
    np.testing.assert_allclose(net.run(batch), 2 * before, rtol=1e-6)


def test_moving_it_leaves_the_program_where_it_is() -> None:
    net = network(cells())
    assert net.to("cuda") is net
    assert isinstance(net.program_, np.ndarray)


def test_without_a_program_it_says_so() -> None:
    with pytest.raises(NotFittedError, match=r"no program yet; read one with Network.open\(path\)"):
        CnnMap(Network("rgb", 0, 1)).extract(np.zeros((64, 64, 3), np.uint8))


def test_a_place_that_does_not_start_is_replaced_by_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with the CUDA build of onnxruntime and without CUDA."""
    start, tried = onnxruntime.InferenceSession, []

    def without_cuda(code: bytes, options: Any, *, providers: list[Any], **others: Any) -> Any:
        tried.append([name for name, _ in providers])
        if tried[-1][0] == "CUDAExecutionProvider":
            raise RuntimeError("libcudnn.so.9 is missing")
        return start(code, options, providers=providers, **others)

    available = ["CUDAExecutionProvider", "AzureExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: available)
    monkeypatch.setattr(onnxruntime, "InferenceSession", without_cuda)
    with pytest.warns(RuntimeWarning, match="CUDAExecutionProvider cannot be started; the network runs on the CPU"):
        network(cells()).run(np.zeros((1, 3, 16, 16), np.float32))
    assert tried == [["CUDAExecutionProvider", "CPUExecutionProvider"], ["CPUExecutionProvider"]]


def test_the_place_can_be_chosen(rng: np.random.Generator) -> None:
    batch = rng.random((1, 3, 16, 16)).astype(np.float32)
    chosen = network(cells(), providers=["CPUExecutionProvider"], threads=1)
    with warnings.catch_warnings(action="error"):
        np.testing.assert_array_equal(chosen.run(batch), network(cells()).run(batch))
    with pytest.raises(InputError, match=r"providers is .*TensorrtExecutionProvider.*; onnxruntime has .*CPU"):
        network(cells(), providers=("TensorrtExecutionProvider",)).run(batch)
