"""Nodes of a graph: attributes, values that they read, topological order."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto


def attribute(node: NodeProto, name: str, default: Any) -> Any:
    """Return the value of an attribute of a node; the default if the node lacks it."""
    from onnx import helper

    return next((helper.get_attribute_value(item) for item in node.attribute if item.name == name), default)


def sort_nodes(graph: GraphProto) -> None:
    """Sort the nodes so that each follows those whose values it reads; otherwise keep their order.

    Raises:
        ValueError: when nodes read one another in a circle.
    """
    maker = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    needs = [{maker[name] for name in list_reads(node) if name in maker} for node in graph.node]
    readers: dict[int, list[int]] = {}
    for place, needed in enumerate(needs):
        for index in needed:
            readers.setdefault(index, []).append(place)
    ready = [place for place, needed in enumerate(needs) if not needed]
    order: list[int] = []
    while ready:
        order.append(heapq.heappop(ready))
        for reader in readers.get(order[-1], ()):
            needs[reader].discard(order[-1])
            if not needs[reader]:
                heapq.heappush(ready, reader)
    if len(order) < len(graph.node):
        raise ValueError("nodes read one another in a circle")
    nodes = [graph.node[place] for place in order]
    del graph.node[:]
    graph.node.extend(nodes)


def list_reads(node: NodeProto) -> Iterator[str]:
    """Yield the names of values that a node reads, with outer values that graphs inside it read."""
    yield from (name for name in node.input if name)
    for graph in inner_graphs(node):
        own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
        own |= {name for inner in graph.node for name in inner.output}
        inputs = [name for inner in graph.node for name in list_reads(inner)]
        yield from (name for name in (*inputs, *(value.name for value in graph.output)) if name not in own)


def inner_graphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs that a node holds, such as the branches of an If."""
    for attribute in node.attribute:
        yield from attribute.graphs
        if attribute.HasField("g"):
            yield attribute.g
