"""Work-around for float16 products of a stored weight and a Transpose, on which ONNX Runtime crashes.

ONNX Runtime fuses such a product with a Transpose that moves the first axis to the last place or the one before. Its
CPU has no such operator in float16, and if the weight has fewer axes than the other input, NchwcTransformer ends with a
segmentation fault, as of 1.31. This happens to every recurrent layer with the batch first and a linear layer after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from orun.stages._graph.domains import find_standard_opset
from orun.stages._graph.nodes import attribute, list_needed, set_items, sort_nodes

SAME_RANK = ("Cast", "Identity", "Transpose")  # operators that a stored weight goes through


@dataclass(frozen=True)
class Product:
    """MatMul of a stored weight and the result of a Transpose.

    Attributes:
        node: the MatMul.
        side: index of its input that the Transpose made.
        transpose: the Transpose, directly before it or before casts.
        order: order of the axes after the Transpose.
        axes: number of axes of the weight.
    """

    node: NodeProto
    side: int
    transpose: NodeProto
    order: Sequence[int]
    axes: int

    @property
    def can_swap(self) -> bool:
        """Whether the Transpose may as well follow the product."""
        matrix = 2
        direct = self.node.input[0] == self.transpose.output[0]
        return direct and self.axes == matrix and self.order[-1] == len(self.order) - 1


def rewrite_products(model: ModelProto) -> None:
    """Rewrite such products, in place, so that ONNX Runtime does not fuse them; the model computes the same.

    The Transpose moves behind the product if possible. Otherwise the weight gets axes of size 1.
    """
    graph = model.graph
    sort_nodes(graph)
    while swappable := [product for product in _iter_products(graph) if product.can_swap]:  # products may be in a row
        for product in swappable:
            node, transpose = product.node, product.transpose
            result = f"{node.output[0]}/before_transpose"
            graph.node.add(op_type="Transpose", input=[result], output=node.output, attribute=transpose.attribute)
            node.input[0], node.output[0] = transpose.input[0], result
        unread = {product.transpose.output[0] for product in swappable} - list_needed(graph)
        set_items(graph.node, (node for node in graph.node if unread.isdisjoint(node.output)))
    for product in list(_iter_products(graph)):
        if product.axes < len(product.order):
            _widen(model, product)
    sort_nodes(graph)


def _iter_products(graph: GraphProto) -> Iterator[Product]:
    ranks, makers = _infer_ranks(graph), {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        for side in (0, 1) if node.op_type == "MatMul" else ():
            maker = makers.get(node.input[side])
            while maker is not None and maker.op_type == "Cast":  # ONNX Runtime looks behind casts too
                maker = makers.get(maker.input[0])
            axes = ranks.get(node.input[1 - side])
            order = attribute(maker, "perm", []) if maker is not None and maker.op_type == "Transpose" else []
            if maker is not None and axes and _is_fused(order):
                yield Product(node, side, maker, order, axes)


def _infer_ranks(graph: GraphProto) -> dict[str, int]:
    """Return the number of axes of stored weights, and of values that ONNX Runtime computes from them beforehand."""
    inputs = {value.name for value in graph.input}
    ranks = {tensor.name: len(tensor.dims) for tensor in graph.initializer if tensor.name not in inputs}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            ranks[node.output[0]] = len(node.attribute[0].t.dims)
        elif node.op_type in SAME_RANK and node.input[0] in ranks:
            ranks[node.output[0]] = ranks[node.input[0]]
    return ranks


def _is_fused(order: Sequence[int]) -> bool:
    matrix, count = 2, len(order)
    return count > matrix and list(order) in ([*range(1, count - 1), 0, count - 1], [*range(1, count), 0])


def _widen(model: ModelProto, product: Product) -> None:
    """Give the weight as many axes as the other input."""
    node, place = product.node, 1 - product.side
    weight, result, vector = node.input[place], node.output[0], product.axes == 1
    missing = -1 if place else -2  # the axis that a vector lacks, as the right or the left side of a product
    new = [*range(len(product.order) - product.axes - vector), *([missing] if vector else [])]
    node.input[place] = f"{result}/wide_weight"
    _reshape(model, "Unsqueeze", weight, node.input[place], new)
    if vector:
        node.output[0] = f"{result}/wide"
        _reshape(model, "Squeeze", node.output[0], result, [missing])


def _reshape(model: ModelProto, kind: str, value: str, result: str, axes: list[int]) -> None:
    """Add a node that adds or removes axes of size 1, which are an attribute before operator set 13."""
    as_input = 13
    if find_standard_opset(model) < as_input:
        model.graph.node.append(helper.make_node(kind, [value], [result], axes=axes))
        return
    stored = numpy_helper.from_array(np.array(axes, dtype=np.int64), f"{result}/axes")
    model.graph.initializer.append(stored)
    model.graph.node.append(helper.make_node(kind, [value, stored.name], [result]))
