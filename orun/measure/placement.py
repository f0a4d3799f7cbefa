"""Placement of a model's nodes on providers, as the session itself reports it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orun.core.serialization import Record
from orun.core.targets import Target
from orun.errors import UsageError
from orun.measure.plugins import CPU

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions

SHOWN = 5  # nodes named in a message
SHAPE_OPERATORS = ("Shape", "Size")
RECORD = "session.record_ep_graph_assignment_info"

log = logging.getLogger(__name__)


class PlacedNode(Record, frozen=True):
    """A node of the graph at the time when providers chose their nodes.

    Attributes:
        name: its name, or empty.
        operator: its operator, after its domain unless that is ONNX's own.
    """

    name: str
    operator: str

    def __str__(self) -> str:
        return f"{self.name or '(unnamed)'} ({self.operator})"


class Subgraph(Record, frozen=True):
    """Nodes that a provider took together: a single node, or several that it compiles into one."""

    provider: str
    nodes: tuple[PlacedNode, ...]


def watch(options: SessionOptions) -> None:
    """Make sessions with these options record where their nodes landed."""
    options.add_session_config_entry(RECORD, "1")


def read_placement(session: InferenceSession) -> list[Subgraph]:
    """Return every subgraph of a watched session, in the session's order."""
    return [
        Subgraph(
            subgraph.ep_name, tuple(PlacedNode(node.name, _format_operator(node)) for node in subgraph.get_nodes())
        )
        for subgraph in session.get_provider_graph_assignment_info()
    ]


def _format_operator(node: object) -> str:
    domain, operator = str(getattr(node, "domain", "")), str(getattr(node, "op_type", ""))
    return f"{domain}.{operator}" if domain else operator


def list_cpu_nodes(subgraphs: Iterable[Subgraph], model: Path) -> tuple[list[PlacedNode], list[PlacedNode]]:
    """Return the nodes that fell back to the CPU provider, and those that belong there: they compute with shapes."""
    nodes = [node for subgraph in subgraphs if subgraph.provider == CPU for node in subgraph.nodes]
    on_shapes = read_shape_nodes(model) if nodes else frozenset()
    return [node for node in nodes if node.name not in on_shapes], [node for node in nodes if node.name in on_shapes]


def read_shape_nodes(model: Path) -> frozenset[str]:
    """Return the names of a model's nodes that compute with nothing but shapes and constants.

    ONNX Runtime keeps them on the CPU on purpose, where their results are needed: `GetCpuPreferredNodes` in its
    `core/framework/fallback_cpu_capability.cc`.
    """
    import onnx

    graph = onnx.load(model, load_external_data=False).graph
    constants = {"", *(tensor.name for tensor in graph.initializer)}  # an empty name is an input left out
    shapes: set[str] = set()
    names: set[str] = set()
    for node in graph.node:
        if node.op_type in SHAPE_OPERATORS and not node.domain:
            shapes.update(node.output)
        elif constants.issuperset(node.input):
            constants.update(node.output)
        elif shapes.union(constants).issuperset(node.input):
            shapes.update(node.output)
            names.add(node.name)
    return frozenset(names - {""})


def check_fallback(target: Target, subgraphs: Sequence[Subgraph], model: Path) -> None:
    """Check a placement against the `fallback` of a target whose first provider is not the CPU; may log a warning.

    Raises:
        UsageError: if the target forbids the CPU and nodes fell back to it.
    """
    nodes, _ = list_cpu_nodes(subgraphs, model)
    if not nodes or target.fallback == "allow":
        return
    count = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    more = f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
    shown = ", ".join(map(str, nodes[:SHOWN])) + more
    if target.fallback == "warn":
        log.warning("target '%s': %s on the CPU: %s", target.name, count, shown)
        return
    raise UsageError(
        f"target '{target.name}' forbids the CPU, and {count} landed on it",
        why=shown,
        hint="allow it with `fallback: warn`, or change the model so that the provider takes these nodes",
    )
