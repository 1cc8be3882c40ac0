"""Hostile ONNX programs: weights in other files wherever they are named, loops without an end, odd bytes."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from cnn_networks import cells, network, program
from faemb.errors import FaembError, FormatError, LimitError
from faemb.features.cnn import Network

SECRET = b"secrets!"
BATCH = np.zeros((1, 3, 8, 8), np.float32)


def outside(name: str = "secret", location: str = "secret.bin") -> TensorProto:
    """Two numbers that are in another file."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def varint(value: int, padding: int = 0) -> bytes:
    """As protobuf writes it, or with as many leading zeros."""
    parts = []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    zeros = [0x80] * (padding - 1) + [0] if padding else []
    return bytes([*parts, value | (0x80 if padding else 0), *zeros])


def entry(number: int, content: bytes, padding: int = 0) -> bytes:
    return varint(8 * number + 2, padding) + varint(len(content), padding) + content


def as_initializer(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(outside())


def as_sparse(model: onnx.ModelProto) -> None:
    indices = numpy_helper.from_array(np.arange(2))
    model.graph.sparse_initializer.add(values=outside(), indices=indices, dims=[2])


def as_indices(model: onnx.ModelProto) -> None:
    values = numpy_helper.from_array(np.ones(2, np.float32), "secret")
    model.graph.sparse_initializer.add(values=values, indices=outside(), dims=[2])


def in_attribute(model: onnx.ModelProto, **content: Any) -> None:
    node = model.graph.node.add(op_type="Constant", output=["secret"])
    node.attribute.append(AttributeProto(name="value", **content or {"t": outside(), "type": AttributeProto.TENSOR}))


def nested(depth: int = 1) -> onnx.GraphProto:
    graph = onnx.GraphProto(name="inner")
    if depth:
        graph.node.add(op_type="If").attribute.add(name="then_branch", g=nested(depth - 1))
    else:
        graph.initializer.append(outside())
    return graph


def in_function(model: onnx.ModelProto) -> None:
    function = model.functions.add(name="f", domain="d")
    function.node.add(op_type="Constant", output=["y"]).attribute.add(name="value", t=outside())


PLACES: dict[str, Callable[[onnx.ModelProto], object]] = {
    "initializer": as_initializer,
    "sparse values": as_sparse,
    "sparse indices": as_indices,
    "attribute": in_attribute,
    "attributes": lambda model: in_attribute(model, tensors=[outside()]),
    "sparse attribute": lambda model: in_attribute(model, sparse_tensor=onnx.SparseTensorProto(values=outside())),
    "sparse attributes": lambda model: in_attribute(model, sparse_tensors=[onnx.SparseTensorProto(values=outside())]),
    "graph": lambda model: in_attribute(model, g=nested()),
    "graphs": lambda model: in_attribute(model, graphs=[nested(0)]),
    "function": in_function,
    "function default": lambda model: model.functions.add(name="f").attribute_proto.add(name="a", t=outside()),
    "training": lambda model: model.training_info.add(algorithm=nested(0)),
    "initialization": lambda model: model.training_info.add(initialization=nested(0)),
}


def opened(raw: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Network:
    """A network beside a secret file, in the current folder, where onnxruntime would look for it."""
    (folder / "secret.bin").write_bytes(SECRET)
    (folder / "model.onnx").write_bytes(raw)
    monkeypatch.chdir(folder)
    return Network.open(folder / "model.onnx", channels="rgb", mean=0, std=1)


@pytest.mark.parametrize("place", PLACES)
def test_data_in_another_file_is_found_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    model = cells()
    PLACES[place](model)
    with pytest.raises(FormatError, match=r"keeps its weights in a second file; export it again as one .onnx file"):
        opened(model.SerializeToString(), tmp_path, monkeypatch)


def showing(tensor: bytes) -> bytes:
    """A program whose output contains a tensor that is given as bytes."""
    model = program([helper.make_node("Add", ["image", "secret"], ["features"])], shape=("n", 3, "h", 2))
    return model.SerializeToString() + entry(7, entry(5, tensor))


PLAIN = TensorProto(name="secret", data_type=TensorProto.FLOAT, dims=[2]).SerializeToString()
LOCATION = [entry(1, b"location"), entry(2, b"secret.bin")]
MARKED = varint(8 * 14) + b"\1"


@pytest.mark.parametrize(
    "tensor",
    [
        PLAIN + entry(13, b"".join(reversed(LOCATION))) + MARKED,
        PLAIN + entry(13, b"".join(LOCATION), padding=2) + MARKED,
        PLAIN + entry(13, entry(1, b"location", padding=1) + LOCATION[1]) + MARKED,
        PLAIN + entry(13, b"".join(LOCATION)),
        PLAIN + MARKED,
        PLAIN + varint(8 * 14) + varint(1, padding=3),
        PLAIN + varint(8 * 14) + varint((1 << 32) + 1),
    ],
    ids=["value first", "long numbers", "long key", "no mark", "only mark", "long mark", "mark of 33 bits"],
)
def test_data_in_another_file_is_found_in_any_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tensor: bytes
) -> None:
    with pytest.raises(FormatError, match=r"keeps its weights in a second file|is not an ONNX program, or is damaged"):
        opened(showing(tensor), tmp_path, monkeypatch)


def deep(levels: int) -> bytes:
    message = b""
    for _ in range(levels):
        message = entry(1, entry(5, entry(6, message)))
    return entry(7, message)


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (entry(7, b"")[:-1] + b"\5", "longer than its message"),
        (b"\x09\0\0", "longer than its message"),
        (b"\x3b\x3c", "wire type 3"),
        (b"\x3f", "wire type 7"),
        (b"\x38\x01", "is no message"),
        (b"\0\0", "without a valid number"),
        (b"\xba\x80\x80\x80\x10\0", "without a valid number"),
        (b"\x08" + b"\xff" * 11, "without an end"),
        (b"\x08\x80", "without an end"),
        (b"\x08" + b"\xff" * 9 + b"\x02", "not in its shortest form"),
        (deep(2000), "inside more than 100 others"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bytes_that_no_exporter_writes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: bytes, fault: str
) -> None:
    with pytest.raises(FormatError, match=rf"model\.onnx: the network is not an ONNX program, .* \(.*{fault}"):
        opened(raw, tmp_path, monkeypatch)


def test_a_program_of_too_many_fields_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faemb.features.cnn.program.MOST_FIELDS", 1000)
    opened(cells().SerializeToString(), tmp_path, monkeypatch)
    with pytest.raises(FormatError, match="more than 1,000 fields"):
        opened(entry(7, b"\x0a\0" * 1000), tmp_path, monkeypatch)


def calling(levels: int, calls: int, *, recursive: bool = False) -> onnx.ModelProto:
    """Functions of which each calls the next one several times; the last one negates, or calls the first again."""
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("ours", 1)]
    model = program([helper.make_node("f0", ["image"], ["features"], domain="ours")])
    model.opset_import.append(versions[1])
    for level in reversed(range(levels)):
        values = ["x", *(f"v{call}" for call in range(calls - 1)), "y"]
        last = level == levels - 1
        what = (
            {"op_type": "Neg"} if last and not recursive else {"op_type": f"f{(level + 1) % levels}", "domain": "ours"}
        )
        nodes = [helper.make_node(inputs=[a], outputs=[b], **what) for a, b in pairwise(values)]
        model.functions.append(helper.make_function("ours", f"f{level}", ["x"], ["y"], nodes, versions))
    return model


