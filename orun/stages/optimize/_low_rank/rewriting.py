"""Nodes of a factorised layer: two in the place of the former."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from orun.measure.dataset import Array
from orun.stages._graph.names import make_unique
from orun.stages._graph.nodes import set_items
from orun.stages.optimize._low_rank.layers import Layer

NEUTRAL = {"kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 0}  # along an axis that a convolution leaves alone


def replace_layers(model: ModelProto, layers: Sequence[Layer], factors: Mapping[int, tuple[Array, Array]]) -> None:
    """Replace layers by two nodes each, in place; the second has the name and the bias of the former.

    The left and right factor of each layer to replace is given by its index.
    """
    graph = model.graph
    names = {name for node in graph.node for name in (node.name, *node.input, *node.output)}
    replaced = {layers[index].node.output[0]: (layers[index], pair) for index, pair in factors.items()}
    gone = {layer.weight for layer, _ in replaced.values()}
    nodes: list[NodeProto] = []
    tensors = [tensor for tensor in graph.initializer if tensor.name not in gone]
    for node in graph.node:
        if not node.output or node.output[0] not in replaced:
            nodes.append(node)
            continue
        layer, (left, right) = replaced[node.output[0]]
        weights = [make_unique(f"{layer.weight}_{side}", names) for side in ("left", "right")]
        between = make_unique(f"{node.output[0]}_rank", names)
        first, second = _build_nodes(layer, between, weights, separated=len(left) != layer.list_row_counts()[0])
        first.name, second.name = make_unique(f"{node.name or node.output[0]}/rank", names), node.name
        nodes += first, second
        for name, array in zip(weights, _reshape_factors(layer, left, right), strict=True):
            tensors.append(numpy_helper.from_array(np.ascontiguousarray(array, layer.array.dtype), name))
    set_items(graph.node, nodes)
    set_items(graph.initializer, tensors)
    set_items(graph.value_info, (value for value in graph.value_info if value.name not in gone))


def _build_nodes(layer: Layer, between: str, weights: Sequence[str], *, separated: bool) -> tuple[NodeProto, NodeProto]:
    """Return both nodes; `separated` are a vertical and a horizontal convolution."""
    node = layer.node
    attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
    first, second = {}, {name: value for name, value in attributes.items() if name != "transB"}
    if layer.is_convolution:
        attributes["kernel_shape"] = list(layer.array.shape[2:])
        first, second = attributes, {"kernel_shape": [1] * (layer.array.ndim - 2)}
    if separated:
        first, second = _take_axis(attributes, 0), _take_axis(attributes, 1)
    operator = "Conv" if layer.is_convolution else "MatMul"
    return (
        helper.make_node(operator, [node.input[0], weights[0]], [between], **first),
        helper.make_node(node.op_type, [between, weights[1], *node.input[2:]], list(node.output), **second),
    )


def _take_axis(attributes: Mapping[str, Any], axis: int) -> dict[str, Any]:
    """Return the attributes of a convolution over images along one of its axes."""
    return {
        name: [value if place % 2 == axis else NEUTRAL[name] for place, value in enumerate(values)]
        if name in NEUTRAL
        else values
        for name, values in attributes.items()
    }


def _reshape_factors(layer: Layer, left: Array, right: Array) -> tuple[Array, Array]:
    if not layer.is_convolution:
        return left, right
    channels, kernel = layer.array.shape[1], layer.array.shape[2:]
    rank, outputs = len(right), len(layer.array)
    if len(left) != layer.list_row_counts()[0]:
        height, width = kernel
        across = right.reshape(rank, width, outputs).transpose(2, 0, 1)
        return left.T.reshape(rank, channels, height, 1), across[:, :, None]
    return left.T.reshape(rank, channels, *kernel), right.T.reshape(outputs, rank, *(1 for _ in kernel))
