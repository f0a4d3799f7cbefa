"""Difference of two profiles: by node, by place, by operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from orun.diagnosis.profiles import ModelTimes, NodeTime


@dataclass(frozen=True)
class Share:
    """One cause of a difference in time.

    Attributes:
        name: of the operator type, or of the place: its node, or where nodes came and went the new ones and the gone.
        seconds, reference: what it takes in the model and in the reference, in seconds.
        count, reference_count: how many nodes that is.
        share: of the difference between the two models; negative for what got faster.
        nodes, gone: names of the nodes of a place in the model, and of those of the reference.
        provider: `CPUExecutionProvider -> ...` where the provider changed; else empty.
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
        """Seconds that the model takes longer for it."""
        return self.seconds - self.reference


@dataclass(frozen=True)
class Slower:
    """The difference between two models, split in two ways; both add up to it.

    Attributes:
        seconds: that the model takes longer, nodes only.
        operators: by type, the one that explains most first.
        places: by place likewise: a node that both have, or a run of nodes in the place of others.
        new, gone: names of nodes that only one of the two has.
    """

    seconds: float
    operators: tuple[Share, ...]
    places: tuple[Share, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]


def compare(model: ModelTimes, reference: ModelTimes) -> Slower:
    """Line two profiles up by the names of nodes, what is left by type and shape, and split the difference."""
    pairs = _pairs(model.nodes, reference.nodes)
    ours, theirs = set(pairs), set(pairs.values())
    seconds = model.total - reference.total
    return Slower(
        seconds=seconds,
        operators=_ordered(_operators(model.nodes, reference.nodes, seconds)),
        places=_ordered(_places(model.nodes, reference.nodes, pairs, seconds)),
        new=tuple(label(one) for place, one in enumerate(model.nodes) if place not in ours),
        gone=tuple(label(one) for place, one in enumerate(reference.nodes) if place not in theirs),
    )


def label(one: NodeTime) -> str:
    """The node's name, or its type and number where it has none."""
    return one.node.name or f"{one.node.op} {one.node.index}"


def _pairs(ours: Sequence[NodeTime], theirs: Sequence[NodeTime]) -> dict[int, int]:
    """The place of the reference's node for the place of each node that it has too."""
    named = {one.node.name: place for place, one in enumerate(theirs) if one.node.name}
    pairs = {
        place: named[one.node.name]
        for place, one in enumerate(ours)
        if one.node.name in named and theirs[named[one.node.name]].node.op == one.node.op
    }
    taken = set(pairs.values())
    left = [place for place in range(len(ours)) if place not in pairs]
    right = [place for place in range(len(theirs)) if place not in taken]
    matcher = SequenceMatcher(None, [_sort(theirs[n]) for n in right], [_sort(ours[n]) for n in left], autojunk=False)
    for block in matcher.get_matching_blocks():
        pairs |= {left[block.b + n]: right[block.a + n] for n in range(block.size)}
    return pairs


def _sort(one: NodeTime) -> tuple[str, str]:
    return one.node.op, one.node.shapes


def _operators(ours: Sequence[NodeTime], theirs: Sequence[NodeTime], whole: float) -> Iterable[Share]:
    for op in dict.fromkeys(one.node.op for one in (*ours, *theirs)):
        mine, others = ([one for one in nodes if one.node.op == op] for nodes in (ours, theirs))
        yield _share(op, mine, others, whole)


def _places(
    ours: Sequence[NodeTime], theirs: Sequence[NodeTime], pairs: dict[int, int], whole: float
) -> Iterable[Share]:
    """Nodes that both have one by one, and what only one has together with what the other has in its place."""
    for place, other in pairs.items():
        yield _share(label(ours[place]), [ours[place]], [theirs[other]], whole)
    back = {other: place for place, other in pairs.items()}
    new = _between(ours, lambda place: place if place in pairs else None)
    gone = _between(theirs, back.get)
    for anchor in dict.fromkeys((*new, *gone)):
        mine, others = new.get(anchor, []), gone.get(anchor, [])
        yield _share(label(max([*mine, *others], key=lambda one: one.seconds)), mine, others, whole)


def _between(nodes: Sequence[NodeTime], anchor: Callable[[int], int | None]) -> dict[int, list[NodeTime]]:
    """Nodes that only one has, by the last one before them that both have."""
    found: dict[int, list[NodeTime]] = {}
    last = -1
    for place, one in enumerate(nodes):
        known = anchor(place)
        if known is None:
            found.setdefault(last, []).append(one)
        else:
            last = known
    return found


def _share(name: str, ours: Sequence[NodeTime], theirs: Sequence[NodeTime], whole: float) -> Share:
    seconds, reference = (sum(one.seconds for one in nodes) for nodes in (ours, theirs))
    before, after = ({one.node.provider for one in nodes} for nodes in (theirs, ours))
    moved = before and after and before != after
    return Share(
        name=name,
        seconds=seconds,
        reference=reference,
        count=len(ours),
        reference_count=len(theirs),
        share=(seconds - reference) / whole if whole else 0.0,
        nodes=tuple(map(label, ours)),
        gone=tuple(map(label, theirs)),
        provider=f"{', '.join(sorted(before))} -> {', '.join(sorted(after))}" if moved else "",
    )


def _ordered(shares: Iterable[Share]) -> tuple[Share, ...]:
    return tuple(sorted(shares, key=lambda one: (-one.difference, one.name)))
