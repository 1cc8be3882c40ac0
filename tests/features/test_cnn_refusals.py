"""Network files, JSON files and settings that are refused, each with a message that gives the cure."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from cnn_networks import cells, network, program, quarters, saved, tokens
from faemb.errors import FaembError, FormatError, InputError, MissingExtraError
from faemb.features.cnn import CnnMap, CnnPatches, CnnTokens, Network

PLAIN: dict[str, Any] = {"channels": "rgb", "mean": 0, "std": 1}
BATCH = np.zeros((2, 3, 16, 16), np.float32)


def reshaped(*shape: int) -> onnx.ModelProto:
    return program([helper.make_node("Reshape", ["image", "shape"], ["features"])], weights={"shape": np.array(shape)})


def unchanged(**options: Any) -> onnx.ModelProto:
    return program([helper.make_node("Identity", ["image"], ["features"])], **options)


def wide_kernel() -> onnx.ModelProto:
    weights = {"kernel": np.ones((2, 3, 9, 9), np.float32)}
    return program([helper.make_node("Conv", ["image", "kernel"], ["features"])], weights=weights)


def two_inputs() -> onnx.ModelProto:
    return program([helper.make_node("Add", ["image", "mask"], ["features"])], inputs=("image", "mask"))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        pytest.param(two_inputs(), r"has 2 inputs \(image, mask\); expected one", id="two inputs"),
        pytest.param(unchanged(shape=(3, 8, 8)), r"shape \[3, 8, 8\]; expected \(batch, 3, h", id="three axes"),
        pytest.param(unchanged(shape=("n", 8, 8, 3)), r"shape \['n', 8, 8, 3\]; expected", id="channels last"),
        pytest.param(unchanged(kind=TensorProto.UINT8), r"is a tensor\(uint8\); expected one of", id="whole numbers"),
        pytest.param(unchanged(shape=(4, 3, 8, 8)), "takes batches of 4 only; export it for any", id="batches of 4"),
    ],
)
def test_a_network_that_takes_no_picture_is_refused(tmp_path: Path, model: onnx.ModelProto, message: str) -> None:
    path = saved(model, tmp_path)
    with pytest.raises(FormatError, match=message) as caught:
        Network.open(path, **PLAIN)
    assert str(caught.value).startswith(f"{path}: the network")


@pytest.mark.parametrize("content", [b"", b"hello", bytes(100), b"\x08\x09"], ids=["empty", "text", "zeros", "stub"])
def test_a_file_that_is_no_network_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"model.onnx: the network is not an ONNX program"):
        Network.open(path, **PLAIN)


def test_a_network_cut_short_is_refused(tmp_path: Path) -> None:
    path = saved(cells(), tmp_path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(FormatError, match="the network is not an ONNX program"):
        Network.open(path, **PLAIN)


def test_a_missing_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file .*model.onnx'; expected an .onnx file"):
        Network.open(tmp_path / "model.onnx", **PLAIN)
    with pytest.raises(InputError, match=r"is a folder; expected an .onnx file"):
        Network.open(tmp_path, **PLAIN)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["model.onnx", "model.json"])
def test_pipes_are_refused_without_waiting(tmp_path: Path, name: str) -> None:
    saved(cells(), tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match=rf"{name} is a pipe"):
        Network.open(tmp_path / "model.onnx", **PLAIN)


def test_a_large_json_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(cells(), tmp_path)
    (tmp_path / "model.json").write_text("[" + "{}," * 1000)
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "100KB")
    with pytest.raises(InputError, match=r"model\.json needs 150 KB of memory"):
        Network.open(path, **PLAIN)


def test_weights_in_a_second_file_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(cells(), path, save_as_external_data=True, location="weights.data", size_threshold=0)
    monkeypatch.chdir(tmp_path)  # where onnxruntime would find them
    with pytest.raises(FormatError, match=r"keeps its weights in a second file; export it again as one .onnx file"):
        Network.open(path, **PLAIN)


@pytest.mark.parametrize("shape", [(-1,), (2, 3, 16, 4, 4), (1, 2, -1), (6, -1)], ids=str)
def test_an_output_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(FormatError, match=r"output 'features' has shape .* for a batch of 2; expected \(batch, d\)"):
        network(reshaped(*shape)).run(BATCH)


def test_nan_is_refused() -> None:
    with pytest.raises(FormatError, match="'features' holds NaN or infinite values; check mean and std"):
        network(cells()).run(np.full_like(BATCH, np.inf))


def test_an_input_too_small_for_the_network_is_refused() -> None:
    net = network(wide_kernel())
    with pytest.raises(FormatError, match=r"fails on an input of 7 x 5 pixels \(.+\); use larger images"):
        net.run(np.zeros((1, 3, 5, 7), np.float32))
    with pytest.raises(FormatError, match="fails on an input of 4 x 4 pixels"):
        CnnMap(net, least=4).extract(np.zeros((1, 1, 3), np.uint8))
    assert len(CnnMap(net, least=9).extract(np.full((1, 1, 3), 9, np.uint8))) == 1


def test_an_output_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="output is 'logits'; the network has features"):
        network(cells(), output="logits").run(BATCH)


def test_a_size_other_than_the_programs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"size is \(32, 32\); this network takes 16 x 16 only"):
        Network.open(saved(quarters(16), tmp_path), **PLAIN, size=(32, 32))


@pytest.mark.parametrize("given", [{}, {"channels": "rgb"}, {"channels": "rgb", "std": 1}], ids=str)
def test_without_json_and_keywords_the_json_to_write_is_shown(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"missing: .*mean.*\); give it in the file .*json") as caught:
        Network.open(saved(cells(), tmp_path), **given)
    shown = json.loads(str(caught.value).partition("such as ")[2])
    (tmp_path / "model.json").write_text(json.dumps(shown))
    assert Network.open(tmp_path / "model.onnx").input_size == (224, 224)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("[1, 2]", "holds a list; expected an object"),
        ("\udcff", "cannot be read"),
        ('{"colour": "rgb"}', "a network has no setting 'colour'; expected some of channels, mean"),
        ('{"threads": 1}', "no setting 'threads'"),
        ('{"channels": "cmyk"}', "channels is 'cmyk'; expected one of rgb, bgr"),
        ('{"channels": ["rgb"]}', "channels is"),
        ('{"mean": [1, 2]}', r"mean is \[1, 2\]; expected a number, or three"),
        ('{"mean": "0"}', "mean is '0'; expected a number"),
        ('{"mean": [1, 2, null]}', "mean is None; expected a number"),
        ('{"std": NaN}', "std is nan; expected a number"),
        ('{"std": [1, 0, 1]}', r"std is \[1, 0, 1\]; expected positive numbers"),
        ('{"size": 224}', "size is 224; expected width and height"),
        ('{"size": [0, 224]}', "size is 0; expected a whole number"),
        ('{"size": [224, 225], "multiple": 14}', r"size is \[224, 225\]; expected multiples of 14"),
        ('{"multiple": 0}', "multiple is 0"),
        ('{"output": 1}', "output is 1; expected str"),
        ('{"prefix_tokens": -1}', "prefix_tokens is -1"),
        ('{"prefix_tokens": true}', "prefix_tokens is True"),
    ],
)
def test_a_wrong_json_is_refused_with_an_example(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "model.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(FormatError, match=rf'model.json.*{message}.*such as {{"channels": "rgb", "mean"'):
        Network.open(saved(cells(), tmp_path), **PLAIN)


def test_a_wrong_keyword_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a network has no setting 'colour'"):
        Network.open(saved(cells(), tmp_path), **PLAIN, colour="rgb")
    with pytest.raises(InputError, match="std is 0"):
        Network.open(saved(cells(), tmp_path), **PLAIN | {"std": 0})
    with pytest.raises(InputError, match="threads is 0; expected a whole number, 1 or more"):
        Network.open(saved(cells(), tmp_path), **PLAIN, threads=0)


def test_without_onnxruntime_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(
        MissingExtraError, match=r'a neural network needs the extra \'onnx\': pip install "faemb\[onnx\]"'
    ):
        network(cells()).run(BATCH)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (CnnMap, {"network": None}, r"network is None; expected Network\(...\)"),
        (CnnMap, {"scales": ()}, r"scales is \(\); expected a list of numbers, such as \(1.0, 0.6\)"),
        (CnnMap, {"scales": 1.0}, "scales is 1.0; expected a list"),
        (CnnMap, {"scales": (1.0, 0.0)}, "scales is 0.0; expected a number, more than 0"),
        (CnnMap, {"max_features": 0}, "max_features is 0"),
        (CnnMap, {"least": 0}, "least is 0"),
        (CnnMap, {"max_side": 0}, "max_side is 0"),
        (CnnMap, {"unit_length": "yes"}, "unit_length is 'yes'"),
        (CnnMap, {"network__std": -1}, "std is -1"),
        (CnnTokens, {"scales": ("a",)}, "scales is 'a'"),
        (CnnPatches, {"sizes": 64}, "sizes is 64; expected a list of whole numbers"),
        (CnnPatches, {"sizes": (64, 0)}, "sizes is 0"),
        (CnnPatches, {"stride": 0}, "stride is 0"),
        (CnnPatches, {"batch": 1.5}, "batch is 1.5"),
    ],
    ids=str,
)
def test_wrong_settings_of_an_extractor_are_refused(kind: type, settings: dict[str, Any], message: str) -> None:
    extractor = kind(network(cells())).set_params(**settings)
    with pytest.raises(InputError, match=message):
        extractor.extract(np.zeros((64, 64, 3), np.uint8))


@pytest.mark.parametrize(
    ("extractor", "error", "message"),
    [
        (
            CnnMap(network(tokens(8))),
            FormatError,
            r"shape \(1, 65, 3\), not a map \(1, d, h, w\); use the detector tokens",
        ),
        (
            CnnMap(network(quarters(16))),
            FormatError,
            "not a map .* name its last convolution as output, or use the detector pa",
        ),
        (CnnTokens(network(cells())), FormatError, r"not tokens \(1, n, d\); use the detector map"),
        (CnnTokens(network(quarters(16))), FormatError, r"shape \(1, 12\), not tokens .* name another output"),
        (CnnTokens(network(tokens(8))), FormatError, r"65 tokens for 64 x 64 pixels; expected 1 \+ 64 \* 64: set pre"),
        (CnnTokens(network(tokens(8, 5), multiple=8)), FormatError, r"69 tokens .* expected 1 \+ 8 \* 8: set prefix"),
        (
            CnnPatches(network(tokens(8), size=(64, 64))),
            FormatError,
            r"shape \(2, 65, 3\), tokens; use the detector tokens",
        ),
        (CnnPatches(network(cells())), InputError, r"give its size in its .json file"),
        (CnnMap(network(cells(), size=(64, 64)), scales=(1, 0.5)), InputError, r"takes 64 x 64 only: use scales=\(1.0"),
    ],
)
def test_a_network_of_another_kind_is_refused(extractor: Any, error: type[FaembError], message: str) -> None:
    with pytest.raises(error, match=message):
        extractor.extract(np.full((64, 64, 3), 9, np.uint8))


@pytest.mark.parametrize("settings", [{"least": 32_000}, {"scales": [100.0], "least": 20_000}], ids=["least", "scale"])
def test_an_input_that_is_too_large_for_memory(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"an input of \d+ x \d+ pixels for the network needs .* of memory"):
        CnnMap(network(cells()), **settings).extract(np.zeros((16, 16, 3), np.uint8))