def test_functions_are_expanded_and_run() -> None:
    assert network(calling(4, 3)).run(BATCH).shape == BATCH.shape
    same_name = calling(1, 1)
    same_name.functions[0].name = same_name.graph.node[0].op_type = "Neg"  # in its own domain, which is no recursion
    assert network(same_name).run(BATCH).shape == BATCH.shape


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        (calling(30, 2), "more than 100,000 nodes when its functions are expanded"),
        (calling(2, 400), "more than 100,000 nodes when its functions are expanded"),
        (calling(300, 1), "more than 100 functions that call each other"),
        (calling(3, 2, recursive=True), "more than 100 functions that call each other"),
    ],
    ids=["deep", "wide", "chain", "recursion"],
)
def test_functions_that_expand_to_huge_programs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: onnx.ModelProto, fault: str
) -> None:
    with pytest.raises(FormatError, match=rf"model\.onnx: the network is not an ONNX program, .* \({fault}\)"):
        opened(model.SerializeToString(), tmp_path, monkeypatch)


def test_a_function_that_nothing_calls_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = calling(30, 2)
    model.graph.node[0].CopyFrom(helper.make_node("Neg", ["image"], ["features"]))
    with pytest.raises(FormatError, match=r"more than 100,000 nodes"):
        opened(model.SerializeToString(), tmp_path, monkeypatch)


