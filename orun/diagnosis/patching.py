"""Models made of two: one with parts of the other in it, and one of parts that are fed from outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnx import ModelProto, NodeProto, TensorProto, helper

from orun.diagnosis.alignment import constants
from orun.diagnosis.segments import Part, Segment, read_by
from orun.errors import UsageError

MARK = "restored::"  # before the names of what comes from the other model
LOCAL = "::local"  # after the name of a tensor that is computed from what was fed


@dataclass(frozen=True)
class Elements:
    """Element types of tensors by name, as ONNX counts them: those of the model and those of the reference."""

    ours: dict[str, int]
    theirs: dict[str, int]


def restored(
    model: ModelProto, reference: ModelProto, chosen: Sequence[Segment], elements: Elements | None = None
) -> ModelProto:
    """The model with the reference's nodes in place of its own in some segments.

    Args:
        model: the model.
        reference: the other one.
        chosen: segments of the two.
        elements: of the tensors where they begin and end, which are converted where they differ; the same when None.

    Raises:
        UsageError: when their operator sets do not go together.
    """
    made = ModelProto()
    made.CopyFrom(model)
    join_operators(made, reference)
    stored = constants(reference)
    replaced = {one.ours.tensor for one in chosen}
    kept = [beside(node, replaced) for node in made.graph.node]
    added: list[NodeProto] = []
    weights: dict[str, TensorProto] = {}
    for one in chosen:
        nodes, used = transplanted(one, stored, elements or Elements({}, {}), one.ours.tensor)
        added += nodes
        weights |= used
    outputs = {value.name for value in made.graph.output}
    nodes = in_order(_alive([*kept, *added], outputs), made)
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    read = {name for node in nodes for name in read_by(node)} | outputs
    initializers = [tensor for tensor in (*made.graph.initializer, *weights.values()) if tensor.name in read]
    del made.graph.initializer[:]
    made.graph.initializer.extend(initializers)
    del made.graph.value_info[:]  # what is not computed any more would be in the way
    return made


def isolated(model: ModelProto, parts: Sequence[Part], types: Mapping[str, int]) -> ModelProto:
    """The parts alone, all in one model: what they start from is fed, what they compute comes out as `<name>::local`.

    Args:
        model: the model that they are parts of.
        parts: some parts of it.
        types: element type of each tensor that a part starts from.
    """
    made = ModelProto()
    made.CopyFrom(model)
    graph = made.graph
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
    return made


def beside(node: NodeProto, replaced: Iterable[str]) -> NodeProto:
    """The node with the outputs that come from elsewhere under another name."""
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.output[:] = [f"{name}{LOCAL}" if name in replaced else name for name in node.output]
    return copy


def transplanted(
    segment: Segment, stored: Mapping[str, TensorProto], elements: Elements, end: str
) -> tuple[list[NodeProto], dict[str, TensorProto]]:
    """The reference's nodes of a segment under names of their own, what they compute as `end`, and their constants."""
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
    nodes = [_renamed(node, names) for node in theirs.nodes]
    made = names[theirs.tensor]
    if elements.theirs.get(theirs.tensor) == elements.ours.get(ours.tensor):
        nodes[-1].output[:] = [end if name == made else name for name in nodes[-1].output]
        return [*casts, *nodes], {tensor.name: tensor for tensor in weights.values()}
    last = helper.make_node("Cast", [made], [end], to=elements.ours[ours.tensor])
    return [*casts, *nodes, last], {tensor.name: tensor for tensor in weights.values()}


def _renamed(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
        raise UsageError(f"node {node.name!r} holds a graph, and cannot be put into another model")
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.name = f"{MARK}{node.name}" if node.name else ""
    copy.input[:] = [names.get(name, name) for name in node.input]
    copy.output[:] = [names.get(name, name) for name in node.output]
    return copy


def join_operators(made: ModelProto, reference: ModelProto) -> None:
    """Let `made` use the operators of the reference as well; raises `UsageError` where their versions differ."""
    versions = {_domain(item.domain): item.version for item in made.opset_import}
    for item in reference.opset_import:
        domain = _domain(item.domain)
        if versions.setdefault(domain, item.version) != item.version:
            raise UsageError(
                "parts of one model cannot be put into the other",
                why=f"one is of operator set {versions[domain]}, the other of {item.version}",
            )
    del made.opset_import[:]
    made.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in versions.items())
    made.ir_version = max(made.ir_version, reference.ir_version)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _alive(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    """The nodes that an output hangs on."""
    makers = {name: node for node in nodes for name in node.output if name}
    wanted = list(outputs)
    alive: set[int] = set()
    while wanted:
        node = makers.get(wanted.pop())
        if node is not None and id(node) not in alive:
            alive.add(id(node))
            wanted += read_by(node)
    return [node for node in nodes if id(node) in alive]


def in_order(nodes: Sequence[NodeProto], model: ModelProto) -> list[NodeProto]:
    """Every node after those whose results it reads; the order is kept where it can be.

    Raises:
        UsageError: when there is no such order.
    """
    made = {name for node in nodes for name in node.output if name}
    known: set[str] = set()
    done: list[NodeProto] = []
    waiting = list(nodes)
    while waiting:
        left = []
        for node in waiting:
            if all(name in known or name not in made for name in read_by(node)):
                known.update(node.output)
                done.append(node)
            else:
                left.append(node)
        if len(left) == len(waiting):
            raise UsageError(f"the parts of {model.graph.name or 'the model'} do not fit together: they form a cycle")
        waiting = left
    return done
