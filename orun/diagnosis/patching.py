"""Models composed of two: one model with segments of the other, and isolated segments that are fed directly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnx import ModelProto, NodeProto, TensorProto, helper

from orun.diagnosis.alignment import find_constants
from orun.diagnosis.segments import Part, Segment, read_by
from orun.errors import UsageError

MARK = "restored::"  # prefix of names from the other model
LOCAL = "::local"  # suffix of a tensor that is computed from fed values


@dataclass(frozen=True)
class Elements:
    """Element types (`TensorProto.DataType`) of tensors by name, of the model and of the reference."""

    ours: dict[str, int]
    theirs: dict[str, int]


def restore(model: ModelProto, reference: ModelProto, chosen: Sequence[Segment], elements: Elements) -> ModelProto:
    """Return the model with the reference's nodes in place of its own in some segments.

    Casts are added where the types at the ends of a segment differ.

    Raises:
        UsageError: when their operator sets are incompatible.
    """
    result, kept, stored = detach(model, reference, chosen)
    added: list[NodeProto] = []
    weights: dict[str, TensorProto] = {}
    for segment in chosen:
        nodes, used = transplant(segment, stored, elements, segment.ours.tensor)
        added += nodes
        weights |= used
    outputs = {value.name for value in result.graph.output}
    nodes = sort_nodes(_select_alive([*kept, *added], outputs), result)
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    read = {name for node in nodes for name in read_by(node)} | outputs
    initializers = [tensor for tensor in (*result.graph.initializer, *weights.values()) if tensor.name in read]
    del result.graph.initializer[:]
    result.graph.initializer.extend(initializers)
    del result.graph.value_info[:]  # it may declare values that are gone
    return result


def isolate(model: ModelProto, parts: Sequence[Part], types: Mapping[str, int]) -> ModelProto:
    """Return a model of some parts only: their starting tensors are inputs, their results are `<name>::local`."""
    result = ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    for field in (graph.input, graph.output, graph.node, graph.value_info):
        del field[:]
    ends = {part.tensor for part in parts}
    nodes: dict[tuple[str, ...], NodeProto] = {}
    for part in parts:
        for node in part.nodes:
            nodes.setdefault(tuple(node.output), node)
    stored = {name: node for node in model.graph.node if node.op_type == "Constant" for name in node.output}
    used = dict.fromkeys(name for part in parts for name in part.constants)
    graph.node.extend(stored[name] for name in used if name in stored)
    order = {tuple(node.output): place for place, node in enumerate(model.graph.node)}
    for outputs in sorted(nodes, key=order.__getitem__):
        copy = graph.node.add()
        copy.CopyFrom(nodes[outputs])
        copy.output[:] = [f"{name}{LOCAL}" if name in ends else name for name in outputs]
    starts = dict.fromkeys(name for part in parts for name in part.inputs)
    graph.input.extend(helper.make_tensor_value_info(name, types[name], None) for name in starts)
    graph.output.extend(helper.make_empty_tensor_value_info(f"{part.tensor}{LOCAL}") for part in parts)
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return result


def detach(
    model: ModelProto, reference: ModelProto, chosen: Sequence[Segment]
) -> tuple[ModelProto, list[NodeProto], Mapping[str, TensorProto]]:
    """Return a copy of the model with the reference's operator sets, its nodes, and the reference's constants.

    In the nodes, the results of the chosen segments are renamed to `<name>::local`.

    Raises:
        UsageError: when the operator sets are incompatible.
    """
    result = ModelProto()
    result.CopyFrom(model)
    _join_operators(result, reference)
    replaced = {segment.ours.tensor for segment in chosen}
    nodes = [_with_local_outputs(node, replaced) for node in result.graph.node]
    return result, nodes, find_constants(reference)


def _with_local_outputs(node: NodeProto, replaced: Iterable[str]) -> NodeProto:
    """Return a copy of the node with its replaced outputs renamed to `<name>::local`."""
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.output[:] = [f"{name}{LOCAL}" if name in replaced else name for name in node.output]
    return copy


def transplant(
    segment: Segment, stored: Mapping[str, TensorProto], elements: Elements, end: str
) -> tuple[list[NodeProto], dict[str, TensorProto]]:
    """Return the reference's nodes of a segment under new names, with the result `end`, and their constants."""
    theirs, ours = segment.theirs, segment.ours
    prefix = f"{MARK}{ours.tensor}::"
    weights = {name: TensorProto() for name in theirs.constants}
    for name, tensor in weights.items():
        tensor.CopyFrom(stored[name])
        tensor.name = f"{prefix}{name}"
    names = {name: f"{prefix}{name}" for node in theirs.nodes for name in node.output}
    names |= {name: tensor.name for name, tensor in weights.items()}
    casts: list[NodeProto] = []
    for name in theirs.inputs:
        names[name] = start = segment.pairs[name]
        if elements.theirs.get(name) != elements.ours.get(start):
            names[name] = f"{prefix}{name}"
            casts.append(helper.make_node("Cast", [start], [names[name]], to=elements.theirs[name]))
    nodes = [_rename(node, prefix, names) for node in theirs.nodes]
    result = names[theirs.tensor]
    if elements.theirs.get(theirs.tensor) == elements.ours.get(ours.tensor):
        nodes[-1].output[:] = [end if name == result else name for name in nodes[-1].output]
        return [*casts, *nodes], {tensor.name: tensor for tensor in weights.values()}
    last = helper.make_node("Cast", [result], [end], to=elements.ours[ours.tensor])
    return [*casts, *nodes, last], {tensor.name: tensor for tensor in weights.values()}


