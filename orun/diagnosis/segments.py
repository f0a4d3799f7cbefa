"""Segments of two graphs between the tensors that they share.

A segment is the nodes that compute one shared tensor from the shared tensors before it. A model that was quantized,
fused or edited differs from its predecessor in some segments. The error of each can be measured by itself: feed it the
reference's values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from orun.diagnosis.alignment import align, digest, find_constants


@dataclass(frozen=True, eq=False)
class Part:
    """Nodes of a segment in one of the two graphs.

    Attributes:
        tensor: the tensor that they compute.
        nodes: the nodes in order.
        inputs: the shared tensors that they start from.
        constants: names of the weights and constants that they use.
    """

    tensor: str
    nodes: tuple[NodeProto, ...]
    inputs: tuple[str, ...]
    constants: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Segment:
    """Nodes that compute a shared tensor in the model and in the reference.

    Attributes:
        ours, theirs: nodes of the model, nodes of the reference.
        pairs: the model's name of every shared tensor, by the reference's.
    """

    ours: Part
    theirs: Part
    pairs: Mapping[str, str]

    @property
    def node(self) -> NodeProto:
        """The reference's node that yields the tensor; users know its name."""
        return self.theirs.nodes[-1]

    @property
    def name(self) -> str:
        """Name of the node, or of its tensor if the node has none."""
        return self.node.name or self.theirs.tensor


def find_segments(model: ModelProto, reference: ModelProto) -> tuple[Segment, ...]:
    """Return all segments in the order of the reference; inputs have none."""
    pairs = align(model, reference)
    ours = _Graph(model, set(pairs.values()))
    theirs = _Graph(reference, set(pairs))
    shared = [name for node in reference.graph.node for name in node.output if pairs.get(name) in ours.makers]
    return tuple(Segment(ours.cut_part(pairs[name]), theirs.cut_part(name), pairs) for name in shared)


def find_differing(shared: Sequence[Segment], model: ModelProto, reference: ModelProto) -> tuple[Segment, ...]:
    """Return the segments with different nodes or constants in the two models."""
    ours, theirs = find_constants(model), find_constants(reference)
    return tuple(
        segment
        for segment in shared
        if _describe_content(segment.ours, ours) != _describe_content(segment.theirs, theirs)
    )


def _describe_content(part: Part, stored: Mapping[str, TensorProto]) -> tuple[list[object], list[bytes]]:
    return [_describe_step(node) for node in part.nodes], [digest(stored[name]) for name in part.constants]


def _describe_step(node: NodeProto) -> tuple[str, str, list[bytes]]:
    return node.domain, node.op_type, sorted(item.SerializeToString(deterministic=True) for item in node.attribute)


class _Graph:
    """Graph with the names of the tensors that it shares with another."""

    def __init__(self, model: ModelProto, shared: Collection[str]) -> None:
        self.shared = shared
        self.inputs = {value.name for value in model.graph.input}
        self.constants = find_constants(model)
        self.nodes = tuple(model.graph.node)
        places = [(name, place) for place, node in enumerate(self.nodes) for name in node.output if name]
        self.makers = {name: place for name, place in places if self.nodes[place].op_type != "Constant"}

    def cut_part(self, tensor: str) -> Part:
        """Return the nodes that compute a tensor from shared tensors."""
        nodes: set[int] = set()
        inputs: dict[str, None] = {}
        used: dict[str, None] = {}
        pending = [self.makers[tensor]]
        while pending:
            place = pending.pop()
            if place in nodes:
                continue
            nodes.add(place)
            for name in read_by(self.nodes[place]):
                if name in self.constants:
                    used[name] = None
                elif name in self.inputs or (name in self.shared and name != tensor):
                    inputs[name] = None
                elif name in self.makers:
                    pending.append(self.makers[name])
        return Part(tensor, tuple(self.nodes[place] for place in sorted(nodes)), tuple(inputs), tuple(used))


def read_by(node: NodeProto) -> Iterator[str]:
    """Yield the names of all values that a node reads, with outer values that its nested graphs read."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            yield from _iter_free(graph)


def _iter_free(graph: GraphProto) -> Iterator[str]:
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        yield from (name for name in read_by(node) if name not in own)
        own.update(node.output)
