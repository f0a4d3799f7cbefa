"""Section on trends: a point for each measurement of the gated metrics, and change points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from orun.history.changes import changes
from orun.history.points import Series
from orun.report.html.parts import Scale, Section, cell, drawing, percent, row, table
from orun.report.html.source import Source
from orun.report.html.tags import Markup, element
from orun.report.trend import TREND, shift, trend_cells
from orun.text.units import amount

NEWEST = 60  # measurements that are drawn
HEIGHT, EDGE, SIDE = 56, 8, 0.03  # of a drawing; of its margins in pixels, and of its width


def trends(source: Source) -> Section | None:
    """The section; None where no gated metric has a past."""
    rows = [
        row(
            element("th", element("bdi", name), scope="row", role="rowheader"),
            cell(times, TREND[1], class_="right"),
            cell(_line(series, f"trend-{number}"), class_="picture"),
            cell(latest, TREND[3], class_="right"),
            cell(change, TREND[4]),
        )
        for number, series in enumerate(
            (metric_series for metric_series in source.series if len(metric_series.points) > 1), 1
        )
        for name, times, _, latest, change in [trend_cells(series)]
    ]
    if not rows:
        return None
    alignments = ("left", "right", "left", "right", "left")
    titles = list(zip(TREND, alignments, strict=True))
    return Section("trend", "Trend on this machine", table(titles, rows, "Gated metrics over the runs", "trends"))


def _line(series: Series, ident: str) -> Markup:
    """The newest measurements from left to right; a dashed line where the level changed."""
    skipped = max(0, len(series.values) - NEWEST)
    values = series.values[skipped:]
    scale = Scale.of(values, margin=0.0)
    shifts = [change for change in changes(series) if change.index >= skipped]
    finite = [value for value in values if math.isfinite(value)] or [math.nan]
    unit = series.last.unit
    summary = f"{len(values)} measurements between {amount(min(finite), unit)} and {amount(max(finite), unit)}"
    changed = "; ".join(shift(change, series) for change in shifts)
    return drawing(
        f"{series.name}: {summary}",
        f"The level changed: {changed}" if changed else "The level did not change.",
        *(_change(change.index - skipped, len(values), shift(change, series)) for change in shifts),
        *_steps(values, scale),
        *_points(series, skipped, scale),
        ident=ident,
        class_="trend",
        width="100%",
        height=HEIGHT,
    )


def _across(number: float, length: int) -> str:
    return percent(SIDE + (1 - 2 * SIDE) * (number / (length - 1) if length > 1 else 0.5))


def _down(value: float, scale: Scale) -> float:
    return round(HEIGHT - EDGE - scale.share(value) * (HEIGHT - 2 * EDGE), 1)


def _steps(values: tuple[float, ...], scale: Scale) -> Iterator[Markup]:
    for number, (value, next_value) in enumerate(itertools.pairwise(values)):
        if math.isfinite(value) and math.isfinite(next_value):
            yield element(
                "line", x1=_across(number, len(values)), y1=_down(value, scale),
                x2=_across(number + 1, len(values)), y2=_down(next_value, scale), class_="step",
            )  # fmt: skip


def _points(series: Series, skipped: int, scale: Scale) -> Iterator[Markup]:
    shown = series.points[skipped:]
    for number, point in enumerate(shown):
        if math.isfinite(point.value):
            last = number == len(shown) - 1
            title = element("title", f"{amount(point.value, point.unit)} in run {point.run}")
            yield element(
                "circle", title, cx=_across(number, len(shown)), cy=_down(point.value, scale), r=4 if last else 2.5,
                class_="last" if last else "point",
            )  # fmt: skip


def _change(number: int, length: int, text: str) -> Markup:
    at = _across(number - 0.5, length)
    return element("line", element("title", text), x1=at, x2=at, y1=1, y2=HEIGHT - 1, class_="change")
