"""Graph of stages as a drawing: what became of each, how long it took, and what feeds it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orun.core.run_record import StageResult
from orun.pipeline.model import Pipeline
from orun.report.html.graph_layout import Layout, lay_out
from orun.report.html.source import Source
from orun.report.html.templating import escape_invisible, render
from orun.report.stages import STYLES
from orun.text.counts import count
from orun.text.units import show

WIDEST = 1040  # of a page; a drawing is turned round before it gets wider
FOLDED = 150  # stages from which the drawing is shown when one asks for it
MOST = 400  # stages from which there is none
LETTER = 7.3  # width of a letter of a name
SMALL_LETTER = 6.3  # width of a letter of a caption
LONGEST = 26  # letters of a name that are shown
LINE, LINES = 24, 42  # heights of a stage of one line, and of two
BETWEEN, EDGE = 46, 4  # distance of layers, and margin of the drawing
CROWDED = 14  # stages side by side, from which each has one line


@dataclass(frozen=True)
class Node:
    """Stage to draw.

    Attributes:
        name: of the stage.
        caption: below the name; `short` is shown in its place where a stage has one line.
        title: shown when one points at it.
        style: classes of the drawing.
        target: id that it links to; empty for none.
    """

    name: str
    caption: str
    short: str
    title: str
    style: str = ""
    target: str = ""


@dataclass(frozen=True)
class PlacedNode:
    """Node with its upper left corner and the text that fits."""

    node: Node
    left: str
    top: str
    label: str


@dataclass(frozen=True)
class Drawing:
    """Drawing of a graph: its size, paths of its edges, and its nodes."""

    title: str
    width: str
    height: str
    node_width: str
    node_height: int
    one_line: bool
    edges: Sequence[str]
    nodes: Sequence[PlacedNode]


def render_graph_file(pipeline: Pipeline, form: str) -> str:
    """Return the picture of a pipeline's stages in the form `svg` or `html`."""
    nodes = [Node(stage.id, stage.uses, stage.uses, f"{stage.id} ({stage.uses})", "dim") for stage in pipeline.stages]
    drawing = draw(nodes, {stage.id: stage.before for stage in pipeline.stages})
    return render(f"graph_file.{form}", drawing=drawing, name=pipeline.name).strip()


def view_graph(source: Source) -> Mapping[str, Any] | None:
    """Return the graph of a run, folded if it is large; None if the run does not say what needs what."""
    stages = source.result.stages
    place = {stage.stage: number for number, stage in enumerate(stages)}  # a stage stands after those that it needs
    needs = {
        stage.stage: [need for need in stage.needs if place.get(need, number) < number]
        for number, stage in enumerate(stages)
    }
    if not any(needs.values()):
        return None
    nodes = [
        Node(
            name=stage.stage,
            caption=_format_caption(stage),
            short=stage.outcome,
            title=f"{stage.stage} ({stage.uses}): {_format_caption(stage)}",
            style=f"{STYLES[stage.outcome]} {stage.outcome}",
            target=source.stages[stage.stage],
        )
        for stage in stages
    ]
    drawing = draw(nodes, needs) if len(stages) <= MOST else None
    return {"number": count(len(stages), "stage"), "drawing": drawing, "folded": len(stages) > FOLDED}


def _format_caption(stage: StageResult) -> str:
    """Return `built, 3.25 s`, or `cached (3.25 s)` if it took so long in an earlier run."""
    if not stage.seconds:
        return stage.outcome
    seconds = show(stage.seconds, "s")
    return f"cached ({seconds})" if stage.outcome == "cached" else f"{stage.outcome}, {seconds}"


def draw(nodes: Sequence[Node], needs: Mapping[str, Sequence[str]]) -> Drawing:
    """Return the drawing of a graph; each node stands after all that it needs."""
    layout = lay_out(needs)
    longest = max(
        max(LETTER * min(len(escape_invisible(node.name)), LONGEST), SMALL_LETTER * min(len(node.caption), LONGEST))
        for node in nodes
    )
    one_line = layout.breadth >= CROWDED
    node_width = max(longest + 24, 132)
    frame = Frame(layout, node_width + 60, LINE) if one_line else Frame(layout, node_width, LINES)
    width, height = map(_format_figure, frame.size)
    placed = []
    for node in nodes:
        left, top = map(_format_figure, frame.locate_corner(*layout.places[node.name]))
        placed.append(PlacedNode(node, left, top, _shorten(escape_invisible(node.name))))
    return Drawing(
        title=f"Graph of {count(len(nodes), 'stage')}",
        width=width,
        height=height,
        node_width=_format_figure(frame.width),
        node_height=frame.height,
        one_line=one_line,
        edges=[frame.draw_edge(route) for route in layout.routes.values()],
        nodes=placed,
    )


class Frame:
    """Turns places of a layout into points: layers from left to right, or from top to bottom where that is too wide."""

    def __init__(self, layout: Layout, width: float, height: int) -> None:
        gap = height // 3
        unturned = layout.layers * width + (layout.layers - 1) * BETWEEN  # the width of the drawing
        turned = (layout.breadth + 1) * (width + gap)
        self.turned = unturned > WIDEST and turned < unturned
        self.width, self.height = width, height
        self.step = height + BETWEEN if self.turned else width + BETWEEN
        self.pitch = width + gap if self.turned else height + gap
        along, across = (layout.layers - 1) * self.step, layout.breadth * self.pitch
        self.size = (
            (across if self.turned else along) + width + 2 * EDGE,
            (along if self.turned else across) + height + 2 * EDGE,
        )

    def locate_corner(self, layer: int, place: float) -> tuple[float, float]:
        """Return the upper left corner of the node there."""
        along, across = layer * self.step + EDGE, place * self.pitch + EDGE
        return (across, along) if self.turned else (along, across)

    def draw_edge(self, route: Sequence[tuple[int, float]]) -> str:
        """Draw the way of an edge by curves that leave and enter straight; past the nodes of the layers between."""
        length = self.height if self.turned else self.width
        points: list[tuple[float, float]] = []  # along the layers, and across them
        for number, (layer, place) in enumerate(route):
            along = layer * self.step + EDGE
            across = place * self.pitch + EDGE + (self.width if self.turned else self.height) / 2
            points += [(along, across)] if number else []
            points += [(along + length, across)] if number < len(route) - 1 else []
        text = f"M{self._format_point(*points[0])}"
        for number, ((start, level), (end, other)) in enumerate(itertools.pairwise(points)):
            middle = (start + end) / 2
            target = self._format_point(end, other)
            bent = f"C{self._format_point(middle, level)} {self._format_point(middle, other)} {target}"
            text += bent if number % 2 == 0 else f"L{target}"
        return text

    def _format_point(self, along: float, across: float) -> str:
        first, second = (across, along) if self.turned else (along, across)
        return f"{_format_figure(first)} {_format_figure(second)}"


def _shorten(name: str) -> str:
    """Return the name without its middle, where it is too long: a matrix tells its stages apart at their ends."""
    if len(name) <= LONGEST:
        return name
    head = LONGEST // 2 - 2
    return f"{name[:head]}\u2026{name[head + 1 - LONGEST :]}"


def _format_figure(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
