"""Census of a graph: fused operators, and attentions that are still in pieces, found by what the graph computes.

An attention is a softmax over scores. The scores come from a product of queries and keys, and the weights of the
softmax are multiplied by values. Scales, biases, masks, a soft cap and reshapes may stand between the two products.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import onnx_ir as ir
from onnx import ModelProto
from onnx_ir.passes import common

from orun.stages._graph.io import nodes
from orun.stages.optimize._fusion import COUNTED
from orun.stages.optimize._fusion.graph import constant

ATTENTION = ("Attention", "MultiHeadAttention", "GroupQueryAttention")

PRODUCTS = frozenset({"MatMul", "Einsum", "FusedMatMul", "Gemm", "TransposeMatMul"})
# Operators that move or round the elements of their first input.
MOVES = frozenset(
    {
        "Cast", "DequantizeLinear", "Dropout", "Expand", "Flatten", "Identity", "Neg", "Pad", "QuantizeLinear",
        "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze",
    }
)  # fmt: skip
ELEMENTWISE = frozenset(
    {
        "Abs", "Add", "Clip", "Concat", "Div", "Exp", "Max", "Min", "Mul", "Pow", "Relu", "Sigmoid", "Sub", "Sum",
        "Tanh", "Where",
    }
)  # fmt: skip
PASSED = MOVES | ELEMENTWISE
ROUTED = 2  # axes of the weight of a linear layer


def count_operators(model: ModelProto) -> Counter[str]:
    """Count nodes by operator type."""
    return Counter(node.op_type for node in nodes(model))


def describe_layers(model: ModelProto) -> Iterator[str]:
    """Yield a line for each fused operator: its type, first output and first weight."""
    stored = {tensor.name for tensor in model.graph.initializer}
    for node in nodes(model):
        if node.op_type in COUNTED:
            weight = next((name for name in node.input if name in stored), "")
            yield f"{node.op_type}: {node.output[0]}" + (f", by {weight}" if weight else "")


def find_unfused(model: ModelProto) -> list[str]:
    """Return the results of attentions still in pieces, including those in branches and loops."""
    graph = ir.from_proto(model)
    common.InlinePass()(graph)
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(graph)
    names = (product.outputs[0].name for _, product in attentions(graph.graph.all_nodes()))
    return [str(name) for name in dict.fromkeys(names)]


def attentions(graph: Iterable[ir.Node]) -> Iterator[tuple[ir.Node, ir.Node]]:
    """Yield each softmax over the scores of an attention, with the product of its weights and the values."""
    for node in graph:
        if node.op_type == "Softmax" and not node.domain and _scores(node):
            yield from ((node, product) for product in _weighted(node))


def _weighted(softmax: ir.Node) -> Iterator[ir.Node]:
    """Yield the products of a softmax's result with other computed values."""
    waiting, seen = [softmax.outputs[0]], set[ir.Node]()
    while waiting:
        value = waiting.pop()
        for node, place in value.uses():
            if node in seen:
                continue
            seen.add(node)
            if node.op_type in PRODUCTS:
                if any(not _fixed(other) for number, other in enumerate(node.inputs[:2]) if number != place):
                    yield node
            elif node.op_type in PASSED:
                waiting += node.outputs


def _scores(softmax: ir.Node) -> bool:
    """Return whether the input of a softmax comes from a product of queries and keys."""
    waiting, seen = [softmax.inputs[0]], set[ir.Node]()
    while waiting:
        value = waiting.pop()
        node = value.producer() if value is not None else None
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.op_type in PRODUCTS:
            if _multiplies_keys(node):
                return True
        elif node.op_type in MOVES:
            waiting.append(node.inputs[0])
        elif node.op_type in ELEMENTWISE:
            waiting += node.inputs[1:] if node.op_type == "Where" else node.inputs
    return False


def _multiplies_keys(product: ir.Node) -> bool:
    """Return whether a product multiplies computed keys; the queries may be learned, as in attention pooling."""
    query, key = product.inputs[:2]
    if _fixed(key):
        return False
    held = constant(query)
    return not _fixed(query) or (held is not None and held.ndim > ROUTED)


def _fixed(value: ir.Value | None) -> bool:
    """Return whether a value is the same for all inputs of the model: a weight, perhaps moved or rounded."""
    while value is not None and constant(value) is None:
        node = value.producer()
        if node is None or node.op_type not in MOVES | {"Constant"}:
            return False
        if node.op_type == "Constant":
            return True
        value = node.inputs[0]
    return value is not None
