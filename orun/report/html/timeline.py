"""When each stage waited and ran, as bars over the time of the run."""

from __future__ import annotations

import math
from collections.abc import Iterator

from orun.report.figures import count
from orun.report.html.parts import Scale, Section, drawing, fold, percent
from orun.report.html.source import Source, Turn
from orun.report.html.tags import Markup, element
from orun.report.stages import STYLES, stage_row
from orun.text.units import show

FOLDED = 60  # stages from which the drawing is shown when one asks for it
ROW, TOP, BAR = 34, 22, 9  # heights of a stage's row, of the words above all, and of a bar
LEAST = 0.002  # of the width, that is still seen
EDGE = 0.7  # of the width, from where a name is set against the end
TICKS = 4  # at most, beside the beginning
STEPS = (1, 2, 5, 10, 15, 30)


def timeline(source: Source) -> Section | None:
    """The section; None where no stage ran, or the log of the run is not there."""
    turns = source.turns
    if not turns:
        return None
    scale = Scale(0.0, max(source.result.seconds, *(turn.ended for turn in turns), 1e-3))
    height = TOP + ROW * len(turns)
    picture = drawing(
        f"{count(len(turns), 'stage')} over {show(scale.high, 's')}",
        "A bar from when each stage was started until it was stored or failed; a dotted line while it waited.",
        *_axis(scale, height),
        *(mark for number, turn in enumerate(turns) for mark in _turn(source, turn, scale, TOP + ROW * number)),
        ident="timeline-drawing",
        class_="timeline",
        width="100%",
        height=height,
    )
    told = f"{count(len(turns), 'stage')} that ran"
    return Section("timeline", "Timeline", fold(told, picture) if len(turns) > FOLDED else picture)


def _axis(scale: Scale, height: int) -> Iterator[Markup]:
    step = step_of(scale.high)
    for number in range(math.floor(scale.high / step) + 1):
        at = scale.at(number * step)
        anchor = "start" if not number else "end" if scale.share(number * step) > 1 - LEAST * 20 else "middle"
        yield element("line", x1=at, x2=at, y1=TOP - 6, y2=height, class_="grid")
        yield element("text", show(number * step, "s"), x=at, y=11, text_anchor=anchor, class_="tick")


def step_of(length: float) -> float:
    """A round number of seconds, minutes or hours, of which the length holds a few."""
    unit = 3600.0 if length >= 2 * 3600 else 60.0 if length >= 2 * 60 else 10.0 ** (math.floor(math.log10(length)) - 1)
    while True:
        for step in STEPS:
            if length / (step * unit) <= TICKS:
                return step * unit
        unit *= STEPS[-1]


def _turn(source: Source, turn: Turn, scale: Scale, top: int) -> Iterator[Markup]:
    stage, middle = source.by_name[turn.stage], top + 24
    start, end = scale.share(turn.began), scale.share(turn.ended)
    seconds = stage_row(source.result, stage)[2]
    told = f"{turn.stage}, {seconds}" if seconds else turn.stage
    title = f"{turn.stage}: {stage.outcome}, from {show(turn.began, 's')} to {show(turn.ended, 's')} of the run"
    if turn.waited is not None and turn.waited < turn.began:
        waited = scale.share(turn.waited)
        yield element(
            "line", element("title", f"{turn.stage} waited for {turn.what}, {show(turn.began - turn.waited, 's')}"),
            x1=percent(waited), x2=percent(start), y1=middle, y2=middle, class_="waited",
        )  # fmt: skip
    at, anchor = (end, "end") if start > EDGE else (start, "start")
    yield element("text", told, x=percent(at), y=top + 15, text_anchor=anchor, class_="name")
    yield element(
        "rect", element("title", title), x=percent(start), width=percent(max(end - start, LEAST)),
        y=middle - BAR / 2, height=BAR, rx=2, class_=f"run {STYLES[stage.outcome]} {stage.outcome}",
    )  # fmt: skip
