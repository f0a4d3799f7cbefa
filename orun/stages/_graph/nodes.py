"""Nodes of a graph: attributes, values that they read, topological order; items of protobuf's fields."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from typing import Any

from onnx import GraphProto, NodeProto, helper


def attribute(node: NodeProto, name: str, default: Any) -> Any:
    """Return the value of an attribute of a node; the default if the node lacks it."""
    return next((helper.get_attribute_value(item) for item in node.attribute if item.name == name), default)


def find_channel_axis(node: NodeProto) -> int | None:
    """Return the axis of the output channels in the weight of a product; None for other operators."""
    if node.op_type == "Gemm" and attribute(node, "transB", 0):
        return 0
    return {"Conv": 0, "ConvTranspose": 1, "Gemm": -1, "MatMul": -1}.get(node.op_type)


def sort_nodes(graph: GraphProto) -> None:
    """Sort the nodes so that each follows those whose values it reads; otherwise keep their order.

    Raises:
        CycleError: when nodes read one another in a circle.
    """
    maker = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    needs = ([maker[name] for name in list_reads(node) if name in maker] for node in graph.node)
    sorter = TopologicalSorter(dict(enumerate(needs)))
    sorter.prepare()
    ready: list[int] = []
    order: list[int] = []
    while sorter.is_active():
        for place in sorter.get_ready():
            heapq.heappush(ready, place)
        order.append(heapq.heappop(ready))
        sorter.done(order[-1])
    set_items(graph.node, [graph.node[place] for place in order])


def set_items(field: Any, items: Iterable[Any]) -> None:
    """Set the items of a repeated field of protobuf; they may be items that it has."""
    kept = list(items)
    del field[:]
    field.extend(kept)


def list_reads(node: NodeProto) -> Iterator[str]:
    """Yield the names of values that a node reads, with outer values that graphs inside it read."""
    yield from (name for name in node.input if name)
    for graph in iter_inner_graphs(node):
        own = list_own_names(graph)
        inputs = [name for inner in graph.node for name in list_reads(inner)]
        yield from (name for name in (*inputs, *(value.name for value in graph.output)) if name not in own)


def list_needed(graph: GraphProto) -> set[str]:
    """Return the names of values that nodes of a graph read, or that it yields."""
    return {name for node in graph.node for name in list_reads(node)} | {value.name for value in graph.output}


def list_own_names(graph: GraphProto) -> set[str]:
    """Return the names of a graph's inputs and weights, and of the values that its nodes yield."""
    own = {value.name for value in (*graph.input, *graph.initializer)}
    return own | {name for node in graph.node for name in node.output}


def list_readers(graph: GraphProto) -> dict[str, list[NodeProto]]:
    """Return the nodes of a graph that read each value, without the nodes of inner graphs."""
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        for name in dict.fromkeys(node.input):
            readers.setdefault(name, []).append(node)
    return readers


def walk_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """Yield the nodes of a graph and of the graphs inside them."""
    for node in graph.node:
        yield node
        for inner in iter_inner_graphs(node):
            yield from walk_nodes(inner)


def iter_inner_graphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs that a node holds, such as the branches of an If."""
    for attribute in node.attribute:
        yield from attribute.graphs
        if attribute.HasField("g"):
            yield attribute.g
