"""Canonical form of a graph: order and names depend only on what it computes, not on the converter's counters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from orun.stages._graph.nodes import list_own_names, set_items, walk_nodes

COUNTER = re.compile(r"__\d+")  # what tf2onnx appends to a name, counting as it goes
PREFIX = re.compile(r"^(?:(?:Stateful)?PartitionedCall(?:_\d+)?/)+")
MATRIX = 2  # a layer's weight has at least two axes


def canonicalize(model: ModelProto) -> None:
    """Bring a model of one graph into its canonical form; it computes the same.

    Nodes are in the order in which the outputs need them; nodes that no output needs are dropped. Equal weights are
    merged. A node with a matrix of weights keeps the name of its layer; any other is named after its operator. The
    names of inputs and outputs stay.
    """
    graph = model.graph
    names = {value.name: value.name for value in (*graph.input, *graph.output)}
    _Canonicalizer(Counter(names.values())).apply(graph, names, "")
    graph.name = "model"


class _Canonicalizer:
    def __init__(self, names: Counter[str]) -> None:
        self._names = names

    def apply(self, graph: GraphProto, names: dict[str, str], prefix: str) -> None:
        """Order and rename a graph, or one inside a node; `names` gets the new names of the graph's own values."""
        _merge_weights(graph)
        weights = {tensor.name: tensor for tensor in graph.initializer}
        nodes = [graph.node[place] for place in _list_needed(graph)]
        for node in nodes:
            self._name(node, weights, names, prefix)
        for value in graph.output:
            if value.name in weights and value.name not in names:
                names[value.name] = self._choose_unused_name(f"{prefix}weight")
            value.name = names.get(value.name, value.name)
        set_items(graph.node, nodes)
        set_items(graph.initializer, (tensor for name, tensor in weights.items() if name in names))
        for tensor in graph.initializer:
            tensor.name = names[tensor.name]
        graph.initializer.sort(key=lambda tensor: tensor.name)
        del graph.value_info[:]

    def _name(self, node: NodeProto, weights: Mapping[str, TensorProto], names: dict[str, str], prefix: str) -> None:
        layer = any(len(weights[name].dims) >= MATRIX for name in node.input if name in weights)
        base = COUNTER.sub("", PREFIX.sub("", node.name)) if layer else ""
        node.name = self._choose_unused_name(prefix + (base or node.op_type))
        for place, name in enumerate(_iter_reads(node)):
            if name in weights and name not in names:
                names[name] = self._choose_unused_name(f"{node.name}.{place}")
        for attribute in sorted(node.attribute, key=lambda item: item.name):
            if attribute.HasField("g"):
                self._apply_inside(attribute.g, names, f"{node.name}/{attribute.name}/")
        node.input[:] = [names.get(name, name) for name in node.input]
        for place, name in enumerate(node.output):
            if name and name not in names:
                names[name] = self._choose_unused_name(f"{node.name}:{place}")
        node.output[:] = [names.get(name, name) for name in node.output]
        node.attribute.sort(key=lambda item: item.name)
        node.ClearField("doc_string")
        if not node.domain:
            node.ClearField("domain")  # an empty domain is the default

    def _apply_inside(self, graph: GraphProto, names: Mapping[str, str], prefix: str) -> None:
        inner = dict(names)
        for place, value in enumerate(graph.input):
            inner[value.name] = self._choose_unused_name(f"{prefix}in:{place}")
            value.name = inner[value.name]
        graph.name = prefix.rstrip("/")
        _copy_outputs(graph)
        for axis in (axis for value in (*graph.input, *graph.output) for axis in value.type.tensor_type.shape.dim):
            if axis.HasField("dim_param"):  # converters number the names of axes
                axis.Clear()
        self.apply(graph, inner, prefix)

    def _choose_unused_name(self, name: str) -> str:
        count = self._names[name]
        self._names[name] += 1
        return self._choose_unused_name(f"{name}_{count}") if count else name


def _copy_outputs(graph: GraphProto) -> None:
    """If several outputs of an inner graph are one value, let the first be that value and the rest copies of it."""
    copies = {node.output[0]: node for node in graph.node if node.op_type == "Identity"}
    computed = {name for node in graph.node for name in node.output}
    used: set[str] = set()
    for place, value in enumerate(graph.output):
        source = value.name
        while source in copies and copies[source].input[0] in computed:
            source = copies[source].input[0]
        if source in used:
            copy = f"{source}/output:{place}"
            graph.node.add(op_type="Identity", input=[source], output=[copy])
            source = copy
        used.add(source)
        value.name = source


def _merge_weights(graph: GraphProto) -> None:
    first: dict[bytes, str] = {}
    same: dict[str, str] = {}
    outputs = {value.name for value in graph.output}
    for tensor in graph.initializer:
        name, tensor.name = tensor.name, ""
        content = tensor.SerializeToString(deterministic=True)
        tensor.name = name
        if name not in outputs:
            same[name] = first.setdefault(content, name)
    for node in walk_nodes(graph):
        node.input[:] = [same.get(name, name) for name in node.input]


def _list_needed(graph: GraphProto) -> Iterator[int]:
    """Yield the indices of the nodes that the outputs need, depth first, each after those that it reads from."""
    maker = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    seen: set[int] = set()
    for output in graph.output:
        pending = [(maker[output.name], False)] if output.name in maker else []
        while pending:
            place, ready = pending.pop()
            if ready:
                yield place
            elif place not in seen:
                seen.add(place)
                pending.append((place, True))
                inputs = [name for name in _iter_reads(graph.node[place]) if name in maker]
                pending += [(maker[name], False) for name in reversed(inputs)]


def _iter_reads(node: NodeProto) -> Iterator[str]:
    """Yield the names of values that a node reads, those that graphs inside it read from outside included."""
    yield from node.input
    for attribute in sorted(node.attribute, key=lambda item: item.name):
        if attribute.HasField("g"):
            graph = attribute.g
            own = list_own_names(graph)
            yield from (
                name for place in _list_needed(graph) for name in _iter_reads(graph.node[place]) if name not in own
            )
            yield from (value.name for value in graph.output if value.name not in own)
