"""Stages of the graph before they are checked, with their `needs`."""

from __future__ import annotations

from collections.abc import Mapping

from orun.core.serialization import Record, field
from orun.pipeline.nodes import List, Map, Node, Scalar, Span
from orun.stages.kind import Kind

PRIMARY = ""  # port of `needs: stage`: the kind's first
Axes = Mapping[str, Scalar]


class Link(Record, frozen=True):
    """Entry of `needs`: input port (None for order only), id of the stage, and position.

    `stage` is empty for an unknown stage, which is already reported.
    """

    port: str | None
    stage: str
    span: Span


class Instance(Record, frozen=True):
    """A stage of the graph before it is checked."""

    id: str  # its name with the axes of its matrix
    base: str  # its name in the file
    key: Span  # position of that name
    node: Map  # with expressions replaced
    kind: Kind | None  # None when `uses` is wrong
    axes: Axes = field(default_factory=dict)  # its values of the matrix axes
    links: tuple[Link, ...] = ()  # its entries of `needs`


def agree(first: Axes, second: Axes) -> bool:
    """Return whether both have the same values on their common axes."""
    return all(first[axis].text == value.text for axis, value in second.items() if axis in first)


def read_links(needs: Node | None) -> list[Link]:
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
