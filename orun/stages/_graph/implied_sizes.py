"""Sizes of dynamic axes that weights fix: the channels of a convolution, the features of a matrix product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from orun.stages._graph.io import EXTERNAL_FROM, input_names
from orun.stages._graph.signature import axes_of

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Shape = tuple[int, ...]

# Operators whose weight, at this place among the inputs, fixes the size of an axis of the first input:
# (place of the weight, axis of the weight, axis of the first input).
WEIGHTS: Mapping[str, tuple[int, int, int]] = {
    "Conv": (1, 1, 1),
    "ConvInteger": (1, 1, 1),
    "QLinearConv": (3, 1, 1),
    "ConvTranspose": (1, 0, 1),
    "BatchNormalization": (1, 0, 1),
    "InstanceNormalization": (1, 0, 1),
    "LayerNormalization": (1, -1, -1),
    "LSTM": (1, 2, 2),
    "GRU": (1, 2, 2),
    "RNN": (1, 2, 2),
    "Gemm": (1, 0, 1),
    "MatMul": (1, -2, -1),
    "MatMulInteger": (1, -2, -1),
    "QLinearMatMul": (3, -2, -1),
}
GROUPED = frozenset({"Conv", "ConvInteger", "QLinearConv"})  # each group sees a share of the channels
BROADCAST = frozenset({"Add", "Sub", "Mul", "Div"})


def implied_sizes(model: ModelProto) -> dict[str, int]:
    """Return the sizes that weights fix for dynamic axes of inputs, by name; the axis of the batch has none.

    Args:
        model: its weights are not needed.
    """
    names = input_names(model)
    shapes = [axes_of(value) for value in model.graph.input if value.name in names]
    batch = {axes[0] for axes in shapes if axes}
    dynamic = {axis for axes in shapes for axis in axes if isinstance(axis, str)} - batch
    if not dynamic:
        return {}
    fixed: dict[str, set[int]] = {}
    values, constants = _infer_shapes(model)
    for node in model.graph.node:
        for name, place, size in _fixed(node, constants):
            axes = values.get(name, ())
            if -len(axes) <= place < len(axes) and axes[place] in dynamic:
                fixed.setdefault(str(axes[place]), set()).add(size)
    return {axis: sizes.pop() for axis, sizes in fixed.items() if len(sizes) == 1}


def _infer_shapes(model: ModelProto) -> tuple[dict[str, tuple[int | str, ...]], dict[str, Shape]]:
    """Return the shapes of all values as far as ONNX infers them, and those of weights."""
    from onnx import ModelProto, shape_inference

    light = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    light.graph.node.extend(model.graph.node)
    for value in model.graph.input:
        copy = light.graph.input.add()
        copy.CopyFrom(value)
        for axis, name in zip(copy.type.tensor_type.shape.dim, axes_of(value), strict=True):
            if isinstance(name, str):
                axis.dim_param = name
    constants = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for tensor in model.graph.initializer:
        small = light.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        if tensor.ByteSize() < EXTERNAL_FROM:  # operators such as Reshape read it
            small.CopyFrom(tensor)
    graph = shape_inference.infer_shapes(light).graph
    values = {
        value.name: axes_of(value)
        for value in (*graph.value_info, *graph.input)
        if value.type.tensor_type.HasField("shape")
    }
    for node in graph.node:  # weights that nodes yield
        if all(name in constants for name in node.input) and node.op_type != "If":
            for name in node.output:
                if name in values and all(isinstance(axis, int) for axis in values[name]):
                    constants[name] = tuple(axis for axis in values[name] if isinstance(axis, int))
    return values, constants


def _fixed(node: NodeProto, constants: Mapping[str, Shape]) -> Iterator[tuple[str, int, int]]:
    """Yield each value of which the weights of a node fix an axis, with the axis and its size."""
    weights = [constants.get(name, ()) for name in node.input]
    if node.op_type in BROADCAST:
        for name, other in zip(node.input, reversed(weights), strict=False):
            yield from ((name, -place, size) for place, size in enumerate(reversed(other), 1) if size > 1)
        return
    place, axis, of_input = WEIGHTS.get(node.op_type, (len(weights), 0, 0))
    shape = weights[place] if place < len(weights) else ()
    attributes = {item.name: item.i for item in node.attribute}
    if node.op_type == "Gemm":
        axis, of_input = (1 if attributes.get("transB") else 0), (0 if attributes.get("transA") else 1)
    if -len(shape) <= axis < len(shape):
        groups = attributes.get("group", 1) if node.op_type in GROUPED else 1
        yield node.input[0], of_input, shape[axis] * groups
