"""What tf2onnx leaves of TensorFlow in a model: operators that ONNX does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orun.errors import StageFailed
from orun.stages.contract import Context

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from onnx import ModelProto, NodeProto

ONES = frozenset({"Erfc", "Expm1", "Log1p"})  # with a one in them


def mend(context: Context, model: ModelProto) -> None:
    """Write such operators with those of ONNX.

    Raises:
        StageFailed: when there are others; tf2onnx, as of 1.17, only notes them in its log.
    """
    from onnx import GraphProto

    from orun.stages.onnx.io import graphs

    for graph in graphs(model):
        if isinstance(graph, GraphProto):
            types = {value.name: value.type.tensor_type.elem_type for value in graph.value_info}
            nodes = [made for node in graph.node for made in _written(node, types)]
            del graph.node[:]
            graph.node.extend(nodes)
    if unknown := sorted(set(_unknown(model))):
        raise StageFailed(
            context.stage,
            f"tf2onnx cannot convert {', '.join(unknown)}",
            why="ONNX has no operator of that name, and tf2onnx leaves TensorFlow's in its place",
            hint="write it with other operations in the model; the log says where it stands",
        )


def _written(node: NodeProto, types: Mapping[str, int]) -> Iterator[NodeProto]:
    """A node of one of those operators by others: `1 - erf(x)`, `exp(x) - 1`, `log(1 + x)`; else itself."""
    from onnx import TensorProto, helper

    if node.op_type not in ONES:
        yield node
        return
    (source,), (result,) = node.input, node.output
    one, inner = f"{result}/one", f"{result}/inner"
    value = helper.make_tensor(one, types.get(result, TensorProto.FLOAT), [], [1.0])
    yield helper.make_node("Constant", [], [one], value=value)
    if node.op_type == "Erfc":  # in Keras's exact GELU
        yield helper.make_node("Erf", [source], [inner])
        yield helper.make_node("Sub", [one, inner], [result], name=node.name)
    elif node.op_type == "Expm1":
        yield helper.make_node("Exp", [source], [inner])
        yield helper.make_node("Sub", [inner, one], [result], name=node.name)
    else:
        yield helper.make_node("Add", [source, one], [inner])
        yield helper.make_node("Log", [inner], [result], name=node.name)


def _unknown(model: ModelProto) -> Iterator[str]:
    from onnx import defs

    from orun.stages.onnx.domains import STANDARD
    from orun.stages.onnx.io import nodes

    version = max((item.version for item in model.opset_import if item.domain in STANDARD), default=1)
    for node in nodes(model):
        if node.domain in STANDARD and not defs.has(node.op_type, version, ""):
            yield node.op_type
