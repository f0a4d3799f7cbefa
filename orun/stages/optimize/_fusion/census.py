"""Census of a graph: fused operators, and attentions that are still in pieces, found by what the graph computes.

An attention is a softmax over scores. The scores come from a product of queries and keys, and the weights of the
softmax are multiplied by values. Between the two products any operator may stand that is no layer of the model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import onnx_ir as ir
from onnx import ModelProto
from onnx_ir.passes import common

from orun.stages._graph.io import iter_nodes
from orun.stages.optimize._fusion import COUNTED
from orun.stages.optimize._fusion.graph import find_constant, find_producer

ATTENTION = ("Attention", "MultiHeadAttention", "GroupQueryAttention")

# Parts of the names of operators; ONNX Runtime has many variants of each. A dynamic quantization begins a layer.
PRODUCT = re.compile("MatMul|Gemm|Einsum")
LAYER = re.compile("Attention|Conv|DynamicQuantizeLinear|GRU|LSTM|RNN")
# Operators whose results are sizes, places or truth values, and so no scores or weights.
FACTS = frozenset(
    {
        "And", "ArgMax", "ArgMin", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual",
        "NonZero", "Not", "Or", "Shape", "Size", "Xor",
    }
)  # fmt: skip
# Operators that move or round the elements of their first input.
MOVES = frozenset(
    {
        "Cast", "DequantizeLinear", "Dropout", "Expand", "Flatten", "Identity", "Neg", "Pad", "QuantizeLinear",
        "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze",
    }
)  # fmt: skip
ROUTED = 2  # axes of the weight of a linear layer


def count_operators(model: ModelProto) -> Counter[str]:
    """Count nodes by operator type."""
    return Counter(node.op_type for node in iter_nodes(model))


def describe_layers(model: ModelProto) -> Iterator[str]:
    """Yield a line for each fused operator: its type, first output and first weight."""
    stored = {tensor.name for tensor in model.graph.initializer}
    for node in iter_nodes(model):
        if node.op_type in COUNTED:
            weight = next((name for name in node.input if name in stored), "")
            yield f"{node.op_type}: {node.output[0]}" + (f", by {weight}" if weight else "")


def find_unfused(model: ModelProto) -> list[str]:
    """Return the results of attentions still in pieces, including those in branches and loops."""
    graph = ir.from_proto(model)
    common.InlinePass()(graph)
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(graph)
    names = (product.outputs[0].name for _, product in find_attentions(graph.graph.all_nodes()))
    return [str(name) for name in dict.fromkeys(names)]


def find_attentions(graph: Iterable[ir.Node]) -> Iterator[tuple[ir.Node, ir.Node]]:
    """Yield each softmax over the scores of an attention, with the product of its weights and the values."""
    for node in graph:
        if _is_softmax(node) and _has_scores(node):
            yield from ((node, product) for product in _iter_weighted_products(node))


def _is_softmax(node: ir.Node) -> bool:
    """Return whether a node is a softmax or the last of one in pieces: exponentials divided by what sums them."""
    if node.op_type == "Div" and (exponential := find_producer(node.inputs[0], "Exp")) is not None:
        return any(reader.op_type == "ReduceSum" for reader, _ in exponential.outputs[0].uses())
    return node.op_type in ("Softmax", "LogSoftmax") and not node.domain


def _iter_weighted_products(softmax: ir.Node) -> Iterator[ir.Node]:
    """Yield the products of a softmax's result with other computed values."""
    waiting, seen = [softmax.outputs[0]], set[ir.Node]()
    while waiting:
        value = waiting.pop()
        for node, place in value.uses():
            if node in seen:
                continue
            seen.add(node)
            if factors := _list_factors(node):
                if any(not _is_fixed(other) for number, other in enumerate(factors) if number != place):
                    yield node
            elif _passes(node):
                waiting += node.outputs


def _has_scores(softmax: ir.Node) -> bool:
    """Return whether the input of a softmax comes from a product of queries and keys."""
    waiting, seen = [softmax.inputs[0]], set[ir.Node]()
    while waiting:
        value = waiting.pop()
        node = value.producer() if value is not None else None
        if node is None or node in seen:
            continue
        seen.add(node)
        if factors := _list_factors(node):
            if _multiplies_keys(factors):
                return True
        elif _passes(node):
            waiting += node.inputs
    return False


def _passes(node: ir.Node) -> bool:
    """Return whether an operator that is no product may stand between the products of an attention."""
    return not LAYER.search(node.op_type) and node.op_type not in FACTS


def _list_factors(node: ir.Node) -> Sequence[ir.Value | None]:
    """Return what a product multiplies: the operands of a matrix product, or of a Mul that is summed afterwards."""
    if PRODUCT.search(node.op_type):
        factors = node.inputs if node.op_type == "Einsum" else node.inputs[:2]
        return factors if len(factors) > 1 else ()  # an Einsum of one operand moves its elements
    summed = node.op_type == "Mul" and {reader.op_type for reader, _ in node.outputs[0].uses()} == {"ReduceSum"}
    return node.inputs if summed and node.inputs[0] is not node.inputs[1] else ()


def _multiplies_keys(factors: Sequence[ir.Value | None]) -> bool:
    """Return whether the factors hold computed keys. The first may be learned queries, as in attention pooling."""
    computed = [value for value in factors if not _is_fixed(value)]
    held = find_constant(factors[0])
    return len(computed) > 1 or (len(computed) == 1 and held is not None and held.ndim > ROUTED)


def _is_fixed(value: ir.Value | None) -> bool:
    """Return whether a value is the same for all inputs of the model: a weight, perhaps moved or rounded."""
    while value is not None and find_constant(value) is None:
        node = value.producer()
        if node is None or node.op_type not in MOVES | {"Constant"}:
            return False
        if node.op_type == "Constant":
            return True
        value = node.inputs[0]
    return value is not None
