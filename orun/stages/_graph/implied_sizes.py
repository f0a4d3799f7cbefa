"""Sizes of dynamic axes that a graph asks for: the channels of its weights, lengths that its kernels fit in."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from onnx import ModelProto, NodeProto, shape_inference

from orun.core.dynamic_axes import list_batch_axes, list_free
from orun.stages._graph.io import EXTERNAL_FROM
from orun.stages._graph.signature import list_inputs, name_axes

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
WINDOWS = frozenset({"Conv", "MaxPool", "AveragePool", "LpPool"})
LONGEST_SIDE = 4096  # of an image
ROUND_SIDE = 32  # sides are multiples of it where several fit
TRIED = (1, 8, 32, 200, 2000, 16000)  # sizes of an axis along which kernels slide: the last is a second of speech
BROADCAST = frozenset({"Add", "Sub", "Mul", "Div"})


def find_implied_sizes(model: ModelProto) -> dict[str, tuple[int, ...]]:
    """Return sizes to try for dynamic axes, by name; none for the batch and for axes that take any size.

    An axis that weights fix has that size alone. The sides of an image have the size at which the layers behind fit, if
    not every size fits. An axis that must be long enough for kernels has two sizes.
    """
    shapes = [name_axes(value) for value in list_inputs(model)]
    batch = list_batch_axes(shapes)
    dynamic = [axis for axis in list_free(shapes) if axis not in batch]
    if not dynamic:
        return {}
    light = _drop_weights(model)
    values, constants = _infer_shapes(light)
    fixed: dict[str, set[int]] = {}
    for node in model.graph.node:
        for name, place, size in _iter_fixed_axes(node, constants):
            axes = values.get(name, ())
            if -len(axes) <= place < len(axes) and axes[place] in dynamic:
                fixed.setdefault(str(axes[place]), set()).add(size)
    required: dict[str, tuple[int, ...]] = {axis: (sizes.pop(),) for axis, sizes in fixed.items() if len(sizes) == 1}
    free = [axis for axis in dynamic if axis not in fixed]
    if not free or not any(node.op_type in WINDOWS for node in light.graph.node):
        return required
    single = _set_sizes(light, [str(axis) for axis in batch], 1)  # shapes can be computed without a name in them
    if side := _find_shared_size(single, free):
        return required | dict.fromkeys(free, (side,))
    for axis in free:
        size = next((size for size in TRIED if _fits(light, axis, size)), 0)
        if size > 1:  # as ONNX rounds to zero, a size that fits may be one too short
            required[axis] = (2 * size, 3 * size)
    return required


def _find_shared_size(light: ModelProto, axes: Sequence[str]) -> int:
    """Return the size that all these axes can share so that weights fit; 0 if every size will do, or none."""
    if _measure_excess(light, axes, LONGEST_SIDE) == _measure_excess(light, axes, LONGEST_SIDE - 1) == 0:
        return 0
    least = bisect_left(range(1, LONGEST_SIDE), 0, key=lambda size: _measure_excess(light, axes, size)) + 1
    rounded = -(-least // ROUND_SIDE) * ROUND_SIDE
    return next((size for size in (rounded, least) if _measure_excess(light, axes, size) == 0), 0)


def _measure_excess(light: ModelProto, axes: Sequence[str], size: int) -> int:
    """Return by how much the first value that does not fit its weights is too long if these axes have this size."""
    values, constants = _infer_shapes(_set_sizes(light, axes, size), reshaped=True)
    for node in light.graph.node:
        for name, place, wanted in _iter_fixed_axes(node, constants):
            shape = values.get(name, ())
            length = shape[place] if -len(shape) <= place < len(shape) else wanted
            stretches = length == 1 and node.op_type in BROADCAST
            if isinstance(length, int) and length != wanted and not stretches:
                return length - wanted
    return 0


def _fits(light: ModelProto, axis: str, size: int) -> bool:
    """Return whether all values have a size above 0 along each axis when this axis has that size."""
    values, _ = _infer_shapes(_set_sizes(light, [axis], size))
    return all(not isinstance(length, int) or length > 0 for axes in values.values() for length in axes)


def _set_sizes(light: ModelProto, axes: Sequence[str], size: int) -> ModelProto:
    model = ModelProto()
    model.CopyFrom(light)
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in axes:
                dim.dim_value = size
    return model


def _drop_weights(model: ModelProto) -> ModelProto:
    """Return the model without large weights, with a name for each dynamic axis of its inputs."""
    light = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    light.graph.node.extend(model.graph.node)
    light.graph.input.extend(model.graph.input)
    for value in light.graph.input:
        for dim, name in zip(value.type.tensor_type.shape.dim, name_axes(value), strict=True):
            if isinstance(name, str):
                dim.dim_param = name
    for tensor in model.graph.initializer:
        small = light.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        if tensor.ByteSize() < EXTERNAL_FROM:  # operators such as Reshape read it
            small.CopyFrom(tensor)
    return light


def _infer_shapes(
    light: ModelProto, *, reshaped: bool = False
) -> tuple[dict[str, tuple[int | str, ...]], dict[str, Shape]]:
    """Return the shapes of all values as far as ONNX infers them, and those of weights.

    If `reshaped`, shapes that the graph computes from others are followed, too.
    """
    graph = shape_inference.infer_shapes(light, data_prop=reshaped).graph
    values = {
        value.name: tuple(
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in value.type.tensor_type.shape.dim
        )
        for value in (*graph.value_info, *graph.input)
        if value.type.tensor_type.HasField("shape")
    }
    constants = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for node in graph.node:  # weights that nodes yield
        if all(name in constants for name in node.input) and node.op_type != "If":
            for name in node.output:
                if name in values and all(isinstance(axis, int) for axis in values[name]):
                    constants[name] = tuple(axis for axis in values[name] if isinstance(axis, int))
    return values, constants


def _iter_fixed_axes(node: NodeProto, constants: Mapping[str, Shape]) -> Iterator[tuple[str, int, int]]:
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
