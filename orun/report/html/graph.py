"""The graph of stages as a drawing: what became of each, and what feeds it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from orun.core.run_record import RunResult, StageResult
from orun.report.figures import count
from orun.report.html.layers import Layout, lay_out
from orun.report.html.parts import Section, drawing, fold
from orun.report.html.source import Source
from orun.report.html.tags import Markup, element, visible
from orun.report.stages import STYLES, stage_row

WIDEST = 1040  # of a page; a drawing is turned round before it gets wider
FOLDED = 150  # stages from which the drawing is shown when one asks for it
MOST = 400  # stages from which there is none
LETTER = 7.3  # width of a letter of a name
LONGEST = 26  # letters of a name that are shown
LINE, LINES = 24, 42  # heights of a stage of one line, and of two
BETWEEN, EDGE = 46, 4  # room between layers, and around the drawing
CROWDED = 14  # stages side by side, from which each has one line


def graph(source: Source) -> Section | None:
    """The section; None for a run that does not say what needs what."""
    result = source.result
    stages = {stage.stage: stage for stage in result.stages}
    place = {name: number for number, name in enumerate(stages)}  # a stage stands after those that it needs
    needs = {
        name: [need for need in stage.needs if place.get(need, number) < number]
        for number, (name, stage) in enumerate(stages.items())
    }
    if not any(needs.values()):
        return None
    stage_count = count(len(stages), "stage")
    if len(stages) > MOST:
        text = f"{stage_count} are too many for a drawing; the table below says what each needs."
        return Section("graph", "Graph", element("p", text, class_="quiet"))
    picture = element("div", _drawn(source, stages, lay_out(needs)), class_="wide", tabindex="0", role="region",
                      aria_label="Graph of the stages")  # fmt: skip
    return Section("graph", "Graph", fold(f"Drawing of {stage_count}", picture) if len(stages) > FOLDED else picture)


class Frame:
    """Turns places of a layout into points: layers from left to right, or from top to bottom where that is too wide."""

    def __init__(self, layout: Layout, width: float, height: int) -> None:
        gap = height // 3
        across = layout.layers * width + (layout.layers - 1) * BETWEEN
        down = (layout.breadth + 1) * (width + gap)
        self.turned = across > WIDEST and down < across
        self.width, self.height = width, height
        self.step = height + BETWEEN if self.turned else width + BETWEEN
        self.pitch = width + gap if self.turned else height + gap
        along, across = (layout.layers - 1) * self.step, layout.breadth * self.pitch
        self.size = (
            (across if self.turned else along) + width + 2 * EDGE,
            (along if self.turned else across) + height + 2 * EDGE,
        )

    def corner(self, layer: int, place: float) -> tuple[float, float]:
        """Upper left corner of the node there."""
        along, across = layer * self.step + EDGE, place * self.pitch + EDGE
        return (across, along) if self.turned else (along, across)

    def path(self, route: Sequence[tuple[int, float]]) -> str:
        """The way of an edge, by curves that leave and enter straight; past the nodes of the layers between."""
        length = self.height if self.turned else self.width
        points: list[tuple[float, float]] = []  # along the layers, and across them
        for number, (layer, place) in enumerate(route):
            along = layer * self.step + EDGE
            across = place * self.pitch + EDGE + (self.width if self.turned else self.height) / 2
            points += [(along, across)] if number else []
            points += [(along + length, across)] if number < len(route) - 1 else []
        text = f"M{self._point(*points[0])}"
        for number, ((start, level), (end, other)) in enumerate(itertools.pairwise(points)):
            middle = (start + end) / 2
            bent = f"C{self._point(middle, level)} {self._point(middle, other)} {self._point(end, other)}"
            text += bent if number % 2 == 0 else f"L{self._point(end, other)}"
        return text

    def _point(self, along: float, across: float) -> str:
        first, second = (across, along) if self.turned else (along, across)
        return f"{_figure(first)} {_figure(second)}"


def _drawn(source: Source, stages: Mapping[str, StageResult], layout: Layout) -> Markup:
    longest = max(min(len(visible(name)), LONGEST) for name in stages)
    crowded = layout.breadth >= CROWDED
    node_width = max(longest * LETTER + 24, 132)
    frame = Frame(layout, node_width + 60, LINE) if crowded else Frame(layout, node_width, LINES)
    width, height = map(_figure, frame.size)
    edges = [
        element("path", d=frame.path(route), class_="edge", marker_end="url(#arrow)")
        for route in layout.routes.values()
    ]
    nodes = [_node(source, stage, frame, layout.places[name]) for name, stage in stages.items()]
    arrow = element(
        "marker", element("path", d="M0 1L8 5L0 9z"), id="arrow", viewBox="0 0 8 10", refX="8", refY="5",
        markerWidth="7", markerHeight="8", orient="auto",
    )  # fmt: skip
    return drawing(
        f"Graph of {count(len(stages), 'stage')}",
        "Each stage with its outcome; arrows lead to the stages that need it. The table of stages says the same.",
        element("defs", arrow),
        edges,
        nodes,
        ident="graph-drawing",
        class_="graph",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
    )


def _node(source: Source, stage: StageResult, frame: Frame, place: tuple[int, float]) -> Markup:
    caption = _caption(source.result, stage)
    left, top = map(_figure, frame.corner(*place))
    name = element("text", _short(visible(stage.stage)), x=14, y=17, class_="name")
    if frame.height == LINE:
        label = element("text", stage.outcome, x=_figure(frame.width - 8), y=16, text_anchor="end", class_="told")
    else:
        label = element("text", caption, x=14, y=34, class_="told")
    group = element(
        "g",
        element("title", f"{stage.stage} ({stage.uses}): {caption}"),
        element("rect", width=_figure(frame.width), height=frame.height, rx=6),
        element("rect", width=5, height=frame.height, rx=2.5, class_="side"),
        name,
        label,
        class_=f"node {STYLES[stage.outcome]} {stage.outcome}",
        transform=f"translate({left} {top})",
    )
    return element("a", group, href=f"#{source.stages[stage.stage]}")


def _caption(result: RunResult, stage: StageResult) -> str:
    """`built, 3.25 s`."""
    _, _, seconds, size, _ = stage_row(result, stage)
    return ", ".join(part for part in (stage.outcome, seconds or size) if part)


def _short(name: str) -> str:
    """The name without its middle, where it is too long: a matrix tells its stages apart at their ends."""
    if len(name) <= LONGEST:
        return name
    head = LONGEST // 2 - 2
    return f"{name[:head]}\u2026{name[head + 1 - LONGEST :]}"


def _figure(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
