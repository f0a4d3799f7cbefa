"""Conversion to float16 by ONNX Runtime's converter, with corrections of its result."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from onnx import GraphProto, ModelProto, NodeProto, TensorProto
from onnx.helper import make_node
from onnxruntime.transformers.float16 import convert_float_to_float16

from orun.stages._graph.io import iter_graphs
from orun.stages._graph.names import list_scopes, rename_values
from orun.stages._graph.nodes import (
    attribute,
    iter_inner_graphs,
    list_needed,
    list_own_names,
    set_items,
    sort_nodes,
)
from orun.stages._graph.transposed_products import rewrite_products

CAST_BY_NODE = re.compile(r"float16/\d+_(input|output)_cast\d+")  # a cast's name in ONNX Runtime 1.24


def to_float16(
    model: ModelProto, types: Sequence[str], nodes: Sequence[str], kept: Collection[str], *, keep_io_types: bool
) -> ModelProto:
    """Convert a model of which the type of every value of the main graph is declared.

    Operators of `types`, nodes named in `nodes` and nodes that yield a value in `kept` stay float32.
    """
    inputs = {value.name for value in model.graph.input}
    passed = {place: value.name for place, value in enumerate(model.graph.output) if value.name in inputs}
    for place in reversed(passed):  # the converter would cast outputs that are inputs to themselves
        del model.graph.output[place]
    _compute_returned(model)
    names, blocked = name_nodes(model, {*nodes}, {*kept})
    own = _list_casts_to_float32(model)
    converted: ModelProto = convert_float_to_float16(
        model,
        keep_io_types=keep_io_types,
        disable_shape_infer=True,
        op_block_list=[*types],
        node_block_list=blocked,
    )
    name_casts(converted, names)
    _merge_casts(converted)
    _join_casts(converted, names, own)
    for graph in iter_graphs(converted):
        for node in graph.node:
            node.name = names.get(node.name, node.name)
    _place_casts(converted)
    rewrite_products(converted)
    typed = {value.name: value for value in converted.graph.input}
    for place, name in passed.items():
        converted.graph.output.insert(place, typed[name])
    return converted


def _compute_returned(model: ModelProto) -> None:
    """Let a node yield each constant that a graph returns, in place: the converter looks at those that nodes read."""
    for graph in list_scopes(model):
        returned = {value.name for value in graph.output}
        for tensor in [tensor for tensor in graph.initializer if tensor.name in returned]:
            graph.node.insert(0, make_node("Constant", [], [tensor.name], value=tensor))
            graph.initializer.remove(tensor)


def name_nodes(model: ModelProto, nodes: set[str], kept: set[str]) -> tuple[dict[str, str], list[str]]:
    """Give every node a unique name for the converter, in place: ONNX Runtime 1.24 names casts by their nodes.

    Returns:
        The old name of each node by its new one, and the new names of nodes that stay float32.
    """
    names: dict[str, str] = {}
    blocked = []
    for node in (node for graph in iter_graphs(model) for node in graph.node):
        name = f"float16/{len(names)}"
        if node.name in nodes or not kept.isdisjoint(node.output):
            blocked.append(name)
        names[name], node.name = node.name, name
    return names, blocked


def name_casts(model: ModelProto, names: Collection[str]) -> None:
    """Name the casts of ONNX Runtime 1.24 by their values, as later versions do; `names` are those of other nodes."""
    renamed: dict[str, str] = {}
    for node in model.graph.node:
        match = None if node.name in names else CAST_BY_NODE.fullmatch(node.name)
        if match and match[1] == "input":
            renamed[node.output[0]] = f"{node.input[0]}_cast_to_fp32"
            node.name = f"{node.input[0]}_cast_to_fp32_node"
        elif match:
            renamed[node.input[0]] = f"{node.output[0]}_cast_to_fp16"
            node.name = f"{node.output[0]}_cast_to_fp16_node"
    if renamed:
        rename_values(model, renamed)


def _merge_casts(model: ModelProto) -> None:
    """Keep one cast of each value: the converter makes one for each node that reads it, with the same name."""
    casts: set[str] = set()
    kept = []
    for node in model.graph.node:
        if node.op_type != "Cast" or node.output[0] not in casts:
            kept.append(node)
        if node.op_type == "Cast":
            casts.add(node.output[0])
    set_items(model.graph.node, kept)


def _list_casts_to_float32(model: ModelProto) -> set[str]:
    """Return the names of the casts to float32 whose value has a name of its own."""
    nodes = [node for graph in list_scopes(model) for node in graph.node]
    counts = Counter(name for node in nodes for name in node.output)
    return {node.name for node in nodes if _casts_to(node, TensorProto.FLOAT) and counts[node.output[0]] == 1}


def _casts_to(node: NodeProto, kind: int) -> bool:
    return node.op_type == "Cast" and attribute(node, "to", 0) == kind


def _join_casts(model: ModelProto, names: Collection[str], own: Collection[str]) -> None:
    """Let float32 nodes read one another directly: the converter puts every value between them into float16.

    The values would lose the range for which the nodes stay float32. The same holds for the inputs and outputs that the
    model keeps in float32, and for what its `own` casts to float32 read. `names` are those of the model's nodes.
    """
    graph = model.graph
    inserted = [node for node in graph.node if node.op_type == "Cast" and node.name not in names]
    narrowed = {node.output[0]: node.input[0] for node in inserted if _casts_to(node, TensorProto.FLOAT16)}
    nodes = [node for scope in list_scopes(model) for node in scope.node if node.name in own]
    cast = {node.output[0]: node.input[0] for node in nodes if _casts_to(node, TensorProto.FLOAT16)}
    widened: dict[str, str] = {}
    outputs: dict[str, str] = {}
    declared = {value.name for value in graph.output}
    sources = {name for node in graph.node for name in node.output}
    for node in (node for node in inserted if _casts_to(node, TensorProto.FLOAT)):
        name = cast.get(node.input[0], node.input[0])
        node.input[0] = source = narrowed.get(name, name)
        if source in sources and source not in outputs and name in narrowed and node.output[0] in declared:
            outputs[source] = node.output[0]  # the node before the casts yields the output
        elif name in narrowed and node.output[0] not in declared:
            widened[node.output[0]] = source
    _replace_reads(graph, widened, frozenset())
    casts = {*outputs.values()}
    set_items(graph.node, [node for node in graph.node if casts.isdisjoint(node.output)])
    set_items(graph.value_info, [value for value in graph.value_info if value.name not in outputs])
    rename_values(model, outputs)
    for values in (widened, narrowed, cast):  # in this order: widening casts read narrowing ones
        unread = values.keys() - list_needed(graph)
        set_items(graph.node, [node for node in graph.node if unread.isdisjoint(node.output)])
        set_items(graph.value_info, [value for value in graph.value_info if value.name not in unread])


def _replace_reads(graph: GraphProto, sources: Mapping[str, str], outer: frozenset[str]) -> None:
    """Let the nodes of a graph and of its inner graphs read the source of each value, where they see it."""
    visible = outer | list_own_names(graph)
    for node in graph.node:
        node.input[:] = [sources[name] if sources.get(name) in visible else name for name in node.input]
        for inner in iter_inner_graphs(node):
            _replace_reads(inner, sources, visible)


def _place_casts(model: ModelProto) -> None:
    """Move casts of the values of inner graphs into these, in place: the converter puts all into the main graph."""
    placed: set[str] = set()
    for graph in list_scopes(model)[1:]:
        own = list_own_names(graph)
        casts = [node for node in model.graph.node if node.op_type == "Cast" and node.input[0] in own]
        placed |= {node.output[0] for node in casts}
        graph.node.extend(casts)
        sort_nodes(graph)
    set_items(model.graph.node, [node for node in model.graph.node if placed.isdisjoint(node.output)])
