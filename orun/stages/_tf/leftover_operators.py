"""Replacement of operators of TensorFlow that tf2onnx leaves in a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx import ModelProto, NodeProto, TensorProto, defs, helper

from orun.stages._graph.domains import STANDARD, find_standard_opset
from orun.stages._graph.io import iter_nodes
from orun.stages._graph.names import list_scopes
from orun.stages._graph.nodes import set_items
from orun.stages.contract import Context

WITH_ONE = frozenset({"Erfc", "Expm1", "Log1p"})  # operators whose replacement reads the constant 1


def replace_leftover_operators(context: Context, model: ModelProto) -> None:
    """Replace operators of TensorFlow that tf2onnx left with those of ONNX, in place.

    Raises:
        StageFailed: when others are left; tf2onnx 1.17 only logs them.
    """
    for graph in list_scopes(model):
        values = (*graph.value_info, *graph.input, *graph.output)
        types = {value.name: value.type.tensor_type.elem_type for value in values}
        set_items(graph.node, (part for node in graph.node for part in _replace_node(node, types)))
    version = find_standard_opset(model)
    operators = {node.op_type for node in iter_nodes(model) if node.domain in STANDARD}
    if unknown := sorted(name for name in operators if not defs.has(name, version, "")):
        raise context.failed(
            f"tf2onnx cannot convert {', '.join(unknown)}",
            why="ONNX has no operator of that name, and tf2onnx leaves TensorFlow's in its place",
            hint="write it with other operations in the model; the log says where it stands",
        )


def _replace_node(node: NodeProto, types: Mapping[str, int]) -> Iterator[NodeProto]:
    """Yield the nodes in place of a node: `1 - erf(x)`, `exp(x) - 1`, `log(1 + x)`, or the node itself."""
    if node.op_type == "Bucketize":
        yield from _build_buckets(node, types.get(node.input[0], TensorProto.FLOAT))
        return
    if node.op_type not in WITH_ONE:
        yield node
        return
    (source,), (result,) = node.input, node.output
    unit, inner = f"{result}/one", f"{result}/inner"
    value = helper.make_tensor(unit, types.get(result, TensorProto.FLOAT), [], [1.0])
    yield helper.make_node("Constant", [], [unit], value=value)
    if node.op_type == "Erfc":  # in Keras's exact GELU
        yield helper.make_node("Erf", [source], [inner])
        yield helper.make_node("Sub", [unit, inner], [result], name=node.name)
    elif node.op_type == "Expm1":
        yield helper.make_node("Exp", [source], [inner])
        yield helper.make_node("Sub", [inner, unit], [result], name=node.name)
    else:
        yield helper.make_node("Add", [source, unit], [inner])
        yield helper.make_node("Log", [inner], [result], name=node.name)


def _build_buckets(node: NodeProto, kind: int) -> Iterator[NodeProto]:
    """Yield nodes that count the boundaries, in rising order, that each value reaches: Keras's Discretization."""
    (source,), (result,) = node.input, node.output
    (bounds,) = (list(item.floats) for item in node.attribute if item.name == "boundaries")
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
