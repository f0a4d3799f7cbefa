"""Difference of two profiles by node, by position in the graph, and by operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from orun.diagnosis.profiles import ModelTimes, NodeTime


@dataclass(frozen=True)
class Share:
    """Share of an operator or a group of nodes in a difference in time.

    Attributes:
        name: the operator type, or the name of a node of the group.
        seconds, reference: time in the model and in the reference.
        count, reference_count: number of nodes in the model and in the reference.
        share: share of the difference between the two models; negative if it got faster.
        nodes, gone: names of the nodes of a group in the model and in the reference.
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
class TimeDifference:
    """Difference in time between two models, split by operator and by place in the graph.

    Attributes:
        seconds: additional seconds of the model, in nodes only.
        operators: shares of operator types, the largest difference first.
        places: shares of groups of nodes, likewise. A group is a node that both have, or nodes that replace others
            between the same two nodes.
        new, gone: names of nodes that only the model or only the reference has.
    """

    seconds: float
    operators: tuple[Share, ...]
    places: tuple[Share, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]


def compare(model: ModelTimes, reference: ModelTimes) -> TimeDifference:
    """Match nodes of two profiles by name, then by type and shape, and split the difference."""
    pairs = _pair_nodes(model.nodes, reference.nodes)
    ours, theirs = set(pairs), set(pairs.values())
    seconds = model.total - reference.total
    return TimeDifference(
        seconds=seconds,
        operators=_sort(_compare_operators(model.nodes, reference.nodes, seconds)),
        places=_sort(_compare_places(model.nodes, reference.nodes, pairs, seconds)),
        new=tuple(name_node(node) for index, node in enumerate(model.nodes) if index not in ours),
        gone=tuple(name_node(node) for index, node in enumerate(reference.nodes) if index not in theirs),
    )


def name_node(item: NodeTime) -> str:
    """Return the node's name, or its type and number if it has none."""
    return item.node.name or f"{item.node.op} {item.node.index}"


def _pair_nodes(ours: Sequence[NodeTime], theirs: Sequence[NodeTime]) -> dict[int, int]:
    """Return the index of the reference's node for the index of each matching node."""
    named = {item.node.name: index for index, item in enumerate(theirs) if item.node.name}
    pairs = {
        index: named[item.node.name]
        for index, item in enumerate(ours)
        if item.node.name in named and theirs[named[item.node.name]].node.op == item.node.op
    }
    matched = set(pairs.values())
    left = [index for index in range(len(ours)) if index not in pairs]
    right = [index for index in range(len(theirs)) if index not in matched]
    old = [(theirs[index].node.op, theirs[index].node.shapes) for index in right]
    new = [(ours[index].node.op, ours[index].node.shapes) for index in left]
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for block in matcher.get_matching_blocks():
        pairs |= {left[block.b + n]: right[block.a + n] for n in range(block.size)}
    return pairs


def _compare_operators(ours: Sequence[NodeTime], theirs: Sequence[NodeTime], total: float) -> Iterable[Share]:
    for op in dict.fromkeys(item.node.op for item in (*ours, *theirs)):
        new, old = ([item for item in nodes if item.node.op == op] for nodes in (ours, theirs))
        yield _build_share(op, new, old, total)


def _compare_places(
    ours: Sequence[NodeTime], theirs: Sequence[NodeTime], pairs: dict[int, int], total: float
) -> Iterable[Share]:
    """Yield shares of matched nodes one by one, and of unmatched nodes between the same matched ones together."""
    for index, match in pairs.items():
        yield _build_share(name_node(ours[index]), [ours[index]], [theirs[match]], total)
    model_index_of = {match: index for index, match in pairs.items()}
    groups = _group_unmatched(ours, lambda index: index if index in pairs else None)
    reference_groups = _group_unmatched(theirs, model_index_of.get)
    for start in dict.fromkeys((*groups, *reference_groups)):
        added, removed = groups.get(start, []), reference_groups.get(start, [])
        yield _build_share(name_node(max([*added, *removed], key=lambda item: item.seconds)), added, removed, total)


def _group_unmatched(nodes: Sequence[NodeTime], match_of: Callable[[int], int | None]) -> dict[int, list[NodeTime]]:
    """Return the unmatched nodes by the index, in the model, of the last matched node before them."""
    unmatched: dict[int, list[NodeTime]] = {}
    last = -1
    for index, item in enumerate(nodes):
        match = match_of(index)
        if match is None:
            unmatched.setdefault(last, []).append(item)
        else:
            last = match
    return unmatched


def _build_share(name: str, ours: Sequence[NodeTime], theirs: Sequence[NodeTime], total: float) -> Share:
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
        nodes=tuple(map(name_node, ours)),
        gone=tuple(map(name_node, theirs)),
        provider=f"{', '.join(sorted(before))} -> {', '.join(sorted(after))}" if moved else "",
    )


def _sort(shares: Iterable[Share]) -> tuple[Share, ...]:
    return tuple(sorted(shares, key=lambda share: (-share.difference, share.name)))
