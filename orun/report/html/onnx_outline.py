"""Outline of an ONNX file: signature, operators, parameters, metadata.

Read from the file's protobuf fields, because the process of a run does not import onnx. Weights are skipped, so a large
model takes milliseconds. Numbers of fields: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

TYPES = (
    "undefined", "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "double",
    "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
    "float8e5m2fnuz", "uint4", "int4", "float4e2m1",
)  # fmt: skip
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
VALUE_KINDS = {4: "sequence", 5: "map", 8: "sparse tensor", 9: "optional"}
DEEPEST = 20  # graphs in graphs
Field = tuple[int, "int | memoryview"]


@dataclass(frozen=True)
class Value:
    """Input or output of a model; the shape holds a size or a name for each axis."""

    name: str
    type: str
    shape: tuple[str, ...] | None


@dataclass(frozen=True)
class Outline:
    """Outline of a model.

    Attributes:
        inputs, outputs: its signature.
        opsets: version of each operator set.
        operators: number of nodes of each type, graphs in nodes included.
        parameters: number of stored values of each type.
        metadata: properties of the model.
    """

    inputs: Sequence[Value]
    outputs: Sequence[Value]
    opsets: Mapping[str, int]
    operators: Mapping[str, int]
    parameters: Mapping[str, int]
    metadata: Mapping[str, str]


def read_outline(data: memoryview) -> Outline:
    """Return the outline of a model.

    Raises:
        ValueError: if the data is no ONNX model.
    """
    opsets: dict[str, int] = {}
    metadata: dict[str, str] = {}
    graphs: list[memoryview] = []
    for number, value in _fields(data):
        if number == 7:  # noqa: PLR2004 - ModelProto.graph
            graphs.append(_bytes(value))
        elif number == 8:  # noqa: PLR2004 - opset_import
            entry = dict(_fields(_bytes(value)))
            opsets[_text(entry.get(1)) or "ai.onnx"] = _integer(entry.get(2))
        elif number == 14:  # noqa: PLR2004 - metadata_props
            entry = dict(_fields(_bytes(value)))
            metadata[_text(entry.get(1))] = _text(entry.get(2))
    if len(graphs) != 1:
        raise ValueError("this is no ONNX model")
    return _of_graph(graphs[0], opsets, metadata)


def _of_graph(graph: memoryview, opsets: Mapping[str, int], metadata: Mapping[str, str]) -> Outline:
    inputs, outputs, stored = [], [], set()
    for number, value in _fields(graph):
        if number == 11:  # noqa: PLR2004 - GraphProto.input
            inputs.append(_value(_bytes(value)))
        elif number == 12:  # noqa: PLR2004 - output
            outputs.append(_value(_bytes(value)))
        elif number == 5:  # noqa: PLR2004 - initializer, which may be listed as an input, too
            stored.add(_text(next((field for key, field in _fields(_bytes(value)) if key == 8), None)))  # noqa: PLR2004
    operators: Counter[str] = Counter()
    parameters: Counter[str] = Counter()
    _count(graph, operators, parameters, DEEPEST)
    signature = [value for value in inputs if value.name not in stored]
    return Outline(signature, outputs, opsets, operators, parameters, metadata)


def _count(graph: memoryview, operators: Counter[str], parameters: Counter[str], depth: int) -> None:
    """Count the nodes and stored values of a graph and of the graphs in it."""
    if not depth:
        raise ValueError("graphs are nested too deeply")
    for number, value in _fields(graph):
        if number == 5:  # noqa: PLR2004 - GraphProto.initializer
            _count_tensor(_bytes(value), parameters)
        elif number == 1:  # node
            _count_node(_bytes(value), operators, parameters, depth)


def _count_node(node: memoryview, operators: Counter[str], parameters: Counter[str], depth: int) -> None:
    for number, value in _fields(node):
        if number == 4:  # noqa: PLR2004 - NodeProto.op_type
            operators[_text(value)] += 1
        elif number == 5:  # noqa: PLR2004 - attribute
            for kind, content in _fields(_bytes(value)):
                if kind in (6, 11):  # AttributeProto.g, graphs
                    _count(_bytes(content), operators, parameters, depth - 1)
                elif kind == 5:  # noqa: PLR2004 - t
                    _count_tensor(_bytes(content), parameters)


def _count_tensor(tensor: memoryview, parameters: Counter[str]) -> None:
    dims: list[int] = []
    kind = 0
    for number, value in _fields(tensor):
        if number == 1:  # dims, one by one or packed
            dims += [value] if isinstance(value, int) else _packed(value)
        elif number == 2:  # noqa: PLR2004 - data_type
            kind = _integer(value)
    parameters[_type(kind)] += math.prod(dims)


def _value(data: memoryview) -> Value:
    fields = dict(_fields(data))
    name = _text(fields.get(1))
    kinds = dict(_fields(_bytes(fields[2]))) if 2 in fields else {}  # noqa: PLR2004 - ValueInfoProto.type
    if 1 not in kinds:  # TypeProto.tensor_type
        return Value(name, next((VALUE_KINDS[number] for number in kinds if number in VALUE_KINDS), "unknown"), None)
    tensor = dict(_fields(_bytes(kinds[1])))
    shape = tuple(_axis(_bytes(axis)) for _, axis in _fields(_bytes(tensor[2]))) if 2 in tensor else None  # noqa: PLR2004
    return Value(name, _type(_integer(tensor.get(1))), shape)


def _axis(data: memoryview) -> str:
    fields = dict(_fields(data))
    return _text(fields.get(2)) or (str(_integer(fields[1])) if 1 in fields else "?")


def _type(number: int) -> str:
    return TYPES[number] if number < len(TYPES) else f"type {number}"


def _fields(data: memoryview) -> Iterator[Field]:
    """Yield number and value of each field of a message; fixed-width numbers, which no outline needs, are skipped."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        kind = key & 7
        if kind == VARINT:
            value, position = _varint(data, position)
            yield key >> 3, value
        elif kind == BYTES:
            length, position = _varint(data, position)
            if position + length > len(data):
                raise ValueError("a field is cut short")
            yield key >> 3, data[position : position + length]
            position += length
        elif kind in (FIXED64, FIXED32):
            position += 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"a field has the unknown wire type {kind}")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise ValueError("a number is cut short")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the bit that says that more follows
            return value, position
    raise ValueError("a number is too long")


def _packed(data: memoryview) -> Iterator[int]:
    position = 0
    while position < len(data):
        value, position = _varint(data, position)
        yield value


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a number where bytes belong")  # noqa: TRY004 - the data is wrong, not the program
    return value


def _integer(value: int | memoryview | None) -> int:
    return value if isinstance(value, int) else 0


def _text(value: int | memoryview | None) -> str:
    return bytes(value).decode(errors="replace") if isinstance(value, memoryview) else ""
