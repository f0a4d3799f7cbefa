"""A model in float16, by ONNX Runtime's converter, with what that leaves behind put right."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from onnx import GraphProto, ModelProto
from onnxruntime.transformers.float16 import convert_float_to_float16

from orun.stages._graph.io import graphs
from orun.stages._graph.order import reads
from orun.stages._graph.turned import untangle

BY_NODE = re.compile(r"float16/\d+_(input|output)_cast\d+")  # a cast's name in ONNX Runtime 1.24


def to_float16(
    model: ModelProto, types: Sequence[str], nodes: Sequence[str], kept: Collection[str], *, keep_io_types: bool
) -> ModelProto:
    """The converted model.

    Args:
        model: with the element type of every value of its main graph declared.
        types: of operators that stay float32.
        nodes: names of nodes that do.
        kept: values that are yielded by nodes which stay float32.
        keep_io_types: inputs and outputs stay float32.
    """
    names, blocked = _name(model, {*nodes}, {*kept})
    passed = _take_passed(model)
    converted: ModelProto = convert_float_to_float16(
        model,
        keep_io_types=keep_io_types,
        disable_shape_infer=True,
        op_block_list=[*types],
        node_block_list=blocked,
    )
    _name_casts(converted, names)
    for graph in graphs(converted):
        for node in graph.node:
            node.name = names.get(node.name, node.name)
    _merge_casts(converted)
    _join_casts(converted)
    untangle(converted)
    _put_passed(converted, passed)
    return converted


def _name(model: ModelProto, nodes: set[str], kept: set[str]) -> tuple[dict[str, str], list[str]]:
    """Give every node a name of its own for the converter, in place: ONNX Runtime 1.24 names casts by their nodes.

    Returns:
        What they were called, by these; and the names of those nodes that have such a name or yield such a value.
    """
    names: dict[str, str] = {}
    blocked = []
    for node in (node for graph in graphs(model) for node in graph.node):
        name = f"float16/{len(names)}"
        if node.name in nodes or not kept.isdisjoint(node.output):
            blocked.append(name)
        names[name], node.name = node.name, name
    return names, blocked


def _name_casts(model: ModelProto, names: Collection[str]) -> None:
    """Call the casts of ONNX Runtime 1.24, which are named by nodes, by the values that they are of, as later ones are.

    Args:
        model: the converted one.
        names: of the nodes that are no casts of the converter's.
    """
    renamed: dict[str, str] = {}
    for node in model.graph.node:
        found = None if node.name in names else BY_NODE.fullmatch(node.name)
        if found and found[1] == "input":
            renamed[node.output[0]] = f"{node.input[0]}_cast_to_fp32"
            node.name = f"{node.input[0]}_cast_to_fp32_node"
        elif found:
            renamed[node.input[0]] = f"{node.output[0]}_cast_to_fp16"
            node.name = f"{node.output[0]}_cast_to_fp16_node"
    if not renamed:
        return
    for graph in graphs(model):
        for node in graph.node:
            node.input[:] = [renamed.get(name, name) for name in node.input]
            node.output[:] = [renamed.get(name, name) for name in node.output]
        for value in graph.value_info if isinstance(graph, GraphProto) else ():
            value.name = renamed.get(value.name, value.name)


def _take_passed(model: ModelProto) -> dict[int, str]:
    """Take outputs away that are inputs as well, which the converter would let cast to themselves; by their places."""
    inputs = {value.name for value in model.graph.input}
    passed = {place: value.name for place, value in enumerate(model.graph.output) if value.name in inputs}
    for place in reversed(passed):
        del model.graph.output[place]
    return passed


def _put_passed(model: ModelProto, passed: Mapping[int, str]) -> None:
    """Put them back, of the type that the input has now."""
    inputs = {value.name: value for value in model.graph.input}
    for place, name in passed.items():
        model.graph.output.insert(place, inputs[name])


def _merge_casts(model: ModelProto) -> None:
    """Keep one of the casts of a value: the converter makes one for each node that reads it, all of one name."""
    casts: set[str] = set()
    kept = []
    for node in model.graph.node:
        if node.op_type != "Cast" or node.output[0] not in casts:
            kept.append(node)
        if node.op_type == "Cast":
            casts.add(node.output[0])
    del model.graph.node[:]
    model.graph.node.extend(kept)


def _join_casts(model: ModelProto) -> None:
    """Let nodes that stay float32 read one another: the converter puts every value between them into float16.

    There it would lose the range for which they were kept. Casts of the model's own have other names.
    """
    graph = model.graph
    narrowed = {node.output[0]: node.input[0] for node in graph.node if node.name.endswith("_cast_to_fp16_node")}
    widened = {
        node.output[0]: narrowed[node.input[0]]
        for node in graph.node
        if node.name.endswith("_cast_to_fp32_node") and node.input[0] in narrowed
    }
    for node in graph.node:
        node.input[:] = [widened.get(name, name) for name in node.input]
    made = (widened, narrowed)  # the latter are read by the former
    for casts in made:
        read = {name for node in graph.node for name in reads(node)} | {value.name for value in graph.output}
        gone = casts.keys() - read
        kept = [node for node in graph.node if gone.isdisjoint(node.output)]
        del graph.node[:]
        graph.node.extend(kept)
        told = [value for value in graph.value_info if value.name not in gone]
        del graph.value_info[:]
        graph.value_info.extend(told)