def test_a_start_without_an_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAEMB_ITEM_SECONDS", "0.1")
    with pytest.raises(FormatError, match=r"cannot be started within 0\.1 seconds; .* FAEMB_ITEM_SECONDS"):
        network(calling(15, 2)).check_settings()


def filled(count: int) -> onnx.ModelProto:
    """A constant of as many float32 values, added up and added to the image."""
    nodes = [
        helper.make_node("ConstantOfShape", ["count"], ["many"]),
        helper.make_node("ReduceSum", ["many"], ["sum"], keepdims=0),
        helper.make_node("Add", ["image", "sum"], ["features"]),
    ]
    return program(nodes, weights={"count": np.array([count])})


def test_a_run_has_a_bound_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "1MB")
    small, large = network(filled(500_000)), network(filled(2_500_000))
    assert small.run(BATCH).shape == BATCH.shape
    with pytest.raises(LimitError, match=r"needs more than 8 MB of memory on 8 x 8 pixels.*FAEMB_ITEM_MEMORY=1GB"):
        large.run(BATCH)
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "4MB")
    again = network(filled(2_500_000))
    assert again.run(BATCH).shape == small.run(BATCH).shape == BATCH.shape


def test_mutated_programs_never_reach_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that opens after a change of bytes holds no such tensor, as the onnx package reads it."""
    rng = np.random.default_rng(20170306)
    model = cells()
    model.graph.initializer.append(outside("mixing"))
    whole = np.frombuffer(model.SerializeToString(), np.uint8)
    for _ in range(300):
        raw = whole.copy()
        raw[rng.integers(0, len(raw), 3)] = rng.integers(0, 256, 3)
        try:
            opened(raw.tobytes(), tmp_path, monkeypatch)
        except FaembError:
            continue
        read = onnx.ModelProto.FromString(raw.tobytes())
        assert not any(tensor.external_data or tensor.data_location for tensor in read.graph.initializer)


def endless() -> onnx.ModelProto:
    """A loop whose condition stays true."""
    truth = helper.make_tensor_value_info("true", TensorProto.BOOL, [])
    number = helper.make_tensor_value_info("number", TensorProto.INT64, [])
    going, image = helper.make_tensor_value_info("going", TensorProto.BOOL, []), "in"
    body = helper.make_graph(
        [helper.make_node("Identity", ["true"], ["going"]), helper.make_node("Neg", ["in"], ["out"])],
        "body",
        [number, truth, helper.make_tensor_value_info(image, TensorProto.FLOAT, None)],
        [going, helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
    )
    nodes = [helper.make_node("Loop", ["", "always", "image"], ["features"], body=body)]
    return program(nodes, weights={"always": np.array(True)})


def test_a_loop_without_an_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAEMB_ITEM_SECONDS", "0.2")
    net = network(endless())
    with pytest.raises(FormatError, match=r"did not end within 0\.2 seconds on 8 x 8 pixels; .* FAEMB_ITEM_SECONDS"):
        net.run(BATCH)
    assert network(cells()).run(BATCH).shape == (1, 3, 1, 1)


@pytest.mark.parametrize("name", ["axis", "image", "features"])
def test_names_that_are_not_text_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    model = program([helper.make_node("Identity", ["image"], ["features"])], shape=("axis", 3, "height", "width"))
    raw = model.SerializeToString().replace(name.encode(), b"\xff" * len(name))
    with pytest.raises(FormatError, match=r"model\.onnx: the network .* is not text in UTF-8; export it again"):
        opened(raw, tmp_path, monkeypatch)


def test_a_program_is_read_as_it_was_checked_and_starts_small() -> None:
    """Not as onnxruntime's own format, and without computing gigabytes that a program of a few bytes asks for."""
    options = network(cells())._session()._session.get_session_options()
    assert options.get_session_config_entry("session.load_model_format") == "ONNX"
    assert options.get_session_config_entry("optimization.constant_folding_max_output_size_in_bytes") == "1048576"


def test_a_network_without_output_is_refused(tmp_path: Path) -> None:
    model = cells()
    del model.graph.output[:]
    with pytest.raises(FormatError, match=r"the network has no output; export it again|not an ONNX program"):
        network(model).check_settings()
