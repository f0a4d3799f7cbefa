"""Graph of stages: order, loops, selection, and rendering as text, Mermaid and Graphviz."""

from __future__ import annotations

import graphlib
import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from orun.errors import UsageError
from orun.fs.os_errors import quote
from orun.pipeline.model import Pipeline, Stage
from orun.text.suggestions import find_closest, format_choices, show_path

if TYPE_CHECKING:
    import networkx as nx

Edge = tuple[str, str]  # from a stage to the stage after it


def sort_topologically(names: Sequence[str], edges: Collection[Edge]) -> tuple[list[str], list[list[str]]]:
    """Return a topological order that keeps the original order if possible, and the loops that were cut for it.

    Returns:
        The names in order, and a loop for each group of names that need one another. Each name of a loop needs the
        next, and the last needs the first. A loop begins with the name that comes first in the file.
    """
    try:
        return _sort_topologically(names, edges), []
    except graphlib.CycleError:
        loops, remaining = _find_loops(names, edges)
        return _sort_topologically(names, remaining), loops


def _sort_topologically(names: Sequence[str], edges: Collection[Edge]) -> list[str]:
    """Return the topological order that always takes the first ready name; raise CycleError for a loop."""
    sorter: graphlib.TopologicalSorter[int] = graphlib.TopologicalSorter()
    place = {name: number for number, name in enumerate(names)}
    for number in place.values():
        sorter.add(number)
    for before, after in edges:
        sorter.add(place[after], place[before])
    sorter.prepare()
    order: list[str] = []
    ready: list[int] = []
    while sorter.is_active():
        for number in sorter.get_ready():
            heapq.heappush(ready, number)
        order.append(names[first := heapq.heappop(ready)])
        sorter.done(first)
    return order


def _find_loops(names: Sequence[str], edges: Collection[Edge]) -> tuple[list[list[str]], list[Edge]]:
    """Return the shortest loop of each group of names that need one another, and the edges between groups."""
    import networkx as nx

    place = {name: number for number, name in enumerate(names)}
    graph: nx.DiGraph[str] = nx.DiGraph(edges)
    loops: list[list[str]] = []
    for group in list(nx.strongly_connected_components(graph)):
        if len(group) > 1 or graph.has_edge(*list(group) * 2):
            inside = graph.subgraph(group).copy()
            backwards, start = inside.reverse(), min(group, key=place.__getitem__)
            ways = nx.single_source_shortest_path(backwards, start)  # in one pass through the graph
            loops.append(min((ways[last] for last in backwards.predecessors(start)), key=len))
            graph.remove_edges_from(inside.edges)
    return sorted(loops, key=lambda loop: place[loop[0]]), list(graph.edges)


def select(
    pipeline: Pipeline,
    only: Collection[str] = (),
    from_: Collection[str] = (),
    to: Collection[str] = (),
) -> tuple[Stage, ...]:
    """Return the selected stages of a pipeline, in its order; all if nothing is selected.

    A stage with a matrix is named by its id (`int8[per_channel=true]`), or by its bare name for all of it.

    Args:
        pipeline: the pipeline.
        only: these stages, in addition to those of `from_` and `to`.
        from_: these stages and all after them.
        to: these stages and all before them.

    Raises:
        UsageError: when there is no such stage.
    """
    ids = {stage.id for stage in pipeline.stages}
    chosen: set[str] = set() if only else set(ids)
    chosen |= _expand(pipeline, only)
    if from_ or to:
        after = find_reachable(_expand(pipeline, from_), _map_downstream(pipeline)) if from_ else ids
        before = (
            find_reachable(_expand(pipeline, to), {stage.id: stage.before for stage in pipeline.stages}) if to else ids
        )
        both = after & before
        chosen = chosen | both if only else both
    return tuple(stage for stage in pipeline.stages if stage.id in chosen)


def _expand(pipeline: Pipeline, names: Collection[str]) -> set[str]:
    ids: set[str] = set()
    for name in names:
        meant = {stage.id for stage in pipeline.stages if name in (stage.id, stage.id.partition("[")[0])}
        if not meant:
            raise UsageError(
                f"there is no stage {name!r} in {pipeline.file.name}",
                why=_suggest(name, [stage.id for stage in pipeline.stages]),
                hint=f"orun graph {quote(show_path(str(pipeline.file)))}",
            )
        ids |= meant
    return ids


