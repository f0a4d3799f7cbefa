"""Weights that a model stores once and reads twice, as a table of words that is also the last product, turned."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import ModelProto, NodeProto, TensorProto

LEAST = 1024  # numbers of a weight that are worth a node


def tied(model: ModelProto) -> dict[str, NodeProto]:
    """The Transpose nodes of a model's own weights that something else reads as well, by what they yield.

    Optimizers fold them, and store such a weight a second time.
    """
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    readers: dict[str, list[NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    return {
        node.output[0]: node
        for node in model.graph.node
        if node.op_type == "Transpose"
        and node.input[0] in stored
        and _count(stored[node.input[0]]) >= LEAST
        and any(reader.op_type != "Transpose" for reader in readers[node.input[0]])
    }


def tie(model: ModelProto, nodes: Mapping[str, NodeProto]) -> list[str]:
    """Put such nodes back, in place, where a model stores what they yield beside the weight; names of the weights.

    Args:
        model: made from the one that they are of.
        nodes: of `tied`.
    """
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    back = [
        node
        for name, node in nodes.items()
        if name in stored and node.input[0] in stored and _count(stored[name]) == _count(stored[node.input[0]])
    ]
    copies = {node.output[0] for node in back}
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in copies]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    nodes_after = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*back, *nodes_after])
    return [node.input[0] for node in back]


def _count(tensor: TensorProto) -> int:
    count = 1
    for size in tensor.dims:
        count *= size
    return count
