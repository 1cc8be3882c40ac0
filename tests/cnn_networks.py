"""Small real networks, written as ONNX programs whose every value can be computed by hand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from faemb.features.cnn import Network

Dims = Sequence[int | str | None] | None


def program(
    nodes: Sequence[onnx.NodeProto],
    *,
    weights: dict[str, np.ndarray] | None = None,
    shape: Dims = ("batch", 3, "height", "width"),
    outputs: Sequence[str] = ("features",),
    inputs: Sequence[str] = ("image",),
    kind: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, kind, shape) for name in inputs],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    return model


def cells(cell: int = 8, mixing: np.ndarray | None = None, **options: Any) -> onnx.ModelProto:
    """The average colour of every cell x cell square, mixed by a (d, 3) matrix, negative values cut off."""
    mixing = np.eye(3) if mixing is None else mixing
    nodes = [
        helper.make_node("AveragePool", ["image"], ["squares"], kernel_shape=[cell, cell], strides=[cell, cell]),
        helper.make_node("Conv", ["squares", "mixing"], ["mixed"]),
        helper.make_node("Relu", ["mixed"], ["features"]),
    ]
    return program(nodes, weights={"mixing": mixing[:, :, None, None].astype(np.float32)}, **options)


def quarters(size: int = 16, **options: Any) -> onnx.ModelProto:
    """The average colours of the four quarters of a size x size picture, as one vector of 12: a connected layer."""
    half = size // 2
    nodes = [
        helper.make_node("AveragePool", ["image"], ["squares"], kernel_shape=[half, half], strides=[half, half]),
        helper.make_node("Flatten", ["squares"], ["features"]),
    ]
    return program(nodes, **{"shape": ("batch", 3, size, size)} | options)


def tokens(patch: int = 7, prefix: int = 1) -> onnx.ModelProto:
    """The average colour of each patch as a token, after `prefix` tokens with that of all: a transformer's output."""
    nodes = [
        helper.make_node("AveragePool", ["image"], ["grid"], kernel_shape=[patch, patch], strides=[patch, patch]),
        helper.make_node("Reshape", ["grid", "flat"], ["columns"]),
        helper.make_node("Transpose", ["columns"], ["patches"], perm=[0, 2, 1]),
        helper.make_node("ReduceMean", ["patches"], ["class"], axes=[1], keepdims=1),
        helper.make_node("Concat", ["class"] * prefix + ["patches"], ["features"], axis=1),
    ]
    return program(nodes, weights={"flat": np.array([0, 3, -1])})


def network(model: onnx.ModelProto, **settings: Any) -> Network:
    """A network that takes pixels 0..1 in RGB by default."""
    plain: dict[str, Any] = {"channels": "rgb", "mean": 0.0, "std": 255.0}
    net = Network(**plain | settings)
    net.program_ = np.frombuffer(model.SerializeToString(), np.uint8)
    return net


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def spot(width: int, height: int, x: int, y: int, side: int = 8) -> np.ndarray:
    """A black picture with a white square around (x, y)."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[max(0, y - side // 2) : y + side // 2, max(0, x - side // 2) : x + side // 2] = 255
    return pixels


def picture(rng: np.random.Generator, width: int, height: int) -> np.ndarray:
    return rng.integers(0, 256, (height, width, 3)).astype(np.uint8)
