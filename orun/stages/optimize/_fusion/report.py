"""Report of fused operators, and of attentions left unfused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx_ir as ir
from onnx import ModelProto
from onnx_ir.passes import common

from orun.stages._graph.io import nodes
from orun.stages.optimize._fusion import COUNTED, census

ATTENTION = ("Attention", "MultiHeadAttention", "GroupQueryAttention")


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
    """Return the results of attentions still in pieces, including those in branches and loops; see `census`."""
    graph = ir.from_proto(model)
    common.InlinePass()(graph)
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(graph)
    names = (product.outputs[0].name for _, product in census.attentions(graph.graph.all_nodes()))
    return [str(name) for name in dict.fromkeys(names)]
