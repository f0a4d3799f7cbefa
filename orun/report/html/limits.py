"""Drawing of a gate: the measured value, its interval, and what the threshold allows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from orun.core.metrics import Estimate
from orun.core.verdict import Verdict
from orun.report.gates import format_interval, show_measured
from orun.report.html.chart import Scale
from orun.text.units import parse_duration, parse_ratio, parse_size, split

PERCENT = 100
SEEN = 0.05  # of the scale, that two values must be apart
EDGE = 0.18  # of the width, from where a label is set against the end and not in the middle

Label = tuple[float, str, str]  # place, anchor, text


@dataclass(frozen=True)
class LimitDrawing:
    """Places of what is drawn, from 0 to 1.

    Attributes:
        title: in words.
        outcome: of the gate.
        allowed, interval: start and width.
        limit: the threshold.
        value: what was measured.
        unchanged: no change, for a gate on a change; None if it is the threshold.
        labels: below the drawing.
    """

    title: str
    outcome: str
    allowed: tuple[float, float]
    interval: tuple[float, float]
    limit: float
    value: float
    unchanged: float | None
    labels: tuple[Label, ...]


def parse_limit(verdict: Verdict) -> float | None:
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


def draw_limit(verdict: Verdict) -> LimitDrawing | None:
    """Return the drawing; None if no value was measured or there is no threshold."""
    limit, value = parse_limit(verdict), verdict.measured
    if limit is None or value is None or math.isnan(value):
        return None
    interval = verdict.interval or Estimate(value, value, value)
    is_change = verdict.rule not in ("min", "max")
    unchanged = 1.0 if verdict.unit == "x" else 0.0
    scale = _choose_scale(limit, value, interval, [unchanged] if is_change else [])
    share, low, high = map(scale.compute_share, (limit, interval.low, interval.high))
    interval_text = format_interval(verdict)
    return LimitDrawing(
        title=f"{verdict.title}: {show_measured(verdict)}{f' ({interval_text})' if interval_text else ''}, "
        f"{verdict.outcome}",
        outcome=verdict.outcome,
        allowed=(share, 1 - share) if verdict.rule.startswith("min") else (0.0, share),
        interval=(low, high - low),
        limit=share,
        value=scale.compute_share(value),
        unchanged=scale.compute_share(unchanged) if is_change and unchanged != limit else None,
        labels=tuple(_iter_labels(scale, share, verdict.threshold)),
    )


def _choose_scale(limit: float, value: float, interval: Estimate, more: list[float]) -> Scale:
    """Return a scale from 0 if the distance from the limit can be seen on it, else around the values."""
    values = [limit, value, interval.low, interval.high, *more]
    top = max((number for number in values if math.isfinite(number)), default=0.0)
    if not more and min(values) >= 0 and abs(limit - value) >= SEEN * top:
        return Scale(0.0, Scale.of([0.0, *values], margin=0.12).high)
    return Scale.of(values, margin=0.12)


def _iter_labels(scale: Scale, limit: float, threshold: str) -> Iterator[Label]:
    if scale.low == 0 and limit > EDGE:
        yield 0.0, "start", "0"
    yield limit, "start" if limit < EDGE else "end" if limit > 1 - EDGE else "middle", threshold
