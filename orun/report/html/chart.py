"""Charts and bars as numbers, which templates draw."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orun.core.metrics import UNBOUNDED, Unit

SIDE = 1000  # length of the sides of a chart's coordinates
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
INTERVALS = 4  # between ticks, at most
SCALES: Mapping[Unit, Sequence[tuple[float, str]]] = {
    "s": ((1e-9, " ns"), (1e-6, " µs"), (1e-3, " ms"), (1.0, " s"), (60.0, " min"), (3600.0, " h")),
    "B": ((1.0, " B"), (1e3, " kB"), (1e6, " MB"), (1e9, " GB")),
    "J": ((1e-6, " µJ"), (1e-3, " mJ"), (1.0, " J"), (1e3, " kJ")),
    "ratio": ((0.01, " %"),),
    "x": ((1.0, "x"),),
    "1/s": ((1.0, "/s"),),
    "": ((1.0, ""),),
}


def format_percent(share: float) -> str:
    """Return `12.5%`."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


@dataclass(frozen=True)
class Scale:
    """Range of numbers, placed between 0 % and 100 % of a width."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float], margin: float = 0.08) -> Scale:
        """Return the scale that shows all finite values, with a margin relative to their range."""
        finite = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(finite), max(finite)
        padding = margin * (high / 2 - low / 2) * 2  # their difference may be infinite
        if low == high:
            padding = abs(high) * margin or 1.0
        return cls(max(low - padding, -UNBOUNDED), min(high + padding, UNBOUNDED))

    def compute_share(self, value: float) -> float:
        """Return a place from 0 to 1; an end for values beyond it and for those that are no number."""
        if math.isnan(value):
            return 0.0
        width = self.high / 2 - self.low / 2
        return min(max((value / 2 - self.low / 2) / width, 0.0), 1.0) if math.isfinite(value) else float(value > 0)

    def locate(self, value: float) -> str:
        """Return the place in a drawing: `12.5%`."""
        return format_percent(self.compute_share(value))


@dataclass(frozen=True)
class Axis:
    """Axis of a chart: its title, its range, and labels at equal distances from its low to its high end."""

    title: str
    scale: Scale
    ticks: Sequence[str]

    @classmethod
    def of(cls, title: str, values: Iterable[float], unit: Unit = "") -> Axis:
        """Return the axis over all finite values whose ticks are round numbers."""
        finite = [value for value in values if math.isfinite(value)] or [0.0]
        bounds = Scale(min(finite), max(finite)) if len(set(finite)) > 1 else Scale.of(finite)
        largest = max(abs(bounds.low), abs(bounds.high))
        factor, suffix = next((scale for scale in reversed(SCALES[unit]) if scale[0] <= largest), SCALES[unit][0])
        step = _round_step((bounds.high - bounds.low) / factor / INTERVALS)
        if not math.isfinite(step):  # values near the largest number
            return cls(title, bounds, (f"{bounds.low:.2g}", f"{bounds.high:.2g}"))
        first, last = math.floor(bounds.low / factor / step), math.ceil(bounds.high / factor / step)
        labels = [f"{text}{suffix}" for text in _format_labels(range(first, last + 1), step)]
        return cls(title, Scale(first * step * factor, last * step * factor), labels)

    def locate_across(self, value: float) -> float:
        """Return the horizontal place of a value."""
        return round(SIDE * self.scale.compute_share(value), 1)

    def locate_down(self, value: float) -> float:
        """Return the vertical place of a value, from the top."""
        return round(SIDE * (1 - self.scale.compute_share(value)), 1)


def _round_step(least: float) -> float:
    magnitude = 10.0 ** math.floor(math.log10(least)) if math.isfinite(least) else math.inf
    return next((step * magnitude for step in STEPS if step * magnitude >= least), math.inf)


def _format_labels(multiples: Iterable[int], step: float) -> list[str]:
    """Return the multiples of a step with as many digits as the step has."""
    magnitude = math.floor(math.log10(step) + 1e-9)
    quarter = math.isclose(step, 2.5 * 10.0**magnitude)  # has one digit more
    return [f"{multiple * step:,.{max(0, quarter - magnitude)}f}" for multiple in multiples]


@dataclass(frozen=True)
class Line:
    """Line through points of a chart."""

    style: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Point:
    """Point of a chart; the title is shown when one points at it."""

    x: float
    y: float
    title: str
    style: str = "point"


@dataclass(frozen=True)
class Chart:
    """Lines and points over two axes.

    Attributes:
        title, description: what it shows, for readers who do not see it.
        x, y: its axes.
        lines, points: in the coordinates of the axes.
        limits: thresholds, at places of the vertical axis.
        changes: places of the horizontal axis at which something changed, with the change.
        legend: pairs of a style and a text.
    """

    title: str
    description: str
    x: Axis
    y: Axis
    lines: Sequence[Line] = ()
    points: Sequence[Point] = ()
    limits: Sequence[float] = ()
    changes: Sequence[tuple[float, str]] = ()
    legend: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Bar:
    """Part of a row's width, from 0 to 1; the title is shown when one points at it."""

    start: float
    width: float
    style: str
    title: str = ""


@dataclass(frozen=True)
class BarRow:
    """Row of a table whose last cell is a picture: a name, figures, bars.

    The name links to the element with the id `target`, unless that is empty.
    """

    name: str
    figures: Sequence[str]
    bars: Sequence[Bar]
    target: str = ""
