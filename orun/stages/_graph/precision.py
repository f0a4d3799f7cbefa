"""Quantized types of single tensors, as ONNX Runtime's quantizer takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from orun.stages.name_checks import require_known
from orun.stages.params import Doc

if TYPE_CHECKING:
    from onnx import ModelProto

Width = Literal["int8", "uint8", "int16", "uint16"]
TYPES: Mapping[str, str] = {"int8": "QInt8", "uint8": "QUInt8", "int16": "QInt16", "uint16": "QUInt16"}


@dataclass(frozen=True)
class Override:
    """Types of one tensor, or of the tensors of one node."""

    activation_type: Annotated[
        Width | None, Doc("How the activation is stored; for a node, all its inputs and outputs.")
    ] = None
    weight_type: Annotated[Width | None, Doc("How the weight is stored; for a node, all its weights.")] = None


def make_tensor_overrides(
    model: ModelProto, overrides: Mapping[str, Override], *, per_channel: bool
) -> dict[str, list[dict[str, Any]]]:
    """Return ONNX Runtime's `TensorQuantOverrides`.

    `overrides` are by the name of a node or tensor; a node comes first if both have the name.

    Raises:
        UnknownName: when the model has no such name.
    """
    from onnxruntime.quantization import QuantType

    from orun.stages._graph.nodes import find_channel_axis

    nodes = {node.name: node for node in model.graph.node if node.name}
    axes = {name: find_channel_axis(node) for node in model.graph.node for name in node.input[1:2]}
    weights = {tensor.name for tensor in model.graph.initializer}
    values = {name for node in model.graph.node for name in (*node.input, *node.output) if name}
    require_known("overrides", overrides, nodes.keys() | values)
    result: dict[str, list[dict[str, Any]]] = {}
    for name, override in overrides.items():
        node = nodes.get(name)
        # A bias has no type of its own.
        for tensor in filter(None, (*node.input[:2], *node.output)) if node else [name]:
            width = override.weight_type if tensor in weights else override.activation_type
            if width is not None:
                axis = axes.get(tensor) if per_channel and tensor in weights else None
                by_channel = {} if axis is None else {"axis": axis}
                result[tensor] = [{"quant_type": QuantType[TYPES[width]], **by_channel}]
    return result
