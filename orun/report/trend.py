"""Trends of measurements over runs, for people."""

from __future__ import annotations

import math
from collections.abc import Sequence

from orun.core.metrics import Better, Estimate
from orun.core.run_record import RunResult
from orun.errors import StoreError
from orun.history.changes import Change, find_changes
from orun.history.database import History
from orun.history.points import Point, Series
from orun.history.search import find_past
from orun.report.figures import format_age, format_minute
from orun.report.run_options import find_store
from orun.report.table import Cell, Column, render
from orun.report.terminal import Style, Terminal
from orun.store.layout import locate_history
from orun.text.counts import count
from orun.text.markdown import format_table
from orun.text.units import show_amount, show_change, show_interval

OVERVIEW = (
    Column("pipeline"),
    Column("metric", flexible=True),
    Column("host"),
    Column("", "right"),
    Column("trend"),
    Column("latest", "right"),
    Column("when"),
    Column("last change", flexible=True),
)
TREND = ("metric", "measured", "trend", "latest", "last change")
POINTS = (
    Column("measured (UTC)"),
    Column("value", "right"),
    Column("95 % interval"),
    Column("to the one before", "right"),
    Column("age"),
    Column("run"),
)


BARS = "▁▂▃▄▅▆▇█"
WIDEST = 40  # values of a sparkline


def draw_sparkline(values: Sequence[float]) -> str:
    """Draw the newest values as bars between their least and their largest; an x for what is no finite number."""
    shown = values[-WIDEST:]
    finite = [value for value in shown if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return "".join(_choose_bar(value, low, high) if math.isfinite(value) else "x" for value in shown)


def _choose_bar(value: float, low: float, high: float) -> str:
    if high == low:
        return BARS[len(BARS) // 2]
    share = (value / 2 - low / 2) / (high / 2 - low / 2)  # the whole range may be too large for a number
    return BARS[round(share * (len(BARS) - 1))]


def read_past(result: RunResult) -> tuple[Sequence[Series], str]:
    """Return the past of a run's gated metrics on its machine, or why the history cannot be read."""
    try:
        return find_past(History(locate_history(find_store(result))), result), ""
    except StoreError as error:  # the run has its verdicts; only its past is missing
        return (), error.problem


def format_overview(all_series: Sequence[Series], now: float, terminal: Terminal) -> list[str]:
    """Return a line for each series."""
    return render(OVERVIEW, [_build_overview_row(series, now) for series in all_series], terminal)


def _build_overview_row(series: Series, now: float) -> list[Cell]:
    last = series.last
    shifts = find_changes(series)
    return [
        Cell(last.pipeline),
        Cell(series.name, "strong"),
        Cell(_format_machine(last)),
        Cell(f"{len(series.points)}x"),
        Cell(draw_sparkline(series.values)),
        Cell(show_amount(last.value, last.unit)),
        Cell(format_age(now - last.measured_at)),
        Cell(format_shift(shifts[-1], series), _choose_style(shifts[-1], last.better)) if shifts else Cell(""),
    ]


def format_markdown(all_series: Sequence[Series]) -> str:
    """Return a section with a line for each series that has a past; empty where none has."""
    rows = [build_trend_cells(series) for series in all_series if len(series.points) > 1]
    return f"\n### Trend on this machine\n\n{format_table(TREND, rows)}\n" if rows else ""


def build_trend_cells(series: Series) -> list[str]:
    """Return a series as a line of a report, under the titles `TREND`."""
    last, last_change = series.last, ""
    for change in find_changes(series)[-1:]:
        moment = format_minute(series.points[change.index].measured_at)
        last_change = f"{format_shift(change, series)} on {moment}{_name_runtime(series, change.index)}"
    return [
        series.name,
        f"{len(series.points)}x",
        draw_sparkline(series.values),
        show_amount(last.value, last.unit),
        last_change,
    ]


def format_detail(series: Series, now: float, terminal: Terminal, limit: int) -> list[str]:
    """Return one series: its trend, its newest changes, and its newest measurements; `limit` of each at most."""
    last, points = series.last, series.points
    title = f"{last.pipeline} {series.name} on {_format_machine(last)}: {count(len(points), 'measurement')}"
    rows = [
        _build_point_row(points[number - 1] if number else None, points[number], now)
        for number in range(max(0, len(points) - limit), len(points))
    ]
    shifts = find_changes(series)
    lines = [f"{count(len(shifts) - limit, 'change')} before these"] if len(shifts) > limit else []
    lines += [
        f"changed {format_minute(points[change.index].measured_at)}: {_describe_shift(change, series, terminal)}"
        for change in shifts[-limit:]
    ]
    return [
        terminal.paint(title, "strong"),
        draw_sparkline(series.values),
        *lines,
        "",
        *render(POINTS, rows, terminal),
    ]


def format_shift(change: Change, series: Series) -> str:
    """Return `8.04 ms -> 8.52 ms (+6.0 %)`."""
    unit = series.last.unit
    moved = show_change(change.before, change.after, unit)
    relative = f" ({moved})" if moved else ""
    return f"{show_amount(change.before, unit)} -> {show_amount(change.after, unit)}{relative}"


def _describe_shift(change: Change, series: Series, terminal: Terminal) -> str:
    text = terminal.paint(format_shift(change, series), _choose_style(change, series.last.better))
    run = series.points[change.index].run
    place = f", p = {change.p:.3f}, from run {run} on" if change.p else f" in run {run}"
    return f"{text}{place}{_name_runtime(series, change.index)}"


def _name_runtime(series: Series, index: int) -> str:
    """Return `, the first with onnxruntime 1.31 after onnxruntime 1.24` where a change came with another runtime."""
    before, now = (series.points[number].runtime for number in (index - 1, index))
    return f", the first with {now} after {before}" if before and now and before != now else ""


def _choose_style(change: Change, better: Better) -> Style:
    if better == "neither" or change.after == change.before:
        return ""
    return "good" if (change.after > change.before) == (better == "higher") else "bad"


def _build_point_row(before: Point | None, point: Point, now: float) -> list[Cell]:
    interval = None if point.low is None or point.high is None else Estimate(point.value, point.low, point.high)
    relative = show_change(before.value, point.value, point.unit) if before else ""
    return [
        Cell(format_minute(point.measured_at)),
        Cell(show_amount(point.value, point.unit)),
        Cell(show_interval(interval, point.unit)),
        Cell(relative),
        Cell(format_age(now - point.measured_at)),
        Cell(point.run),
    ]


def _format_machine(point: Point) -> str:
    return f"{point.host} ({point.machine})"
