"""Names in a model: those of outputs and axes are set, those of this machine removed, new ones unlike the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orun.stages._graph import axes
from orun.stages._graph.feeds import Case, Input

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import GraphProto, ModelProto
    from onnx.onnx_pb import TensorShapeProto


def clean(model: ModelProto) -> None:
    """Remove doc strings and metadata: they hold stack traces, and with them paths of this machine."""
    from orun.stages._graph.io import graphs, tensors

    _clean(model)
    for tensor in tensors(model):
        _clean(tensor)
    for graph in graphs(model):
        _clean(graph)
        for item in (*graph.node, *graph.value_info):
            _clean(item)
    for value in (*model.graph.input, *model.graph.output):
        _clean(value)


def _clean(item: Any) -> None:
    item.ClearField("doc_string")
    del item.metadata_props[:]


def restore_inputs(model: ModelProto, inputs: Sequence[Input]) -> None:
    """Declare the inputs that an exporter left out because nothing reads them; it must have kept the names of others.

    Args:
        model: of which some inputs are there, or all, under whichever names.
        inputs: all that it takes, in order.
    """
    import numpy as np
    from onnx import helper

    there = {value.name: value.SerializeToString() for value in model.graph.input}
    if len(there) == len(inputs):
        return
    del model.graph.input[:]
    for item in inputs:
        if item.name in there:
            model.graph.input.add().ParseFromString(there[item.name])
        else:
            element = helper.np_dtype_to_tensor_dtype(np.dtype(item.dtype))
            model.graph.input.append(helper.make_tensor_value_info(item.name, element, item.shape))


def name_values(model: ModelProto, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Give the inputs and outputs of the graph these names; PyTorch's new exporter does not heed names inside.

    A value inside that has such a name already gets another. An output that is an input, a weight or another output as
    well gets a node of its own.
    """
    from onnx import helper

    graph = model.graph
    made = {name for part in _scopes(model) for node in part.node for name in node.output}
    inside = made | {tensor.name for part in _scopes(model) for tensor in part.initializer}
    renamed = {value.name: name for value, name in zip(graph.input, inputs, strict=True)}
    copies: dict[str, str] = {}
    for output, name in zip(graph.output, outputs, strict=True):
        if output.name in made and output.name not in renamed:
            renamed[output.name] = name
        else:
            copies[name] = output.name
    for name in (*inputs, *outputs):
        if name in inside and name not in renamed:
            renamed[name] = _unused(f"{name}_inner", inside)
    _rename(model, renamed)
    for name, source in copies.items():
        graph.node.append(helper.make_node("Identity", [renamed.get(source, source)], [name]))
    for value, name in zip((*graph.input, *graph.output), (*inputs, *outputs), strict=True):
        value.name = name


def unique(name: str, taken: set[str]) -> str:
    """The name, or one like it that nothing has; it is taken from now on."""
    found, count = name, 1
    while found in taken:
        found, count = f"{name}_{count}", count + 1
    taken.add(found)
    return found


def _scopes(model: ModelProto) -> list[GraphProto]:
    """The graphs that share the names of the model's values; a function has names of its own."""
    from onnx import GraphProto

    from orun.stages._graph.io import graphs

    return [graph for graph in graphs(model) if isinstance(graph, GraphProto)]


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _rename(model: ModelProto, names: Mapping[str, str]) -> None:
    for graph in _scopes(model):
        for node in graph.node:
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names.get(name, name) for name in node.output]
        for value in (*graph.value_info, *graph.initializer):
            value.name = names.get(value.name, value.name)


def name_input_axes(model: ModelProto, inputs: Sequence[Input]) -> None:
    """Declare the axes of the model's inputs as these inputs have them, in order."""
    for value, item in zip(model.graph.input, inputs, strict=True):
        shape = value.type.tensor_type.shape
        shape.ClearField("dim")
        for axis in item.shape:
            shape.dim.add(**{"dim_param" if isinstance(axis, str) else "dim_value": axis})


def name_axes(model: ModelProto, tries: Sequence[Case], answers: Sequence[Sequence[NDArray[Any]]]) -> None:
    """Declare each axis of the outputs as what it was seen to be: a size, or the dynamic axis that it follows.

    Exporters leave names of their own, and sometimes the size of their example.

    Args:
        model: whose outputs are declared, and whose inputs are.
        tries: what it was fed.
        answers: the outputs for each of them.
    """
    named = [axis.dim_param for value in model.graph.input for axis in value.type.tensor_type.shape.dim]
    follows = [axis for axis in dict.fromkeys(named) if axes.names(axis) != (axis,)]
    sizes = [{**case.sizes, **{axis: axes.size(axis, case.sizes) for axis in follows}} for case in tries]
    for place, output in enumerate(model.graph.output):
        shapes = [answer[place].shape for answer in answers]
        declared = output.type.tensor_type.shape
        declared.SetInParent()
        if len(declared.dim) != len(shapes[0]):
            del declared.dim[:]
            declared.dim.extend(type(declared).Dimension() for _ in shapes[0])
        for index, axis in enumerate(declared.dim):
            _name_axis(axis, [shape[index] for shape in shapes], sizes, f"{output.name}_{index}")


def _name_axis(
    axis: TensorShapeProto.Dimension, sizes: Sequence[int], known: Sequence[Mapping[str, int]], name: str
) -> None:
    matching = [symbol for symbol in known[0] if [case[symbol] for case in known] == sizes]
    constant = set(sizes) == {sizes[0]}
    if axis.dim_param in matching or (constant and axis.dim_value == sizes[0]):
        return
    if matching:
        axis.dim_param = matching[0]
    elif constant:
        axis.dim_value = sizes[0]
    else:
        axis.dim_param = name
