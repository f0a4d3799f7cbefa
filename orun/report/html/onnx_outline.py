"""Outline of an ONNX model: signature, operators, parameters, metadata.

The process of a run does not import onnx. So a program of its own, this module, reads the models and prints their
outlines as JSON.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orun.core.serialization import Record, decode, encode, from_json, to_json
from orun.stages._graph.io import iter_nodes, iter_tensors, list_input_names

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto


class Value(Record, frozen=True):
    """Input or output of a model; the shape holds a size or a name for each axis."""

    name: str
    type: str
    shape: tuple[str, ...] | None


class Outline(Record, frozen=True):
    """Outline of a model.

    Attributes:
        inputs, outputs: its signature.
        opsets: version of each operator set.
        operators: number of nodes of each type, graphs in nodes included.
        parameters: number of stored values of each type.
        metadata: properties of the model.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    opsets: Mapping[str, int]
    operators: Mapping[str, int]
    parameters: Mapping[str, int]
    metadata: Mapping[str, str]


def read_outlines(paths: Sequence[Path]) -> list[Outline | None]:
    """Return the outline of each model; None for a file that is not a model, or if onnx is not installed."""
    if not paths:
        return []
    command = [sys.executable, "-P", "-m", "orun.report.html.onnx_outline", *map(str, paths)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        return [None] * len(paths)
    return decode(list[Outline | None], from_json(done.stdout))


def load_outline(path: Path) -> Outline | None:
    """Return the outline of a model, loaded without its external data; None for a file that is not a model."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model = onnx.load(path, load_external_data=False)
        return _build_outline(model) if model.HasField("graph") else None
    except (DecodeError, OSError, ValueError):  # ValueError: a type that this onnx does not know
        return None


def _build_outline(model: ModelProto) -> Outline:
    from onnx import TensorProto

    inputs = set(list_input_names(model))
    parameters: Counter[str] = Counter()
    for tensor in iter_tensors(model):
        parameters[TensorProto.DataType.Name(tensor.data_type).lower()] += math.prod(tensor.dims)
    return Outline(
        inputs=tuple(_describe_value(value) for value in model.graph.input if value.name in inputs),
        outputs=tuple(map(_describe_value, model.graph.output)),
        opsets={item.domain or "ai.onnx": item.version for item in model.opset_import},
        operators=Counter(node.op_type for node in iter_nodes(model)),
        parameters=parameters,
        metadata={entry.key: entry.value for entry in model.metadata_props},
    )


def _describe_value(value: ValueInfoProto) -> Value:
    from onnx import TensorProto

    if not value.type.HasField("tensor_type"):
        return Value(value.name, str(value.type.WhichOneof("value")).removesuffix("_type"), None)
    tensor = value.type.tensor_type
    axes = tensor.shape.dim
    sizes = (axis.dim_param or (str(axis.dim_value) if axis.HasField("dim_value") else "?") for axis in axes)
    shape = tuple(sizes) if tensor.HasField("shape") else None
    return Value(value.name, TensorProto.DataType.Name(tensor.elem_type).lower(), shape)


if __name__ == "__main__":
    sys.stdout.buffer.write(to_json(encode([load_outline(Path(path)) for path in sys.argv[1:]])))
