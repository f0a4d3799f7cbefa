"""A model in bfloat16; and the same as a processor that has none of its operators can run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, defs, helper, numpy_helper

from orun.stages._graph.io import store_freely
from orun.stages._graph.names import unique
from orun.stages._graph.order import reads

if TYPE_CHECKING:
    from numpy.typing import NDArray

WIDE, NARROW = TensorProto.FLOAT, TensorProto.BFLOAT16
NAMES: Mapping[int, str] = {WIDE: "float32", NARROW: "bfloat16"}
LARGEST = 2.0**128 - 2.0**120  # finite number of bfloat16
STANDARD = ("", "ai.onnx")

Kinds: TypeAlias = list[int | None]  # element types; None for what was not float32


def narrow(model: ModelProto, stays: Callable[[NodeProto], bool], *, keep_io_types: bool) -> int:
    """Turn float32 into bfloat16, in place, wherever the model's operator set has an operator in it.

    What stays float32: nodes that are told to, those of other domains or with graphs of their own, and what an
    attribute makes float32, such as a Cast. A weight that both kinds of node read is stored in both types.

    Args:
        model: with the element type of every value of its main graph declared, and its weights in memory.
        stays: whether a node stays float32.
        keep_io_types: inputs and outputs stay float32.

    Returns:
        How many weights became bfloat16.
    """
    store_freely(model)
    _store_constants(model.graph)
    narrowing = _Narrowing(model, stays, WIDE if keep_io_types else NARROW)
    for node in list(model.graph.node):
        narrowing.take(node)
    return narrowing.finish()


def rounded(model: ModelProto) -> None:
    """Let a model compute in float32 and round what each operator yields to bfloat16, in place.

    So do processors that sum in float32; and every processor can run it.
    """
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    narrowed = {value.name for value in values if value.type.tensor_type.elem_type == NARROW}
    for value in values:
        if value.name in narrowed:
            value.type.tensor_type.elem_type = WIDE
    for tensor in model.graph.initializer:
        if tensor.data_type == NARROW:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))
    given = {value.name: f"{value.name}/rounded" for value in model.graph.input if value.name in narrowed}
    made = [node for name, result in given.items() for node in _rounding(name, result)]
    for node in model.graph.node:
        _rename(node, given)
        made.append(node)
        for place, name in enumerate(node.output):
            if name in narrowed:
                node.output[place] = f"{name}/exact"
                made.extend(_rounding(f"{name}/exact", name))
        for attribute in node.attribute:
            if (node.op_type, attribute.name, attribute.i) == ("Cast", "to", NARROW):  # what comes next rounds
                attribute.i = WIDE
    del model.graph.node[:]
    model.graph.node.extend(made)


def _rounding(source: str, result: str) -> Sequence[NodeProto]:
    """Nodes that round a float32 value to what bfloat16 has."""
    return (
        helper.make_node("Cast", [source], [f"{result}/narrow"], to=NARROW),
        helper.make_node("Cast", [f"{result}/narrow"], [result], to=WIDE),
    )


def _store_constants(graph: GraphProto) -> None:
    """Let constants of float32 be stored tensors, as other weights are."""
    kept = []
    for node in graph.node:
        held = next((one.t for one in node.attribute if one.name == "value"), None)
        if node.op_type == "Constant" and held is not None and held.data_type == WIDE:
            graph.initializer.append(numpy_helper.from_array(numpy_helper.to_array(held), node.output[0]))
        else:
            kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)


class _Narrowing:
    """The nodes of a graph, rewritten one after the other.

    Attributes:
        outside: the type that inputs and outputs of float32 get.
        home: the type in which each value that was float32 is given or computed.
        names: what a value or weight is called in a type, where it is read in it.
    """

    def __init__(self, model: ModelProto, stays: Callable[[NodeProto], bool], outside: int) -> None:
        self.graph, self.stays, self.outside = model.graph, stays, outside
        self.opset = next((item.version for item in model.opset_import if item.domain in STANDARD), None)
        values = (*self.graph.input, *self.graph.value_info, *self.graph.output)
        self.values = {value.name: value for value in values}
        given = {value.name for value in self.graph.input}
        held = {tensor.name: tensor for tensor in self.graph.initializer}
        self.weights = {name: tensor for name, tensor in held.items() if name not in given}
        self.taken = {*self.values, *held}
        self.outputs = {value.name for value in self.graph.output}
        self.home: dict[str, int] = {}
        self.names: dict[tuple[str, int], str] = {}
        self.made: list[NodeProto] = []
        for value in self.graph.input:
            if self._wide(value.name):  # models of old have weights among their inputs
                self._settle(value.name, WIDE if value.name in held else outside)

    def take(self, node: NodeProto) -> None:
        """Let a node read and yield what its operator takes; it comes next, between casts where it needs such."""
        schema = self._schema(node)
        reading, yielding = self._kinds(node, schema)
        if schema is None:
            wide = [name for name in dict.fromkeys(reads(node)) if self._wide(name)]
            _rename(node, {name: self._read(name, WIDE) for name in wide})
        else:
            for place, kind in enumerate(reading):
                if kind is not None:
                    node.input[place] = self._read(node.input[place], kind)
        self.made.append(node)
        for place, kind in enumerate(yielding):
            if kind is not None:
                self._yield(node, place, kind)

    def finish(self) -> int:
        """Put nodes, weights and types into the graph; how many weights are bfloat16."""
        narrowed = {name: called for (name, kind), called in self.names.items() if kind == NARROW}
        weights = {name: called for name, called in narrowed.items() if name in self.weights}
        alone = {called: name for name, called in weights.items() if self._unread(name)}
        for node in self.made:
            _rename(node, alone)
        del self.graph.node[:]
        self.graph.node.extend(self.made)
        for name, called in weights.items():
            made = numpy_helper.from_array(
                _nearest(numpy_helper.to_array(self.weights[name])), alone.get(called, called)
            )
            if called in alone:
                self.weights[name].CopyFrom(made)
            else:
                self.graph.initializer.append(made)
        self._declare(dict.fromkeys(alone.values(), NARROW))
        return len(weights)

    def _unread(self, weight: str) -> bool:
        """Whether nothing reads a weight in float32."""
        return (weight, WIDE) not in self.names and weight not in self.outputs

    def _declare(self, kinds: dict[str, int]) -> None:
        """Declare the types of weights, and of every value that was float32 by each name that it has now."""
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

    def _kinds(self, node: NodeProto, schema: defs.OpSchema | None) -> tuple[Kinds, Kinds]:
        """The type that each input and output is to have."""
        if schema is None:
            return [None] * len(node.input), [WIDE if self._wide(name) else None for name in node.output]
        allowed = {one.type_param_str: "tensor(bfloat16)" in one.allowed_type_strs for one in schema.type_constraints}
        taking, giving = _parameters(schema.inputs, node.input), _parameters(schema.outputs, node.output)
        homes: dict[str, set[int | None]] = {}
        for name, parameter in zip(node.input, taking, strict=True):
            if self._wide(name):
                homes.setdefault(parameter, set()).add(self.home.get(name))
        asked = not any(map(self._wide, node.output))  # of values as they are, and none is made of them
        chosen = {
            parameter: NARROW if allowed.get(parameter) and not (asked and WIDE in found) else WIDE
            for parameter, found in homes.items()
        }
        return (
            [chosen[of] if self._wide(name) else None for name, of in zip(node.input, taking, strict=True)],
            [chosen.get(of, WIDE) if self._wide(name) else None for name, of in zip(node.output, giving, strict=True)],
        )

    def _schema(self, node: NodeProto) -> defs.OpSchema | None:
        """What the standard says of an operator; None for a node that stays as it is."""
        names = [name for name in (*node.input, *node.output) if name and name not in self.weights]
        tensors = all(name in self.values and self.values[name].type.HasField("tensor_type") for name in names)
        graphs = any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
        if self.opset is None or node.domain not in STANDARD or not tensors or graphs or self.stays(node):
            return None
        if not defs.has(node.op_type, self.opset, ""):  # ONNX Runtime's fusions put operators of its own there
            return None
        return defs.get_schema(node.op_type, self.opset, "")

    def _wide(self, name: str) -> bool:
        """Whether a value or weight was float32."""
        if name in self.weights:
            return bool(self.weights[name].data_type == WIDE)
        if name in self.home:
            return True
        return name in self.values and bool(self.values[name].type.tensor_type.elem_type == WIDE)

    def _settle(self, name: str, kind: int) -> None:
        self.home[name] = kind
        self.names[name, kind] = name

    def _yield(self, node: NodeProto, place: int, kind: int) -> None:
        """Note what a node yields; an output of the graph is cast to the type that it is to have."""
        name = node.output[place]
        if name not in self.outputs or kind == self.outside:
            self._settle(name, kind)
            return
        node.output[place] = self.names[name, kind] = unique(f"{name}_{NAMES[kind]}", self.taken)
        self._cast(node.output[place], name, self.outside)
        self.home[name], self.names[name, self.outside] = kind, name

    def _read(self, name: str, kind: int) -> str:
        """What a value is called in a type, cast to it where it is not there yet."""
        if (name, kind) not in self.names:
            if name in self.weights:
                called = name if kind == WIDE else unique(f"{name}_{NAMES[kind]}", self.taken)
            else:
                called = unique(f"{name}_{NAMES[kind]}", self.taken)
                self._cast(self.names[name, self.home[name]], called, kind)
            self.names[name, kind] = called
        return self.names[name, kind]

    def _cast(self, source: str, result: str, kind: int) -> None:
        self.made.append(
            helper.make_node("Cast", [source], [result], to=kind, name=unique(f"{result}_cast", self.taken))
        )


def _parameters(formal: Sequence[defs.OpSchema.FormalParameter], actual: Sequence[str]) -> list[str]:
    """The type parameter of each input or output; the last of an operator may stand for any number of them."""
    return [formal[min(place, len(formal) - 1)].type_str for place in range(len(actual))]


def _nearest(array: NDArray[Any]) -> NDArray[Any]:
    """The nearest numbers of bfloat16, the largest for what lies beyond it, such as a mask's lowest float32."""
    finite = np.clip(array, -LARGEST, LARGEST)
    return np.where(np.isinf(array), array, finite).astype(helper.tensor_dtype_to_np_dtype(NARROW))


def _rename(node: NodeProto, names: Mapping[str, str]) -> None:
    """Let a node, and the graphs in it, read other values."""
    if not names:
        return
    node.input[:] = [names.get(name, name) for name in node.input]
    for attribute in node.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            own: set[str] = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
            own |= {name for inner in graph.node for name in inner.output}
            outer = {name: called for name, called in names.items() if name not in own}
            for inner in graph.node:
                _rename(inner, outer)
            for value in graph.output:
                value.name = outer.get(value.name, value.name)
