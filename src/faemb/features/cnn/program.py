"""Checks of an ONNX program before onnxruntime reads it: every tensor must contain its data, and its size is bounded.

A tensor can instead name an external file, from which onnxruntime would read its values: the content of any file that
this process can read would end up in the features, and the fingerprint would not cover it. Tensors are checked wherever
ONNX allows them: initialisers, sparse initialisers, attributes of nodes, and all of these in nested graphs, functions
and training graphs. Fields that ONNX does not define are skipped, as in onnxruntime.
"""

from collections.abc import Mapping

from faemb.errors import FormatError
from faemb.features.cnn.functions import Bodies
from faemb.features.cnn.protobuf import BYTES, VARINT, Field, fields

MOST_FIELDS = 5_000_000
"""Largest number of fields, which bounds the time of the check; a large network has a hundred thousand."""
DEEPEST = 100
"""Largest depth of nested messages, the same as in protobuf itself."""

_TENSOR, _NODE, _FUNCTION = "TensorProto", "NodeProto", "FunctionProto"
_PARTS: Mapping[str, Mapping[int, str]] = {
    "ModelProto": {7: "GraphProto", 20: "TrainingInfoProto", 25: _FUNCTION},
    "TrainingInfoProto": {1: "GraphProto", 2: "GraphProto"},
    "GraphProto": {1: _NODE, 5: _TENSOR, 15: "SparseTensorProto"},
    _FUNCTION: {7: _NODE, 11: "AttributeProto"},
    _NODE: {5: "AttributeProto"},
    "AttributeProto": {
        **dict.fromkeys((5, 10), _TENSOR),
        **dict.fromkeys((6, 11), "GraphProto"),
        **dict.fromkeys((22, 23), "SparseTensorProto"),
    },
    "SparseTensorProto": {1: _TENSOR, 2: _TENSOR},
}
"""Messages that can contain tensors, by the numbers of their fields in onnx.proto."""
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14


def check_program(program: bytes) -> None:
    """Raise a FormatError unless this is an ONNX message whose tensors all contain their data, and whose functions do
    not expand to a huge program (functions.py); the bytes are not copied."""
    try:
        _walk(program).require_few()
    except ValueError as error:
        raise FormatError(f"the network is not an ONNX program, or is damaged ({error}); export it again") from None


def _walk(program: bytes) -> Bodies:
    """Visit all messages depth first, with one iterator per open message: memory does not grow with tensor sizes."""
    bodies = Bodies()
    opened = [("ModelProto", fields(memoryview(program)))]
    count = 0
    while opened:
        kind, rest = opened[-1]
        field = next(rest, None)
        if field is None:
            opened.pop()
            if kind == _FUNCTION:
                bodies.end_function()
            continue
        count += 1
        if count > MOST_FIELDS:
            raise ValueError(f"more than {MOST_FIELDS:,} fields")
        if kind == _TENSOR:
            _require_data_inside(field)
        elif part := _PARTS[kind].get(field.number):
            if field.kind != BYTES or len(opened) == DEEPEST:
                raise ValueError(f"a {part} that is no message, or inside more than {DEEPEST} others")
            opened.append((part, fields(field.content)))
            if part == _NODE:
                bodies.add(field.content)
            elif part == _FUNCTION:
                bodies.start_function(field.content)
    return bodies


def _require_data_inside(field: Field) -> None:
    """Raise a FormatError if this field of a tensor refers to external data: a location that is not the number 0."""
    elsewhere = field.number == _DATA_LOCATION and (field.value or field.kind != VARINT)
    if elsewhere or field.number == _EXTERNAL_DATA:
        raise FormatError("the network keeps its weights in a second file; export it again as one .onnx file")
