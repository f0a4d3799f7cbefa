"""Names in a model: of inputs, outputs and axes, unique new names, and removal of doc strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper
from onnx.onnx_pb import TensorShapeProto

from orun.core import dynamic_axes
from orun.stages._graph.feeds import Case, Input
from orun.stages._graph.io import iter_graphs, iter_tensors
from orun.stages._graph.nodes import iter_inner_graphs, list_reads, set_items

DATA_SHAPES = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})  # operators with a shape by values


def clean(model: ModelProto) -> None:
    """Remove doc strings and metadata: they hold stack traces with paths of this machine."""
    _clean(model)
    for tensor in iter_tensors(model):
        _clean(tensor)
    for graph in iter_graphs(model):
        _clean(graph)
        for item in (*graph.node, *graph.value_info):
            _clean(item)
    for value in (*model.graph.input, *model.graph.output):
        _clean(value)


def _clean(item: Any) -> None:
    item.ClearField("doc_string")
    del item.metadata_props[:]


def restore_inputs(model: ModelProto, inputs: Sequence[Input]) -> None:
    """Declare inputs that an exporter left out because nothing reads them; it must have kept the names of the rest."""
    declared = {value.name: value for value in model.graph.input}
    if len(declared) < len(inputs):
        set_items(model.graph.input, (declared.get(item.name) or declare_input(item.name, item) for item in inputs))


def declare_input(name: str, item: Input) -> ValueInfoProto:
    """Return the declaration of an input under a name."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(item.dtype)), item.shape)


def name_values(model: ModelProto, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Give the inputs and outputs of the graph these names.

    PyTorch's new exporter may use such a name for an inner value, which then gets another name. An output that is also
    an input, a weight or another output gets its own node.
    """
    graph = model.graph
    computed = {name for part in list_scopes(model) for node in part.node for name in node.output}
    inside = computed | {value.name for part in list_scopes(model) for value in (*part.input, *part.initializer)}
    renamed = {value.name: name for value, name in zip(graph.input, inputs, strict=True)}
    copies: dict[str, str] = {}
    for output, name in zip(graph.output, outputs, strict=True):
        if output.name in computed and output.name not in renamed:
            renamed[output.name] = name
        else:
            copies[name] = output.name
    for name in (*inputs, *outputs):
        if name in inside and name not in renamed:
            renamed[name] = make_unique(f"{name}_inner", inside)
    rename_values(model, renamed)
    for name, source in copies.items():
        graph.node.append(helper.make_node("Identity", [renamed.get(source, source)], [name]))
    for value, name in zip((*graph.input, *graph.output), (*inputs, *outputs), strict=True):
        value.name = name


def make_unique(name: str, used: set[str]) -> str:
    """Return the name, or a similar one that is not used yet, and add it to the used names."""
    result, count = name, 1
    while result in used:
        result, count = f"{name}_{count}", count + 1
    used.add(result)
    return result


def list_scopes(model: ModelProto) -> list[GraphProto]:
    """Return the graphs that share names of values; a function has its own names."""
    return [graph for graph in iter_graphs(model) if isinstance(graph, GraphProto)]


def rename_values(model: ModelProto, names: Mapping[str, str]) -> None:
    """Rename values, in place, in all graphs; the inputs and outputs that the model declares keep their names."""
    scopes = list_scopes(model)
    declared = [value for graph in scopes for value in (*graph.value_info, *graph.initializer)]
    declared += [value for graph in scopes[1:] for value in (*graph.input, *graph.output)]
    for value in declared:
        value.name = names.get(value.name, value.name)
    for node in (node for graph in scopes for node in graph.node):
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]


def name_input_axes(model: ModelProto, inputs: Sequence[Input]) -> None:
    """Declare the axes of the model's inputs, in order."""
    for value, item in zip(model.graph.input, inputs, strict=True):
        shape = value.type.tensor_type.shape
        shape.ClearField("dim")
        for axis in item.shape:
            shape.dim.add(**{"dim_param" if isinstance(axis, str) else "dim_value": axis})


def declare_output_axes(model: ModelProto, tries: Sequence[Case], answers: Sequence[Sequence[NDArray[Any]]]) -> None:
    """Declare each axis of the outputs by its observed sizes: a constant, or the dynamic axis that it follows.

    Exporters leave their own names, and sometimes the size of their example. An axis without a size whose output comes
    from an operator such as NonZero stays dynamic, although every case may have the same size by chance.
    """
    named = [axis.dim_param for value in model.graph.input for axis in value.type.tensor_type.shape.dim]
    follows = [axis for axis in dict.fromkeys(named) if dynamic_axes.list_names(axis) != (axis,)]
    sizes = [
        {**case.sizes, **{axis: dynamic_axes.compute_size(axis, case.sizes) for axis in follows}} for case in tries
    ]
    free = _find_data_dependent(model)
    for place, output in enumerate(model.graph.output):
        shapes = [answer[place].shape for answer in answers]
        declared = output.type.tensor_type.shape
        declared.SetInParent()
        if len(declared.dim) != len(shapes[0]):
            del declared.dim[:]
            declared.dim.extend(type(declared).Dimension() for _ in shapes[0])
        for index, axis in enumerate(declared.dim):
            fixed = output.name not in free or axis.HasField("dim_value")
            _name_axis(axis, [shape[index] for shape in shapes], sizes, f"{output.name}_{index}", fixed=fixed)


def _find_data_dependent(model: ModelProto) -> set[str]:
    """Return the values computed from the result of an operator whose shape depends on values, such as NonZero."""
    functions = {item.name for item in model.functions if any(map(_has_data_shape, item.node))}
    values: set[str] = set()
    for node in model.graph.node:
        if node.op_type in functions or _has_data_shape(node) or not values.isdisjoint(list_reads(node)):
            values.update(node.output)
    return values


def _has_data_shape(node: NodeProto) -> bool:
    inner = (item for graph in iter_inner_graphs(node) for item in graph.node)
    return node.op_type in DATA_SHAPES or any(map(_has_data_shape, inner))


def _name_axis(
    axis: TensorShapeProto.Dimension,
    sizes: Sequence[int],
    known: Sequence[Mapping[str, int]],
    name: str,
    *,
    fixed: bool,
) -> None:
    """Declare an axis of an output by its size in each case; `name` is for an axis that follows no other.

    If `fixed`, an axis whose size never changes is a constant.
    """
    matching = [symbol for symbol in known[0] if [case[symbol] for case in known] == sizes]
    constant = fixed and set(sizes) == {sizes[0]}
    if axis.dim_param in matching or (constant and axis.dim_value == sizes[0]):
        return
    if matching:
        axis.dim_param = matching[0]
    elif constant:
        axis.dim_value = sizes[0]
    else:
        axis.dim_param = name
