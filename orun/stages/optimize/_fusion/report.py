"""Report of fused operators, and of attentions left unfused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx_ir as ir
from onnx import ModelProto
from onnx_ir.passes import common

from orun.stages._graph.io import nodes
from orun.stages.optimize._fusion import census
from orun.stages.optimize.transformer import COUNTED

ATTENTION = ("Attention", "MultiHeadAttention", "GroupQueryAttention")


def count(model: ModelProto) -> Counter[str]:
    """Nodes by operator type."""
    return Counter(node.op_type for node in nodes(model))


def layers(model: ModelProto) -> Iterator[str]:
    """Each fused operator in the order of the graph: its type, what it yields, and the first weight that it reads."""
    stored = {tensor.name for tensor in model.graph.initializer}
    for node in nodes(model):
        if node.op_type in COUNTED:
            weight = next((name for name in node.input if name in stored), "")
            yield f"{node.op_type}: {node.output[0]}" + (f", by {weight}" if weight else "")


def unfused(model: ModelProto) -> list[str]:
    """What yields an attention that is still in pieces, in branches and loops as well; see `census`."""
    graph = ir.from_proto(model)
    common.InlinePass()(graph)
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(graph)
    found = (product.outputs[0].name for _, product in census.attentions(graph.graph.all_nodes()))
    return [str(name) for name in dict.fromkeys(found)]
