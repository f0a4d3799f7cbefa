"""Copies of weights that several nodes read, where ONNX Runtime's quantizers would spoil a shared weight.

As of 1.31 the dynamic quantizer transposes the weights of a Gemm or LSTM in place, once for each node that reads them.
The static quantizer gives a weight scales along one axis, and the nodes that read it may need them along different
axes.
"""

from __future__ import annotations

from collections.abc import Callable

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from orun.stages._graph.names import list_scopes, make_unique
from orun.stages._graph.nodes import attribute, find_channel_axis, list_reads, walk_nodes

WEIGHT = 1  # index of the weight among the inputs of a product
LSTM_WEIGHTS = (1, 2)  # indices of the weights among the inputs of an LSTM


def separate_transposed(model: ModelProto) -> None:
    """Give each Gemm and LSTM weights of its own, in place, if the dynamic quantizer transposes them."""

    def find_owner(node: NodeProto, place: int) -> str:
        in_gemm = node.op_type == "Gemm" and place == WEIGHT and attribute(node, "transB", 0)
        in_lstm = node.op_type == "LSTM" and place in LSTM_WEIGHTS
        return next(filter(None, node.output)) if in_gemm or in_lstm else "the other nodes"

    _separate(model, find_owner)


def separate_axes(model: ModelProto) -> None:
    """Let products share a weight, in place, only if its output channels are along the same axis for all of them."""

    def find_axis(node: NodeProto, place: int) -> int | None:
        return find_channel_axis(node) if place == WEIGHT else None

    _separate(model, find_axis)


def _separate(model: ModelProto, find_group: Callable[[NodeProto, int], str | int | None]) -> None:
    """Copy weights, in place, so that only nodes of one group share a weight; nodes without a group read any."""
    scopes = list_scopes(model)
    names = {tensor.name for graph in scopes for tensor in graph.initializer}
    names |= {name for graph in scopes for node in graph.node for name in (*list_reads(node), *node.output)}
    for scope in scopes:
        weights = {tensor.name: tensor for tensor in scope.initializer}
        held: dict[str, dict[str | int, str]] = {}  # by weight and group, the weight that the group reads
        for node in walk_nodes(scope):
            for place, name in enumerate(node.input):
                group = find_group(node, place) if name in weights else None
                if group is None:
                    continue
                groups = held.setdefault(name, {})
                if group not in groups:
                    groups[group] = _copy(scope, weights[name], names) if groups else name
                node.input[place] = groups[group]


def _copy(graph: GraphProto, weight: TensorProto, names: set[str]) -> str:
    """Add a copy of a weight to a graph; return its name, which none of the names is."""
    name = make_unique(weight.name, names)
    copy = graph.initializer.add()
    copy.CopyFrom(weight)
    copy.name = name
    return name
