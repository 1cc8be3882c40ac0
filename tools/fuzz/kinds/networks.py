"""Networks in ONNX files, with the JSON file beside them: odd fields, weights elsewhere, programs that do not end."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper
from tools.fuzz.kind import Damage, Kind, Way
from tools.fuzz.kinds.feature_files import SECRET, SECRET_FILE
from tools.fuzz.odd import json_changed, odd_value

from cnn_networks import cells, program, quarters, tokens
from faemb.features.cnn import CnnMap, Network

Rng = np.random.Generator
FILE = "net.onnx"


class Networks(Kind):
    name = "networks"

    def prepare(self, folder: Path) -> None:
        for name, net in (("cells", cells()), ("quarters", quarters()), ("tokens", tokens())):
            target = folder / name
            target.mkdir()
            (target / FILE).write_bytes(net.SerializeToString())
            settings = {"channels": "rgb", "mean": 0, "std": 255, "multiple": 7 if name == "tokens" else 1}
            (target / "net.json").write_text(json.dumps(settings))
            (target / SECRET_FILE).write_bytes(np.full(4096, SECRET, "<f4").tobytes())

    def ways(self, victim: Path) -> Sequence[Way]:
        return (
            (json_changed,)
            if victim.suffix == ".json"
            else (fields_changed, fields_changed, weights_elsewhere, endless)
        )

    def read(self, folder: Path) -> None:
        network = Network.open(folder / FILE, threads=1)
        white = np.full((64, 64, 3), 255, np.uint8)
        size = network.size_for(64, 64, 1)
        if max(size) > 1000:
            return  # as large as asked for: that is no fault
        found = network.run(network.prepare(white, size)[None])
        if np.isin(np.round(found), SECRET * np.array([1, 2, 3])).any():
            raise Damage("weights from another file")
        if found.ndim == 4:
            CnnMap(network).extract(white)


def fields_changed(path: Path, rng: Rng) -> None:
    """One to four fields anywhere in the program: numbers, texts, parts taken out or repeated."""
    model = onnx.load_from_string(path.read_bytes())
    for _ in range(int(rng.integers(1, 5))):
        _change_field(model, rng)
    path.write_bytes(model.SerializePartialToString())


def _change_field(message: Any, rng: Rng) -> None:
    """Walks down from a message to a field that is set."""
    fields = message.ListFields()
    if not fields:
        return
    field, value = fields[int(rng.integers(len(fields)))]
    repeated = hasattr(value, "__len__") and not isinstance(value, str | bytes)
    if repeated and len(value) and rng.random() < 0.85:
        place = int(rng.integers(len(value)))
        if field.message_type is not None:
            _change_field(value[place], rng)
        else:
            value[place] = _odd_scalar(value[place], rng)
    elif repeated and len(value):
        del value[: 1 if rng.random() < 0.5 else len(value)]
    elif field.message_type is not None:
        _change_field(value, rng)
    elif rng.random() < 0.1:
        message.ClearField(field.name)
    else:
        with suppress(ValueError):  # a number that an enumeration does not have
            setattr(message, field.name, _odd_scalar(value, rng))


def _odd_scalar(value: Any, rng: Rng) -> Any:
    """Of the same type, and within the range of the field."""
    if isinstance(value, float):
        return float(rng.choice([np.nan, np.inf, 0, -1, 1e38]))
    if isinstance(value, bytes):
        return rng.bytes(int(rng.integers(0, 30)))
    if isinstance(value, str):
        odd = odd_value(rng)
        return (
            odd
            if isinstance(odd, str) and "\ud800" not in odd
            else ("image", "features", "Loop", "")[int(rng.integers(4))]
        )
    return int(rng.choice([0, 1, 2, 3, 7, 10, 16, 100, 10**6, 2**31 - 1]))


def weights_elsewhere(path: Path, rng: Rng) -> None:
    """A tensor whose numbers lie in another file, said in one of the ways that protobuf allows."""
    model = onnx.load_from_string(path.read_bytes())
    if not model.graph.initializer:
        return
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    if rng.random() < 0.8:
        tensor.data_location = onnx.TensorProto.EXTERNAL
    place = (SECRET_FILE, f"./{SECRET_FILE}", f"../in/{SECRET_FILE}", "/etc/passwd")[int(rng.integers(4))]
    marks = [("location", place), ("offset", "0"), ("length", str(4 * int(np.prod(tensor.dims))))]
    for key, value in marks if rng.random() < 0.7 else marks[:1]:
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    data = model.SerializePartialToString()
    first, second = b"\x0a\x08location", b"\x12" + bytes([len(place)]) + place.encode()
    if rng.random() < 0.5:  # the value before its key
        data = data.replace(first + second, second + first)
    path.write_bytes(data)


def endless(path: Path, rng: Rng) -> None:
    """A loop of very many rounds."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["x", "x"], ["y"])],
        "body",
        [
            helper.make_tensor_value_info("round", onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("on", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None),
        ],
    )
    rounds = np.array(int(10 ** rng.uniform(0, 18)), np.int64)
    nodes = [helper.make_node("Loop", ["rounds", "go", "image"], ["features"], body=body)]
    path.write_bytes(program(nodes, weights={"rounds": rounds, "go": np.array(True)}).SerializeToString())
