"""Stages of the graph before they are checked, with their `needs`."""

from __future__ import annotations

from collections.abc import Mapping

from orun.core.serialization import Record, field
from orun.pipeline.nodes import List, Map, Node, Scalar, Span
from orun.stages.kind import Kind

PRIMARY = ""  # the port of `needs: stage`: the first that the kind has
Axes = Mapping[str, Scalar]


class Link(Record, frozen=True):
    """One entry of `needs`: the input port (None: only the order matters), the stage's id, and where it is named.

    `stage` is empty if there is no such stage; that is already reported.
    """

    port: str | None
    stage: str
    span: Span


class Instance(Record, frozen=True):
    """A stage of the graph before it is checked.

    Attributes:
        id: its name with the axes of its matrix.
        base: its name in the file.
        key: where the file names it.
        node: its mapping, expressions replaced.
        kind: what `uses` names; None when that is wrong.
        axes: the values of the axes that it is made along.
        links: what it needs.
    """

    id: str
    base: str
    key: Span
    node: Map
    kind: Kind | None
    axes: Axes = field(default_factory=dict)
    links: tuple[Link, ...] = ()


def links(needs: Node | None) -> list[Link]:
    """Return the entries of `needs` in any of its forms; malformed entries are left out."""
    named: list[tuple[str | None, Node]]
    if isinstance(needs, Map):
        named = [(port, entry.value) for port, entry in needs.entries.items()]
    elif isinstance(needs, List):
        named = [(PRIMARY if number == 0 else None, item) for number, item in enumerate(needs.items)]
    else:
        named = [(PRIMARY, needs)] if needs else []
    return [
        Link(port, "" if node.broken else node.text, node.span)
        for port, node in named
        if isinstance(node, Scalar) and isinstance(node.value, str)
    ]
