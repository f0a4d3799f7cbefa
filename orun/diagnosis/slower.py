"""Difference of two profiles by node, by position in the graph, and by operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from orun.diagnosis.profiles import ModelTimes, NodeTime


@dataclass(frozen=True)
class Share:
    """Share of an operator or a place in a difference in time.

    Attributes:
        name: the operator type, or the name of a node of the place.
        seconds, reference: time in the model and in the reference.
        count, reference_count: number of nodes in the model and in the reference.
        share: share of the difference between the two models; negative if it got faster.
        nodes, gone: names of the nodes of a place in the model and in the reference.
        provider: `CPUExecutionProvider -> ...` if the provider changed; else empty.
    """

    name: str
    seconds: float
    reference: float
    count: int
    reference_count: int
    share: float
    nodes: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    provider: str = ""

    @property
    def difference(self) -> float:
        """Additional seconds in the model."""
        return self.seconds - self.reference


@dataclass(frozen=True)
class Slower:
    """Difference in time between two models, split by operator and by place.

    Attributes:
        seconds: additional seconds of the model, in nodes only.
        operators: shares of operator types, the largest difference first.
        places: shares of places, likewise. A place is a node that both have, or a run of nodes that replace others.
        new, gone: names of nodes that only the model or only the reference has.
    """

    seconds: float
    operators: tuple[Share, ...]
    places: tuple[Share, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]


def compare(model: ModelTimes, reference: ModelTimes) -> Slower:
    """Match nodes of two profiles by name, then by type and shape, and split the difference."""
    pairs = _pairs(model.nodes, reference.nodes)
    ours, theirs = set(pairs), set(pairs.values())
    seconds = model.total - reference.total
    return Slower(
        seconds=seconds,
        operators=_ordered(_operators(model.nodes, reference.nodes, seconds)),
        places=_ordered(_places(model.nodes, reference.nodes, pairs, seconds)),
        new=tuple(label(node) for place, node in enumerate(model.nodes) if place not in ours),
        gone=tuple(label(node) for place, node in enumerate(reference.nodes) if place not in theirs),
    )


def label(item: NodeTime) -> str:
    """Return the node's name, or its type and number if it has none."""
    return item.node.name or f"{item.node.op} {item.node.index}"


def _pairs(ours: Sequence[NodeTime], theirs: Sequence[NodeTime]) -> dict[int, int]:
    """Return the index of the reference's node for the index of each matching node."""
    named = {item.node.name: place for place, item in enumerate(theirs) if item.node.name}
    pairs = {
        place: named[item.node.name]
        for place, item in enumerate(ours)
        if item.node.name in named and theirs[named[item.node.name]].node.op == item.node.op
    }
    matched = set(pairs.values())
    left = [place for place in range(len(ours)) if place not in pairs]
    right = [place for place in range(len(theirs)) if place not in matched]
    old = [(theirs[place].node.op, theirs[place].node.shapes) for place in right]
    new = [(ours[place].node.op, ours[place].node.shapes) for place in left]
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for block in matcher.get_matching_blocks():
        pairs |= {left[block.b + n]: right[block.a + n] for n in range(block.size)}
    return pairs


def _operators(ours: Sequence[NodeTime], theirs: Sequence[NodeTime], total: float) -> Iterable[Share]:
    for op in dict.fromkeys(item.node.op for item in (*ours, *theirs)):
        new, old = ([item for item in nodes if item.node.op == op] for nodes in (ours, theirs))
        yield _share(op, new, old, total)


def _places(
    ours: Sequence[NodeTime], theirs: Sequence[NodeTime], pairs: dict[int, int], total: float
) -> Iterable[Share]:
    """Yield shares of matched nodes one by one, and of unmatched nodes between the same matched ones together."""
    for place, match in pairs.items():
        yield _share(label(ours[place]), [ours[place]], [theirs[match]], total)
    back = {match: place for place, match in pairs.items()}
    new = _between(ours, lambda place: place if place in pairs else None)
    gone = _between(theirs, back.get)
    for anchor in dict.fromkeys((*new, *gone)):
        added, removed = new.get(anchor, []), gone.get(anchor, [])
        yield _share(label(max([*added, *removed], key=lambda item: item.seconds)), added, removed, total)


def _between(nodes: Sequence[NodeTime], anchor: Callable[[int], int | None]) -> dict[int, list[NodeTime]]:
    """Return the unmatched nodes by the index of the last matched node before them."""
    unmatched: dict[int, list[NodeTime]] = {}
    last = -1
    for place, item in enumerate(nodes):
        known = anchor(place)
        if known is None:
            unmatched.setdefault(last, []).append(item)
        else:
            last = known
    return unmatched


def _share(name: str, ours: Sequence[NodeTime], theirs: Sequence[NodeTime], total: float) -> Share:
    seconds, reference = (sum(item.seconds for item in nodes) for nodes in (ours, theirs))
    before, after = ({item.node.provider for item in nodes} for nodes in (theirs, ours))
    moved = before and after and before != after
    return Share(
        name=name,
        seconds=seconds,
        reference=reference,
        count=len(ours),
        reference_count=len(theirs),
        share=(seconds - reference) / total if total else 0.0,
        nodes=tuple(map(label, ours)),
        gone=tuple(map(label, theirs)),
        provider=f"{', '.join(sorted(before))} -> {', '.join(sorted(after))}" if moved else "",
    )


def _ordered(shares: Iterable[Share]) -> tuple[Share, ...]:
    return tuple(sorted(shares, key=lambda share: (-share.difference, share.name)))
