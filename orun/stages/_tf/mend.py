"""Repair of operators that tf2onnx leaves in a model and ONNX does not have."""

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

    from orun.stages._graph.io import graphs

    for graph in graphs(model):
        if isinstance(graph, GraphProto):
            values = (*graph.value_info, *graph.input)
            types = {value.name: value.type.tensor_type.elem_type for value in values}
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

    if node.op_type == "Bucketize":
        yield from _buckets(node, types.get(node.input[0], TensorProto.FLOAT))
        return
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


def _buckets(node: NodeProto, kind: int) -> Iterator[NodeProto]:
    """How many of the boundaries, which rise, each value reaches: in Keras's Discretization."""
    from onnx import TensorProto, helper

    (source,), (result,) = node.input, node.output
    (bounds,) = (list(one.floats) for one in node.attribute if one.name == "boundaries")
    constants = {
        "axis": helper.make_tensor(f"{result}/axis", TensorProto.INT64, [1], [-1]),
        "bounds": helper.make_tensor(f"{result}/bounds", kind, [len(bounds)], bounds),
    }
    for name, value in constants.items():
        yield helper.make_node("Constant", [], [f"{result}/{name}"], value=value)
    yield helper.make_node("Unsqueeze", [source, f"{result}/axis"], [f"{result}/one"])
    yield helper.make_node("GreaterOrEqual", [f"{result}/one", f"{result}/bounds"], [f"{result}/reached"])
    yield helper.make_node("Cast", [f"{result}/reached"], [f"{result}/counted"], to=TensorProto.INT32)
    yield helper.make_node("ReduceSum", [f"{result}/counted", f"{result}/axis"], [result], name=node.name, keepdims=0)


def _unknown(model: ModelProto) -> Iterator[str]:
    from onnx import defs

    from orun.stages._graph.domains import STANDARD
    from orun.stages._graph.io import nodes

    version = max((item.version for item in model.opset_import if item.domain in STANDARD), default=1)
    for node in nodes(model):
        if node.domain in STANDARD and not defs.has(node.op_type, version, ""):
            yield node.op_type
