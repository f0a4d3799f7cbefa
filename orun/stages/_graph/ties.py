"""Tied weights: stored once and read twice, such as an embedding table that is also, transposed, the last product."""

from __future__ import annotations

import math
from collections.abc import Mapping

from onnx import ModelProto, NodeProto

from orun.stages._graph.nodes import list_readers, set_items

LEAST = 1024  # values; a smaller weight is not worth a node


def find_tied(model: ModelProto) -> dict[str, NodeProto]:
    """Return the Transpose nodes of weights that other nodes read too, by their output.

    Optimizers fold them, and store such a weight a second time.
    """
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    readers = list_readers(model.graph)
    return {
        node.output[0]: node
        for node in model.graph.node
        if node.op_type == "Transpose"
        and node.input[0] in stored
        and math.prod(stored[node.input[0]].dims) >= LEAST
        and any(reader.op_type != "Transpose" for reader in readers[node.input[0]])
    }


def tie(model: ModelProto, nodes: Mapping[str, NodeProto]) -> list[str]:
    """Put the nodes that `find_tied` found before back into the optimized model; return the names of their weights."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    restored = [
        node
        for name, node in nodes.items()
        if name in stored
        and node.input[0] in stored
        and math.prod(stored[name].dims) == math.prod(stored[node.input[0]].dims)
    ]
    copies = {node.output[0] for node in restored}
    set_items(model.graph.initializer, (tensor for tensor in model.graph.initializer if tensor.name not in copies))
    set_items(model.graph.node, (*restored, *model.graph.node))
    return [node.input[0] for node in restored]