def _rename(node: NodeProto, prefix: str, names: Mapping[str, str]) -> NodeProto:
    """Return a copy of a node with other names; one that several segments hold has the prefix of each."""
    if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
        raise UsageError(f"node {node.name!r} holds a graph, and cannot be put into another model")
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.name = f"{prefix}{node.name}" if node.name else ""
    copy.input[:] = [names.get(name, name) for name in node.input]
    copy.output[:] = [names.get(name, name) for name in node.output]
    return copy


def _join_operators(model: ModelProto, reference: ModelProto) -> None:
    """Import the operator sets of the reference as well; raise `UsageError` if their versions differ."""
    versions = {_normalise_domain(item.domain): item.version for item in model.opset_import}
    for item in reference.opset_import:
        domain = _normalise_domain(item.domain)
        if versions.setdefault(domain, item.version) != item.version:
            raise UsageError(
                "nodes of one model cannot be put into the other",
                why=f"one is of operator set {versions[domain]}, the other of {item.version}",
            )
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in versions.items())
    model.ir_version = max(model.ir_version, reference.ir_version)


def _normalise_domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _select_alive(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    """Return the nodes that an output depends on."""
    makers = {name: node for node in nodes for name in node.output if name}
    pending = list(outputs)
    alive: set[int] = set()
    while pending:
        node = makers.get(pending.pop())
        if node is not None and id(node) not in alive:
            alive.add(id(node))
            pending += read_by(node)
    return [node for node in nodes if id(node) in alive]


def sort_nodes(nodes: Sequence[NodeProto], model: ModelProto) -> list[NodeProto]:
    """Return the nodes sorted so that each follows those whose results it reads, otherwise in their order.

    Raises:
        UsageError: when they form a cycle.
    """
    computed = {name for node in nodes for name in node.output if name}
    known: set[str] = set()
    ordered: list[NodeProto] = []
    pending = list(nodes)
    while pending:
        deferred = []
        for node in pending:
            if all(name in known or name not in computed for name in read_by(node)):
                known.update(node.output)
                ordered.append(node)
            else:
                deferred.append(node)
        if len(deferred) == len(pending):
            raise UsageError(f"the parts of {model.graph.name or 'the model'} do not fit together: they form a cycle")
        pending = deferred
    return ordered
