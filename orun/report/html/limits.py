"""A gate as a drawing: the measured value, its interval, and what the threshold allows."""

from __future__ import annotations

import math

from orun.core.metrics import Estimate
from orun.core.run_record import Verdict
from orun.report.gates import measured
from orun.report.html.parts import Scale, drawing, percent
from orun.report.html.tags import Markup, element
from orun.text.units import parse_duration, parse_ratio, parse_size, span, split

TOP, BAR, HEIGHT = 3, 22, 42  # where the field begins, how high it is, and the drawing with the words below
PERCENT = 100
SEEN = 0.05  # of the scale, that two values must be apart
EDGE = 0.18  # of the width, from where words are set against the end and not in the middle


def limit_of(verdict: Verdict) -> float | None:
    """Return the threshold in the unit of the measured value; None if it is no number."""
    try:
        if verdict.unit == "s":
            return parse_duration(verdict.threshold)
        if verdict.unit == "B":
            return float(parse_size(verdict.threshold))
        if verdict.unit == "ratio":
            return parse_ratio(verdict.threshold)
    except ValueError:
        return None
    parts = split(verdict.threshold)
    return parts[0] / (PERCENT if parts[1] == "%" else 1) if parts else None


def limit_drawing(verdict: Verdict, ident: str) -> Markup:
    """The drawing; nothing where no value was measured or there is no threshold."""
    limit, value = limit_of(verdict), verdict.measured
    if limit is None or value is None or math.isnan(value):
        return Markup()
    interval = verdict.interval or Estimate(value, value, value)
    change = verdict.rule not in ("min", "max")  # for which no change is a place of its own
    nothing = 1.0 if verdict.unit == "x" else 0.0
    scale = _scale(limit, value, interval, [nothing] if change else [])
    interval_text = span(verdict.interval, verdict.unit, verdict.threshold)
    title = f"{verdict.title}: {measured(verdict)}{f' ({interval_text})' if interval_text else ''}, {verdict.outcome}"
    return drawing(
        title,
        "The band is what the threshold allows, the bar is the 95 % interval, the dot is the measured value.",
        *_field(scale, limit, upper=not verdict.rule.startswith("min")),
        *([_mark(scale, nothing, "nothing")] if change and nothing != limit else []),
        _bar(scale, interval, verdict.outcome),
        element("circle", cx=scale.at(value), cy=TOP + BAR / 2, r=4.5, class_=f"dot {verdict.outcome}"),
        *([_word(scale, 0.0, "0")] if scale.low == 0 and scale.share(limit) > EDGE else []),
        _word(scale, limit, verdict.threshold),
        ident=ident,
        class_="limits",
        height=HEIGHT,
        width="100%",
    )


def _scale(limit: float, value: float, interval: Estimate, more: list[float]) -> Scale:
    """From 0 where the distance from the limit can be seen so, else around what is to be seen."""
    values = [limit, value, interval.low, interval.high, *more]
    top = max((number for number in values if math.isfinite(number)), default=0.0)
    if not more and min(values) >= 0 and abs(limit - value) >= SEEN * top:
        return Scale(0.0, Scale.of([0.0, *values], margin=0.12).high)
    return Scale.of(values, margin=0.12)


def _field(scale: Scale, limit: float, *, upper: bool) -> list[Markup]:
    """The whole width, the part of it that is allowed, and the line between."""
    share = scale.share(limit)
    start, width = (0.0, share) if upper else (share, 1 - share)
    return [
        element("rect", x=0, y=TOP, width="100%", height=BAR, rx=3, class_="field"),
        element("rect", x=percent(start), y=TOP, width=percent(width), height=BAR, rx=3, class_="allowed"),
        _mark(scale, limit, "limit"),
    ]


def _mark(scale: Scale, value: float, class_: str) -> Markup:
    return element("line", x1=scale.at(value), x2=scale.at(value), y1=TOP - 2, y2=TOP + BAR + 2, class_=class_)


def _bar(scale: Scale, interval: Estimate, outcome: str) -> Markup:
    low, high = scale.share(interval.low), scale.share(interval.high)
    middle = TOP + BAR / 2
    return element("rect", x=percent(low), y=middle - 3, width=percent(high - low), height=6, class_=f"bar {outcome}")


def _word(scale: Scale, value: float, text: str) -> Markup:
    share = scale.share(value)
    anchor = "start" if share < EDGE else "end" if share > 1 - EDGE else "middle"
    return element("text", text, x=percent(share), y=HEIGHT - 3, text_anchor=anchor, class_="tick")
