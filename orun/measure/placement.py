"""Placement of a model's nodes on providers, as the session itself reports it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from orun.core.serialization import Record
from orun.core.targets import Target
from orun.errors import UsageError
from orun.measure.plugins import CPU

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions

SHOWN = 5  # nodes named in a message
RECORD = "session.record_ep_graph_assignment_info"

log = logging.getLogger(__name__)


class Placed(Record, frozen=True):
    """A node of the graph as it was when providers chose.

    Attributes:
        name: its name; empty when it has none.
        operator: its operator, with the domain before it when that is not ONNX's own.
    """

    name: str
    operator: str

    def __str__(self) -> str:
        return f"{self.name or '(unnamed)'} ({self.operator})"


class Subgraph(Record, frozen=True):
    """Nodes that one provider took together: a single one, or those that it compiles into one."""

    provider: str
    nodes: tuple[Placed, ...]


def watch(options: SessionOptions) -> None:
    """Have a session remember where its nodes landed."""
    options.add_session_config_entry(RECORD, "1")


def placement(session: InferenceSession) -> list[Subgraph]:
    """Every subgraph of a session that was watched, in the session's order."""
    return [
        Subgraph(one.ep_name, tuple(Placed(node.name, _operator(node)) for node in one.get_nodes()))
        for one in session.get_provider_graph_assignment_info()
    ]


def _operator(node: object) -> str:
    domain, operator = str(getattr(node, "domain", "")), str(getattr(node, "op_type", ""))
    return f"{domain}.{operator}" if domain else operator


def cpu_nodes(subgraphs: Iterable[Subgraph]) -> list[Placed]:
    """The nodes that landed on the CPU provider."""
    return [node for subgraph in subgraphs if subgraph.provider == CPU for node in subgraph.nodes]


def check(target: Target, subgraphs: Sequence[Subgraph]) -> None:
    """Hold a placement against the `fallback` of a target whose first provider is not the CPU.

    Raises:
        UsageError: when it forbids the CPU, and nodes landed there.
    """
    nodes = cpu_nodes(subgraphs)
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
