"""Conversion to bfloat16, and an equivalent model for processors without bfloat16 operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, defs, helper, numpy_helper

from orun.stages._graph.domains import STANDARD, find_standard_opset
from orun.stages._graph.names import make_unique
from orun.stages._graph.nodes import iter_inner_graphs, list_own_names, list_reads, set_items
from orun.stages._graph.plain import hoist

WIDE, NARROW = TensorProto.FLOAT, TensorProto.BFLOAT16
NAMES: Mapping[int, str] = {WIDE: "float32", NARROW: "bfloat16"}
LARGEST = 2.0**128 - 2.0**120  # finite number of bfloat16

Kinds: TypeAlias = list[int | None]  # element types; None for values that were not float32


def narrow(model: ModelProto, stays: Callable[[NodeProto], bool], *, keep_io_types: bool) -> None:
    """Turn float32 into bfloat16, in place, for every operator that the model's operator set has in bfloat16.

    Nodes stay float32 if `stays` says so, if they are of other domains, or if they hold graphs. So do values that an
    attribute makes float32, such as the result of a Cast. A weight that nodes read in both types is stored in both. The
    type of every value of the main graph must be declared, and the weights must be in memory.
    """
    hoist(model)
    narrowing = _Narrowing(model, stays, WIDE if keep_io_types else NARROW)
    for node in list(model.graph.node):
        narrowing.rewrite(node)
    narrowing.finish()


def emulate(model: ModelProto) -> None:
    """Rewrite a model, in place, to compute in float32 and round each result to bfloat16.

    This is what processors do that sum in float32, and every processor can run it.
    """
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    narrowed = {value.name for value in values if value.type.tensor_type.elem_type == NARROW}
    for value in values:
        if value.name in narrowed:
            value.type.tensor_type.elem_type = WIDE
    for tensor in model.graph.initializer:
        if tensor.data_type == NARROW:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))
    inputs = {value.name: f"{value.name}/rounded" for value in model.graph.input if value.name in narrowed}
    nodes = [node for name, result in inputs.items() for node in _build_rounding(name, result)]
    for node in model.graph.node:
        _rename(node, inputs)
        nodes.append(node)
        for place, name in enumerate(node.output):
            if name in narrowed:
                node.output[place] = f"{name}/exact"
                nodes.extend(_build_rounding(f"{name}/exact", name))
        for attribute in node.attribute:
            if (node.op_type, attribute.name, attribute.i) == ("Cast", "to", NARROW):  # the nodes after it round
                attribute.i = WIDE
    set_items(model.graph.node, nodes)


def _build_rounding(source: str, result: str) -> Sequence[NodeProto]:
    """Return nodes that round a float32 value to bfloat16 precision."""
    return (
        helper.make_node("Cast", [source], [f"{result}/narrow"], to=NARROW),
        helper.make_node("Cast", [f"{result}/narrow"], [result], to=WIDE),
    )


class _Narrowing:
    """Rewriter of the nodes of a graph, one after the other.

    Attributes:
        outside: the type that float32 inputs and outputs get.
        home: the type in which each value that was float32 is given or computed.
        names: the name of a value or weight in a type in which it is read.
    """

    def __init__(self, model: ModelProto, stays: Callable[[NodeProto], bool], outside: int) -> None:
        self.graph, self.stays, self.outside = model.graph, stays, outside
        self.opset = find_standard_opset(model)
        values = (*self.graph.input, *self.graph.value_info, *self.graph.output)
        self.values = {value.name: value for value in values}
        inputs = {value.name for value in self.graph.input}
        held = {tensor.name: tensor for tensor in self.graph.initializer}
        self.weights = {name: tensor for name, tensor in held.items() if name not in inputs}
        self.used_names = {*self.values, *held}
        self.outputs = {value.name for value in self.graph.output}
        self.home: dict[str, int] = {}
        self.names: dict[tuple[str, int], str] = {}
        self.nodes: list[NodeProto] = []
        for value in self.graph.input:
            if self._is_wide(value.name):  # before IR version 4, weights are inputs too
                self._settle(value.name, WIDE if value.name in held else outside)

    def rewrite(self, node: NodeProto) -> None:
        """Append a node with the types that its operator supports, between casts where it needs them."""
        schema = self._find_schema(node)
        reading, yielding = self._choose_types(node, schema)
        if schema is None:
            wide = [name for name in dict.fromkeys(list_reads(node)) if self._is_wide(name)]
            _rename(node, {name: self._read(name, WIDE) for name in wide})
        else:
            for place, kind in enumerate(reading):
                if kind is not None:
                    node.input[place] = self._read(node.input[place], kind)
        self.nodes.append(node)
        for place, kind in enumerate(yielding):
            if kind is not None:
                self._yield(node, place, kind)

    def finish(self) -> None:
        """Put nodes, weights and types into the graph."""
        narrowed = {name: called for (name, kind), called in self.names.items() if kind == NARROW}
        weights = {name: called for name, called in narrowed.items() if name in self.weights}
        unread = {name for name in weights if (name, WIDE) not in self.names and name not in self.outputs}  # in float32
        alone = {called: name for name, called in weights.items() if name in unread}
        for node in self.nodes:
            _rename(node, alone)
        set_items(self.graph.node, self.nodes)
        for name, called in weights.items():
            values = _round_to_nearest(numpy_helper.to_array(self.weights[name]))
            tensor = numpy_helper.from_array(values, alone.get(called, called))
            if called in alone:
                self.weights[name].CopyFrom(tensor)
            else:
                self.graph.initializer.append(tensor)
        self._declare(dict.fromkeys(alone.values(), NARROW))

    def _declare(self, kinds: dict[str, int]) -> None:
        """Declare the types of weights, and of every value that was float32 under each of its names."""
        for (name, kind), called in self.names.items():
            if name in self.weights:
                continue
            kinds[called] = kind
            if called not in self.values:
                value = self.graph.value_info.add()
                value.CopyFrom(self.values[name])
                value.name = called
        for value in (*self.graph.input, *self.graph.value_info, *self.graph.output):
            if value.name in kinds:
                value.type.tensor_type.elem_type = kinds[value.name]

    def _choose_types(self, node: NodeProto, schema: defs.OpSchema | None) -> tuple[Kinds, Kinds]:
        """Return the type that each input and output is to have."""
        if schema is None:
            return [None] * len(node.input), [WIDE if self._is_wide(name) else None for name in node.output]
        constraints = schema.type_constraints
        allowed = {item.type_param_str: "tensor(bfloat16)" in item.allowed_type_strs for item in constraints}
        input_types, output_types = (
            _list_type_parameters(schema.inputs, node.input),
            _list_type_parameters(schema.outputs, node.output),
        )
        homes: dict[str, set[int | None]] = {}
        for name, parameter in zip(node.input, input_types, strict=True):
            if self._is_wide(name):
                homes.setdefault(parameter, set()).add(self.home.get(name))
        only_reads = not any(map(self._is_wide, node.output))  # such a node reads values as they are
        chosen = {
            parameter: NARROW if allowed.get(parameter) and not (only_reads and WIDE in types) else WIDE
            for parameter, types in homes.items()
        }
        read = zip(node.input, input_types, strict=True)
        yielded = zip(node.output, output_types, strict=True)
        return (
            [chosen[parameter] if self._is_wide(name) else None for name, parameter in read],
            [chosen.get(parameter, WIDE) if self._is_wide(name) else None for name, parameter in yielded],
        )

    def _find_schema(self, node: NodeProto) -> defs.OpSchema | None:
        """Return the standard's schema of an operator; None for a node that stays as it is."""
        names = [name for name in (*node.input, *node.output) if name and name not in self.weights]
        tensors = all(name in self.values and self.values[name].type.HasField("tensor_type") for name in names)
        graphs = any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
        if not self.opset or node.domain not in STANDARD or not tensors or graphs or self.stays(node):
            return None
        if not defs.has(node.op_type, self.opset, ""):  # ONNX Runtime's fusions put operators of its own there
            return None
        return defs.get_schema(node.op_type, self.opset, "")

    def _is_wide(self, name: str) -> bool:
        if name in self.weights:
            return bool(self.weights[name].data_type == WIDE)
        if name in self.home:
            return True
        return name in self.values and bool(self.values[name].type.tensor_type.elem_type == WIDE)

    def _settle(self, name: str, kind: int) -> None:
        self.home[name] = kind
        self.names[name, kind] = name

    def _yield(self, node: NodeProto, place: int, kind: int) -> None:
        """Note the type of a node's output; an output of the graph is cast to its declared type."""
        name = node.output[place]
        if name not in self.outputs or kind == self.outside:
            self._settle(name, kind)
            return
        node.output[place] = self.names[name, kind] = make_unique(f"{name}_{NAMES[kind]}", self.used_names)
        self._cast(node.output[place], name, self.outside)
        self.home[name], self.names[name, self.outside] = kind, name

    def _read(self, name: str, kind: int) -> str:
        """Return the name of a value in a type, adding a cast if there is none yet."""
        if (name, kind) not in self.names:
            if name in self.weights:
                called = name if kind == WIDE else make_unique(f"{name}_{NAMES[kind]}", self.used_names)
            else:
                called = make_unique(f"{name}_{NAMES[kind]}", self.used_names)
                self._cast(self.names[name, self.home[name]], called, kind)
            self.names[name, kind] = called
        return self.names[name, kind]

    def _cast(self, source: str, result: str, kind: int) -> None:
        self.nodes.append(
            helper.make_node("Cast", [source], [result], to=kind, name=make_unique(f"{result}_cast", self.used_names))
        )


def _list_type_parameters(formal: Sequence[defs.OpSchema.FormalParameter], actual: Sequence[str]) -> list[str]:
    """Return the type parameter of each input or output; an operator's last parameter may be variadic."""
    return [formal[min(place, len(formal) - 1)].type_str for place in range(len(actual))]


def _round_to_nearest(array: NDArray[Any]) -> NDArray[Any]:
    """Round to bfloat16; finite values beyond its range, such as a mask's lowest float32, become its largest."""
    finite = np.clip(array, -LARGEST, LARGEST)
    return np.where(np.isinf(array), array, finite).astype(helper.tensor_dtype_to_np_dtype(NARROW))


def _rename(node: NodeProto, names: Mapping[str, str]) -> None:
    if not names:
        return
    node.input[:] = [names.get(name, name) for name in node.input]
    for graph in iter_inner_graphs(node):
        own = list_own_names(graph)
        outer = {name: called for name, called in names.items() if name not in own}
        for inner in graph.node:
            _rename(inner, outer)
        for value in graph.output:
            value.name = outer.get(value.name, value.name)
