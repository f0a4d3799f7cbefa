"""Trends of the gated metrics: each measurement of the past, thresholds, and where the level changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from orun.history.changes import find_changes
from orun.history.points import Point as Measurement
from orun.history.points import Series
from orun.report.html.chart import Axis, Chart, Line, Point, Scale
from orun.report.html.limits import parse_limit
from orun.report.html.source import Source
from orun.report.trend import format_shift
from orun.text.counts import count
from orun.text.units import show_amount

NEWEST = 60  # measurements that are drawn
LABELS = 3  # of the horizontal axis


def view_trends(source: Source) -> list[Mapping[str, Any]]:
    """Return the trend of each gated metric that was measured more than once."""
    return [_view_trend(source, series) for series in source.series if len(series.points) > 1]


def _view_trend(source: Source, series: Series) -> Mapping[str, Any]:
    skipped = max(0, len(series.points) - NEWEST)
    shown = series.points[skipped:]
    unit = series.last.unit
    limits = _list_limits(source, series)
    shifts = [(change.index - skipped - 0.5, format_shift(change, series)) for change in find_changes(series)]
    inside = [change for change in shifts if change[0] > 0]
    drawn = [(float(number), point) for number, point in enumerate(shown) if math.isfinite(point.value)]
    values = [point.value for _, point in drawn]
    least, most = (show_amount(end(values, default=math.nan), unit) for end in (min, max))
    return {
        "name": series.name,
        "latest": show_amount(series.last.value, unit),
        "change": shifts[-1][1] if shifts else "",
        "chart": Chart(
            title=f"{series.name}: {count(len(shown), 'measurement')} between {least} and {most}",
            description=f"The level changed: {'; '.join(text for _, text in inside)}"
            if inside
            else "The level did not change.",
            x=Axis(
                f"{count(len(shown), 'run')}, from {shown[0].run} to {shown[-1].run}",
                Scale(0.0, float(len(shown) - 1)),
                _list_dates(shown),
            ),
            y=Axis.of(series.name, [*values, *(value for value, _ in limits)], unit),
            lines=[Line("line-0", [(place, point.value) for place, point in drawn])],
            points=[
                Point(
                    place,
                    point.value,
                    f"{show_amount(point.value, unit)} in run {point.run}",
                    "last" if point is series.last else "point",
                )
                for place, point in drawn
            ],
            limits=[value for value, _ in limits],
            changes=inside,
            legend=[
                *(("threshold", text) for _, text in limits),
                *([("change", "the level changed")] if inside else []),
            ],
        ),
    }


def _list_limits(source: Source, series: Series) -> list[tuple[float, str]]:
    """Return the absolute thresholds of a metric; those of changes have no place among its values."""
    verdicts = {
        (limit, verdict.condition): None
        for verdict in source.result.verdicts
        if f"{verdict.stage}.{verdict.metric}" == series.name and verdict.rule in ("min", "max")
        for limit in [parse_limit(verdict)]
        if limit is not None
    }
    return list(verdicts)


def _list_dates(points: Sequence[Measurement]) -> list[str]:
    """Return the days of the first, the middle and the last point; the time of day, too, if they are one day's."""
    middle = [points[len(points) // 2]] if len(points) % 2 and len(points) >= LABELS else []
    times = [datetime.fromtimestamp(point.measured_at, UTC) for point in (points[0], *middle, points[-1])]
    one_day = len({time.date() for time in times}) == 1
    return [time.strftime("%Y-%m-%d %H:%M" if one_day and number == 0 else "%H:%M" if one_day else "%Y-%m-%d")
            for number, time in enumerate(times)]  # fmt: skip
