"""Work-around for products of stored weights and a Transpose in float16, on which ONNX Runtime crashes.

It makes one operator of such a product and a Transpose that moves the first axis to the last or the one before. Its CPU
has none of that in float16, and where the weight has fewer axes than the other, NchwcTransformer ends with a
segmentation fault, as of 1.31: so would every recurrent layer whose batch comes first and that a linear one follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from orun.stages._graph.order import reads, sort_nodes

SAME_RANK = ("Cast", "Identity", "Transpose")  # operators that a stored weight goes through


@dataclass(frozen=True)
class Product:
    """A MatMul of a stored weight and what a Transpose made.

    Attributes:
        node: the MatMul.
        side: which of its inputs the Transpose made.
        transpose: the Transpose, right before it or before casts.
        axes: how many the weight has.
    """

    node: NodeProto
    side: int
    transpose: NodeProto
    axes: int

    @property
    def order(self) -> list[int]:
        """Of the axes that the Transpose makes."""
        return _order(self.transpose)

    @property
    def turns(self) -> bool:
        """Whether the same comes of multiplying first and moving axes then."""
        matrix = 2
        direct = self.node.input[0] == self.transpose.output[0]
        return direct and self.axes == matrix and self.order[-1] == len(self.order) - 1


def untangle(model: ModelProto) -> None:
    """Put such products otherwise, in place, so that the same comes out.

    The Transpose goes behind the product where it can. Elsewhere the weight gets axes of size 1.
    """
    graph = model.graph
    sort_nodes(graph)
    while turned := [one for one in _products(graph) if one.turns]:  # again: behind one product may stand another
        for one in turned:
            result, order = f"{one.node.output[0]}/before_transpose", one.transpose.attribute
            graph.node.add(op_type="Transpose", input=[result], output=one.node.output, attribute=order)
            one.node.input[0], one.node.output[0] = one.transpose.input[0], result
        _drop(graph, {one.transpose.output[0] for one in turned})
    for one in list(_products(graph)):
        if one.axes < len(one.order):
            _widen(model, one)
    sort_nodes(graph)


def _products(graph: GraphProto) -> Iterator[Product]:
    ranks, makers = _ranks(graph), {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        for side in (0, 1) if node.op_type == "MatMul" else ():
            maker = makers.get(node.input[side])
            while maker is not None and maker.op_type == "Cast":  # behind which ONNX Runtime looks
                maker = makers.get(maker.input[0])
            axes = ranks.get(node.input[1 - side])
            if maker is not None and axes and _is_fused(maker):
                yield Product(node, side, maker, axes)


def _ranks(graph: GraphProto) -> dict[str, int]:
    """How many axes stored weights have, and what ONNX Runtime makes of one of them beforehand."""
    given = {value.name for value in graph.input}
    found = {tensor.name: len(tensor.dims) for tensor in graph.initializer if tensor.name not in given}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            found[node.output[0]] = len(node.attribute[0].t.dims)
        elif node.op_type in SAME_RANK and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
    return found


def _is_fused(node: NodeProto) -> bool:
    order, matrix = _order(node), 2
    count = len(order)
    return count > matrix and order in ([*range(1, count - 1), 0, count - 1], [*range(1, count), 0])


def _order(node: NodeProto) -> list[int]:
    if node.op_type != "Transpose":
        return []
    return next((list(item.ints) for item in node.attribute if item.name == "perm"), [])


def _widen(model: ModelProto, one: Product) -> None:
    """Give the weight as many axes as what it is multiplied with."""
    node, place = one.node, 1 - one.side
    weight, result, vector = node.input[place], node.output[0], one.axes == 1
    missing = -1 if place else -2  # the axis that a vector lacks, as the right or the left side of a product
    new = [*range(len(one.order) - one.axes - vector), *([missing] if vector else [])]
    node.input[place] = f"{result}/wide_weight"
    _reshape(model, "Unsqueeze", weight, node.input[place], new)
    if vector:
        node.output[0] = f"{result}/wide"
        _reshape(model, "Squeeze", node.output[0], result, [missing])


def _reshape(model: ModelProto, kind: str, value: str, result: str, axes: list[int]) -> None:
    """Add a node that adds or removes axes of size 1, which are an attribute before operator set 13."""
    as_input = 13
    version = next(item.version for item in model.opset_import if item.domain in ("", "ai.onnx"))
    if version < as_input:
        model.graph.node.append(helper.make_node(kind, [value], [result], axes=axes))
        return
    stored = numpy_helper.from_array(np.array(axes, dtype=np.int64), f"{result}/axes")
    model.graph.initializer.append(stored)
    model.graph.node.append(helper.make_node(kind, [value, stored.name], [result]))


def _drop(graph: GraphProto, names: set[str]) -> None:
    """Remove the nodes that yield these, unless something else reads it."""
    read = {name for node in graph.node for name in reads(node)} | {value.name for value in graph.output}
    kept = [node for node in graph.node if (names - read).isdisjoint(node.output)]
    del graph.node[:]
    graph.node.extend(kept)
