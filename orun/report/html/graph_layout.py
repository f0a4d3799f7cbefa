"""A graph laid out in layers, as Sugiyama does it: each node after all that it needs, few crossings, short edges.

Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures", IEEE SMC 11 (1981).
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SWEEPS = 12  # over all layers; after a few the order hardly changes
THIN = 0.35  # of the room of a node, for an edge that goes past
Node = str | tuple[str, str, int]  # a name, or where an edge passes a layer


@dataclass(frozen=True)
class Layout:
    """Positions of nodes and edges.

    Attributes:
        places: of each node its layer, and where in it: nodes side by side are 1 or more apart, the first is at 0.
        routes: of each edge, from the node before to the node after, the places that it goes through.
        layers: how many there are.
        breadth: the largest place in a layer.
    """

    places: Mapping[str, tuple[int, float]]
    routes: Mapping[tuple[str, str], Sequence[tuple[int, float]]]
    layers: int
    breadth: float


def lay_out(needs: Mapping[str, Sequence[str]]) -> Layout:
    """Lay out a graph without loops.

    `needs` has the nodes right before each node; every node is a key, and stands after those.
    """
    level = _assign_layers(needs)
    rows: list[list[Node]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for name in needs:
        rows[level[name]].append(name)
    before: dict[Node, list[Node]] = {name: [] for name in needs}
    chains: dict[tuple[str, str], list[Node]] = {}
    for name, sources in needs.items():
        for source in sources:
            passed: list[Node] = [(source, name, number) for number in range(level[source] + 1, level[name])]
            for number, layer in enumerate(passed, level[source] + 1):
                rows[number].append(layer)
            chain: list[Node] = [source, *passed, name]
            chains[source, name] = chain
            for first, second in itertools.pairwise(chain):
                before.setdefault(second, []).append(first)
    rows = _untangle(rows, before)
    places_ = _place_nodes(rows, before)
    least = min(places_.values(), default=0.0)
    depth = {node: number for number, row in enumerate(rows) for node in row}
    spot = {node: (depth[node], place - least) for node, place in places_.items()}
    return Layout(
        places={name: spot[name] for name in needs},
        routes={edge: [spot[node] for node in chain] for edge, chain in chains.items()},
        layers=len(rows),
        breadth=max(places_.values(), default=0.0) - least,
    )


def _assign_layers(needs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the layer of each node: behind all that it needs.

    A node that needs nothing stands right before the first that needs it.
    """
    level: dict[str, int] = {}
    for name, sources in needs.items():
        level[name] = 1 + max((level[source] for source in sources), default=-1)
    nearest: dict[str, int] = {}
    for name, sources in needs.items():
        for source in sources:
            nearest[source] = min(nearest.get(source, level[name]), level[name])
    return {name: nearest[name] - 1 if not needs[name] and name in nearest else depth for name, depth in level.items()}


def _invert(before: Mapping[Node, Sequence[Node]]) -> dict[Node, list[Node]]:
    after: dict[Node, list[Node]] = {}
    for node, sources in before.items():
        for source in sources:
            after.setdefault(source, []).append(node)
    return after


def _untangle(rows: list[list[Node]], before: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """Return each layer in the order with the fewest crossings that sweeps by barycentres find."""
    after = _invert(before)
    best, least = rows, _count_crossings(rows, before)
    for sweep in range(SWEEPS):
        if not least:
            break
        down = sweep % 2 == 0
        rows = _sweep(rows, before if down else after, down=down)
        if (crossings := _count_crossings(rows, before)) < least:
            best, least = rows, crossings
    return best


def _sweep(rows: list[list[Node]], neighbours: Mapping[Node, Sequence[Node]], *, down: bool) -> list[list[Node]]:
    """Sort each layer by the mean place of its neighbours in the layer that was sorted before."""
    rows = list(rows)
    order = range(1, len(rows)) if down else range(len(rows) - 2, -1, -1)
    for number in order:
        fixed = rows[number - 1 if down else number + 1]
        place = {node: float(index) for index, node in enumerate(fixed)}
        own = {node: float(index) for index, node in enumerate(rows[number])}
        rows[number] = sorted(rows[number], key=lambda node: (_average_place(node, neighbours, place, own), own[node]))
    return rows


def _average_place(
    node: Node, neighbours: Mapping[Node, Sequence[Node]], place: Mapping[Node, float], own: Mapping[Node, float]
) -> float:
    positions = [place[neighbour] for neighbour in neighbours.get(node, ()) if neighbour in place]
    return sum(positions) / len(positions) if positions else own[node]


def _count_crossings(rows: Sequence[Sequence[Node]], before: Mapping[Node, Sequence[Node]]) -> int:
    """Count the pairs of edges between neighbouring layers that cross."""
    total = 0
    for upper, lower in itertools.pairwise(rows):
        place = {node: index for index, node in enumerate(upper)}
        seen: list[int] = []
        for node in lower:
            ends = sorted(place[source] for source in before.get(node, ()))
            total += sum(len(seen) - bisect_left(seen, end + 1) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


def _place_nodes(rows: Sequence[Sequence[Node]], before: Mapping[Node, Sequence[Node]]) -> dict[Node, float]:
    """Place each node in its layer, as close to the middle of its neighbours as the other nodes allow."""
    after = _invert(before)
    places_: dict[Node, float] = {}
    for row in rows:
        places_ |= dict(zip(row, _spread(row, [0.0] * len(row)), strict=True))
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            wanted = [_average_place(node, before if down else after, places_, places_) for node in row]
            places_ |= dict(zip(row, _spread(row, wanted), strict=True))
    return places_


def _spread(row: Sequence[Node], wanted: Sequence[float]) -> list[float]:
    """Find the places nearest to the wanted ones, by least squares, that keep the order and the room of each node."""
    offsets: list[float] = []
    for index, node in enumerate(row):
        gap = (_choose_width(row[index - 1]) + _choose_width(node)) / 2 if index else 0.0
        offsets.append((offsets[-1] if offsets else 0.0) + gap)
    blocks: list[tuple[float, int]] = []  # pools of neighbours that push one another: sum and count
    for want, offset in zip(wanted, offsets, strict=True):
        total, count = want - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            more, members = blocks.pop()
            total, count = total + more, count + members
        blocks.append((total, count))
    bases = [total / count for total, count in blocks for _ in range(count)]
    return [base + offset for base, offset in zip(bases, offsets, strict=True)]


def _choose_width(node: Node) -> float:
    return 1.0 if isinstance(node, str) else THIN