def _suggest(name: str, ids: Sequence[str]) -> str:
    """Return a suggestion for an unknown name: the closest stage, or all stages of a matrix with the named values."""
    base, values = _split_id(name)
    alike = {stage: _split_id(stage)[1] for stage in ids if _split_id(stage)[0] == base}
    known: frozenset[str] = frozenset().union(*alike.values())
    meant = {stage for value in values if (stage := _find_nearest(value, known))}
    matches = [stage for stage, its in alike.items() if meant and meant <= its] or list(alike)
    if len(matches) == 1 or (matches and len(matches) < len(alike)):
        return f"did you mean {format_choices(matches)}?"
    close = "" if matches else find_closest(name, ids)
    return f"did you mean {close}?" if close else f"expected {format_choices(matches or ids)}"


def _find_nearest(value: str, known: Collection[str]) -> str:
    """Return the known `axis=value` closest to one that was typed; empty if none is near."""
    axis, _, text = value.partition("=")
    texts = sorted(value_of_axis.partition("=")[2] for value_of_axis in known if value_of_axis.startswith(f"{axis}="))
    meant = text if text in texts else find_closest(text, texts)
    return f"{axis}={meant}" if meant else ""


def _split_id(name: str) -> tuple[str, frozenset[str]]:
    """Return the parts of an id: `int8` and `net=docs` of `int8[net=docs]`."""
    base, _, values = name.removesuffix("]").partition("[")
    return base, frozenset(filter(None, values.split(",")))


def _map_downstream(pipeline: Pipeline) -> dict[str, list[str]]:
    after: dict[str, list[str]] = {stage.id: [] for stage in pipeline.stages}
    for stage in pipeline.stages:
        for before in stage.before:
            after[before].append(stage.id)
    return after


def find_reachable(starts: Collection[str], neighbours: Mapping[str, Collection[str]]) -> set[str]:
    """Return these names and all names reachable from them."""
    names = set(starts)
    waiting = list(starts)
    while waiting:
        new = set(neighbours[waiting.pop()]) - names
        names |= new
        waiting += new
    return names


def render_text(pipeline: Pipeline) -> str:
    """Render one line for each stage: its id, its kind, and what it needs."""
    ids = max((len(stage.id) for stage in pipeline.stages), default=0)
    kinds = max((len(stage.uses) for stage in pipeline.stages), default=0)
    return "\n".join(
        f"{stage.id:{ids}}  {stage.uses:{kinds}}  {_needs_text(stage)}".rstrip() for stage in pipeline.stages
    )


def _needs_text(stage: Stage) -> str:
    parts = [f"{port}: {source}" for port, source in stage.needs.items()]
    order = [name for name in stage.after if name not in stage.needs.values()]
    parts += [f"after {', '.join(order)}"] if order else []
    parts += [f"guarded by {', '.join(stage.guards)}"] if stage.guards else []
    return f"<- {', '.join(parts)}" if parts else ""


def render_mermaid(pipeline: Pipeline) -> str:
    """Render a Mermaid flowchart: order-only edges are dotted, edges to secondary inputs are named."""
    names = {stage.id: f"s{number}" for number, stage in enumerate(pipeline.stages)}
    lines = ["flowchart LR"]
    lines += [f'  {names[stage.id]}["{stage.id}<br/>{stage.uses}"]' for stage in pipeline.stages]
    for stage in pipeline.stages:
        for before, label in _list_edges(stage):
            arrow = "-.->" if label is None else f"-- {label} -->" if label else "-->"
            lines.append(f"  {names[before]} {arrow} {names[stage.id]}")
    return "\n".join(lines)


def render_dot(pipeline: Pipeline) -> str:
    """Render a Graphviz digraph: order-only edges are dashed, edges to secondary inputs are named."""
    lines = ["digraph {", "  rankdir=LR;", "  node [shape=box];"]
    lines += [f'  "{stage.id}" [label="{stage.id}\\n{stage.uses}"];' for stage in pipeline.stages]
    for stage in pipeline.stages:
        for before, label in _list_edges(stage):
            style = " [style=dashed]" if label is None else f' [label="{label}"]' if label else ""
            lines.append(f'  "{before}" -> "{stage.id}"{style};')
    return "\n".join([*lines, "}"])


def _list_edges(stage: Stage) -> list[tuple[str, str | None]]:
    """Return each stage before a stage, with a label: None for order only, empty for the primary input."""
    primary = next(iter(stage.needs), "")
    edges: list[tuple[str, str | None]] = []
    for before in stage.before:
        ports = [port for port, source in stage.needs.items() if source == before]
        named = ", ".join(port for port in ports if port != primary)
        edges.append((before, named if ports else None))
    return edges


RENDERERS: Mapping[str, Callable[[Pipeline], str]] = {"text": render_text, "mermaid": render_mermaid, "dot": render_dot}
