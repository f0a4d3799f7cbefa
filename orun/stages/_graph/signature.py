"""Inputs of an ONNX model, with the values that its domain declares or its look-up tables allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from orun.core.dynamic_axes import list_free, list_names
from orun.errors import UsageError
from orun.stages._graph.feeds import PIXEL, Input, get_type_bounds, is_image
from orun.stages._graph.input_domain import InputDomain, read_domain
from orun.stages._graph.io import list_input_names

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

    from orun.stages._graph.input_domain import InputValues

# Operators that keep the values of indices, and operators that keep the shape of a table.
SAME_VALUES = frozenset({"Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Expand"})
SAME_SHAPE = frozenset({"Cast", "Identity", "DequantizeLinear"})
# Pairs (indices, table) among the inputs of the fused embedding operators.
EMBEDDINGS = {"EmbedLayerNormalization": ((0, 2), (1, 4)), "QEmbedLayerNormalization": ((0, 2), (1, 4))}


def list_inputs(model: ModelProto) -> list[ValueInfoProto]:
    """Return the inputs of a model without weights, which are inputs too before IR version 4."""
    names = list_input_names(model)
    return [value for value in model.graph.input if value.name in names]


def build_inputs(model: ModelProto, over: Mapping[str, InputValues] | None = None) -> tuple[Input, ...]:
    """Return the inputs of a model.

    The values of an input come from the domain that the model carries. Without a declaration, an integer that looks up
    a table is bounded by the rows of the table. Bytes with three axes or more are an image. Any other integer counts as
    a mask of 0 and 1, which suits flags and lengths as well. Values in `over` replace those of the domain.

    Raises:
        UsageError: when an input is no tensor, or of a type that NumPy does not have; when the domain cannot be read.
    """
    rows = find_table_rows(model.graph)
    declared = {**read_domain(model).inputs, **(over or {})}
    inputs = [_build_input(value, rows.get(value.name)) for value in list_inputs(model)]
    return tuple(_clip_values(item, declared[item.name]) if item.name in declared else item for item in inputs)


def find_highest(model: ModelProto) -> dict[str, float]:
    """Return the largest value of each input that its domain or a look-up table bounds, by name."""
    rows = {name: float(count - 1) for name, count in find_table_rows(model.graph).items()}
    declared = {name: values.high for name, values in read_domain(model).inputs.items() if values.high is not None}
    return {**declared, **rows}


def find_sizes(model: ModelProto) -> dict[str, tuple[int, ...]]:
    """Return the sizes to try for dynamic axes, by name, from the domain that the model carries."""
    return dict(fit_domain(model, read_domain(model)).sizes)


def fit_domain(model: ModelProto, domain: InputDomain) -> InputDomain:
    """Return a domain without inputs and axes that the model does not have."""
    names, axes = list_input_names(model), list_free(map(name_axes, list_inputs(model)))
    return InputDomain(
        {name: values for name, values in domain.inputs.items() if name in names},
        {axis: sizes for axis, sizes in domain.sizes.items() if axis in axes},
    )


def find_shared_outputs(model: ModelProto, other: ModelProto) -> list[str]:
    """Return the names of outputs of the same type and shape, if both models have the same inputs."""
    inputs, other_inputs = ({value.name: value for value in list_inputs(item)} for item in (model, other))
    same = inputs.keys() == other_inputs.keys()
    if not same or not all(is_alike(value, other_inputs[name]) for name, value in inputs.items()):
        return []
    outputs = {value.name: value for value in other.graph.output}
    return [
        value.name for value in model.graph.output if value.name in outputs and is_alike(value, outputs[value.name])
    ]


def is_alike(value: ValueInfoProto, other: ValueInfoProto) -> bool:
    """Return whether two values have the same type, and axes of the same size as far as both are known."""
    kinds = [(item.type.WhichOneof("value"), item.type.tensor_type.elem_type) for item in (value, other)]
    axes, other_axes = name_axes(value), name_axes(other)
    return (
        kinds[0] == kinds[1]
        and len(axes) == len(other_axes)
        and all(isinstance(a, str) or isinstance(b, str) or a == b for a, b in zip(axes, other_axes, strict=True))
    )


def count_axes(model: ModelProto) -> dict[str, int]:
    """Return the number of axes of each input."""
    return {value.name: len(value.type.tensor_type.shape.dim) for value in list_inputs(model)}


def find_counts(model: ModelProto) -> dict[str, tuple[int, ...]]:
    """Return the axes of each output whose size depends on values, such as how many boxes a detector finds.

    They are the dynamic axes that no input's axes name.
    """
    known = {*list_free(map(name_axes, list_inputs(model)))}
    return {
        output.name: tuple(
            place
            for place, axis in enumerate(name_axes(output))
            if isinstance(axis, str) and not known.issuperset(list_names(axis))
        )
        for output in model.graph.output
    }


def name_axes(value: ValueInfoProto) -> tuple[int | str, ...]:
    """Return the size or name of each axis of a value; a nameless axis is named by its index."""
    return tuple(
        axis.dim_value
        if axis.HasField("dim_value") and axis.dim_value >= 0  # some exporters write -1 for any size
        else axis.dim_param or f"{value.name}.{place}"
        for place, axis in enumerate(value.type.tensor_type.shape.dim)
    )


def _build_input(value: ValueInfoProto, rows: int | None) -> Input:
    import numpy as np
    from onnx import TensorProto, helper

    if not value.type.HasField("tensor_type"):
        raise UsageError(
            f"input {value.name!r} of the model is not a tensor",
            why="values for it cannot be made up",
            hint="export the model with each tensor in it as an input of its own",
        )
    tensor = value.type.tensor_type
    shape = name_axes(value)
    if tensor.elem_type == TensorProto.STRING:
        return Input(value.name, "object", shape)
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if dtype.isbuiltin != 1:  # 2 is a type that `ml_dtypes` registered
        raise UsageError(
            f"input {value.name!r} of the model is of {dtype.name}, which ONNX Runtime cannot take from a NumPy array",
            hint="let the model take float32 and cast it",
        )
    if dtype.kind not in "iub":
        return Input(value.name, dtype.name, shape)
    if rows is None and is_image(dtype.name, shape):
        return Input(value.name, dtype.name, shape, low=0, high=PIXEL)
    if rows is None:
        return Input(value.name, dtype.name, shape, fill="random" if dtype.kind == "b" else "mask")
    most = np.iinfo(dtype).max if dtype.kind in "iu" else 1
    return Input(value.name, dtype.name, shape, low=0, high=min(rows - 1, most))


def _clip_values(item: Input, values: InputValues) -> Input:
    """Return the input with its declared values, within its type, which may have become narrower."""
    if item.dtype == "object":
        return item
    if values.fill != "random":
        return replace(item, low=values.low, high=values.high, fill=values.fill)
    least, most = get_type_bounds(item.dtype)
    low = item.low if values.low is None else max(values.low, least)
    high = item.high if values.high is None else min(values.high, most)
    return replace(item, low=low, high=high, fill="random")


def find_table_rows(graph: GraphProto) -> dict[str, int]:
    """Return the rows of the smallest table that each input looks up."""
    origin = {value.name: value.name for value in graph.input}
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    result: dict[str, int] = {}
    for node in graph.node:
        if node.op_type == "Constant":
            shapes.update((node.output[0], tuple(item.t.dims)) for item in node.attribute if item.name == "value")
        if node.op_type in SAME_VALUES and node.input[0] in origin:
            origin[node.output[0]] = origin[node.input[0]]
        if node.op_type in SAME_SHAPE and node.input[0] in shapes:
            shapes[node.output[0]] = shapes[node.input[0]]
        for indices, table, axis in _iter_lookups(node):
            if indices in origin and table in shapes:
                rows = shapes[table][axis]
                result[origin[indices]] = min(rows, result.get(origin[indices], rows))
    return result


def _iter_lookups(node: NodeProto) -> Iterator[tuple[str, str, int]]:
    """Yield the indices, the table, and the axis of its rows for each look-up of a node."""
    if node.op_type == "Gather":
        yield node.input[1], node.input[0], next((item.i for item in node.attribute if item.name == "axis"), 0)
    for indices, table in EMBEDDINGS.get(node.op_type, ()):
        if table < len(node.input):
            yield node.input[indices], node.input[table], 0
