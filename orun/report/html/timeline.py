"""When each stage waited and ran, as bars over the time of the run."""

from __future__ import annotations

import math
from collections.abc import Iterator

from orun.report.figures import count
from orun.report.html.parts import Scale, Section, drawing, fold, percent
from orun.report.html.source import Source, StageSpan
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
    spans = source.spans
    if not spans:
        return None
    scale = Scale(0.0, max(source.result.seconds, *(span.ended for span in spans), 1e-3))
    height = TOP + ROW * len(spans)
    picture = drawing(
        f"{count(len(spans), 'stage')} over {show(scale.high, 's')}",
        "A bar from when each stage was started until it was stored or failed; a dotted line while it waited.",
        *_axis(scale, height),
        *(mark for number, span in enumerate(spans) for mark in _span(source, span, scale, TOP + ROW * number)),
        ident="timeline-drawing",
        class_="timeline",
        width="100%",
        height=height,
    )
    ran = f"{count(len(spans), 'stage')} that ran"
    return Section("timeline", "Timeline", fold(ran, picture) if len(spans) > FOLDED else picture)


def _axis(scale: Scale, height: int) -> Iterator[Markup]:
    step = step_of(scale.high)
    for number in range(math.floor(scale.high / step) + 1):
        at = scale.at(number * step)
        anchor = "start" if not number else "end" if scale.share(number * step) > 1 - LEAST * 20 else "middle"
        yield element("line", x1=at, x2=at, y1=TOP - 6, y2=height, class_="grid")
        yield element("text", show(number * step, "s"), x=at, y=11, text_anchor=anchor, class_="tick")


def step_of(length: float) -> float:
    """Return a round number of seconds, minutes or hours that fits a few times into the length."""
    unit = 3600.0 if length >= 2 * 3600 else 60.0 if length >= 2 * 60 else 10.0 ** (math.floor(math.log10(length)) - 1)
    while True:
        for step in STEPS:
            if length / (step * unit) <= TICKS:
                return step * unit
        unit *= STEPS[-1]


def _span(source: Source, span: StageSpan, scale: Scale, top: int) -> Iterator[Markup]:
    stage, middle = source.by_name[span.stage], top + 24
    start, end = scale.share(span.began), scale.share(span.ended)
    seconds = stage_row(source.result, stage)[2]
    label = f"{span.stage}, {seconds}" if seconds else span.stage
    title = f"{span.stage}: {stage.outcome}, from {show(span.began, 's')} to {show(span.ended, 's')} of the run"
    if span.waited is not None and span.waited < span.began:
        waited = scale.share(span.waited)
        wait = f"{span.stage} waited for {span.waited_for}, {show(span.began - span.waited, 's')}"
        yield element(
            "line", element("title", wait),
            x1=percent(waited), x2=percent(start), y1=middle, y2=middle, class_="waited",
        )  # fmt: skip
    at, anchor = (end, "end") if start > EDGE else (start, "start")
    yield element("text", label, x=percent(at), y=top + 15, text_anchor=anchor, class_="name")
    yield element(
        "rect", element("title", title), x=percent(start), width=percent(max(end - start, LEAST)),
        y=middle - BAR / 2, height=BAR, rx=2, class_=f"run {STYLES[stage.outcome]} {stage.outcome}",
    )  # fmt: skip
