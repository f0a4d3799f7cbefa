"""Latency: the times of all inferences of a model and its reference, as distributions.

An empirical distribution function shows for each time which share of the inferences took no longer. The further left a
line, the faster the model. A tail to the right is a model that is sometimes slow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orun.core.run_record import StageResult
from orun.report.html.chart import Axis, Chart, Line, Scale
from orun.report.html.source import Source
from orun.report.html.stored import read_samples
from orun.text.units import show

CURVES = ("model", "reference", "baseline")  # by the names of `measure/latency`, in the order of the legend
STEPS = 100  # parts of a curve
CUT = 0.95  # share of the times that the axis shows: single late ones would squeeze the rest
SHARES = Axis("share of the inferences", Scale(0.0, 1.0), ("0 %", "25 %", "50 %", "75 %", "100 %"))


def view_latency(source: Source) -> list[tuple[str, Chart]]:
    """Return a chart for each stage whose samples are stored, with the stage's name."""
    stages = [stage for stage in source.result.stages if stage.uses in ("measure/latency", "measure/web")]
    return [(stage.stage, _build_chart(stage, times)) for stage in stages if (times := _read_times(source, stage))]


def _read_times(source: Source, stage: StageResult) -> Mapping[str, Sequence[float]]:
    """Return the sorted wall times of each model in seconds, in the order of the legend."""
    content = source.stored.contents.get(stage.stage)
    try:
        samples = read_samples(content) if content else {}
    except ValueError:
        return {}
    times = {name: sorted(samples[f"{name}.wall"]) for name in CURVES if samples.get(f"{name}.wall")}
    alone = samples.get("alone.wall")
    return times or ({"model": sorted(alone)} if alone else {})


def _quantile(times: Sequence[float], share: float) -> float:
    return times[min(int(share * len(times)), len(times) - 1)]


def _build_chart(stage: StageResult, curves: Mapping[str, Sequence[float]]) -> Chart:
    low = min(times[0] for times in curves.values())
    high = max(_quantile(times, CUT) for times in curves.values())
    medians = ", ".join(f"{name} {show(_quantile(times, 0.5), 's')}" for name, times in curves.items())
    styles = {name: f"line-{number}" for number, name in enumerate(curves)}
    axis = Axis.of("wall time of an inference", (low, high), "s")
    return Chart(
        title=f"Wall times of the inferences of {stage.stage}",
        description=f"Share of the inferences that took no longer than a time. Medians: {medians}.",
        x=axis,
        y=SHARES,
        lines=[Line(styles[name], _build_curve(times, axis.scale.high)) for name, times in curves.items()],
        legend=[(styles[name], _summarize(name, times)) for name, times in curves.items()],
    )


def _build_curve(times: Sequence[float], end: float) -> list[tuple[float, float]]:
    """Return points of the distribution, those beyond the end of the axis left out."""
    points = [(_quantile(times, step / STEPS), step / STEPS) for step in range(STEPS + 1)]
    return [point for point in points if point[0] <= end]


def _summarize(name: str, times: Sequence[float]) -> str:
    median, p90 = (show(_quantile(times, share), "s") for share in (0.5, 0.9))
    return f"{name}: median {median}, p90 {p90}, {len(times):,} inferences"
