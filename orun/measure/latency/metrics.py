"""Latency metrics: figures of the launches, and how they compare with the other models'."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from orun.core.metrics import Comparison, Disturbance, Estimate, Metric, make_unknown, with_comparisons
from orun.core.serialization import replace
from orun.measure.benchmark_case import MODEL
from orun.measure.latency.cpu_time import Floats
from orun.measure.latency.launch import Launch
from orun.measure.latency.measurement import Measurement, get_shared_variance
from orun.measure.latency.quantiles import estimate_quantile, quantile
from orun.measure.latency.sequential_test import Evidence
from orun.measure.latency.timing_method import Method

TimesFigure = Callable[[Floats], float]  # a figure of the wall times of inferences
LaunchFigure = Callable[[Launch, str], float]  # a figure of a model in a launch

METHODS: Mapping[Method, str] = {
    "thread": "paired on-CPU time",
    "threads": "paired on-CPU time of the calling thread",
    "process": "paired CPU time of the process",
    "wall": "paired wall time",
}
QUANTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
WALL: Mapping[str, TimesFigure] = {
    "mean": lambda wall: float(wall.mean()),
    "min": lambda wall: float(wall.min()),
    "max": lambda wall: float(wall.max()),
}
SESSION: Mapping[str, LaunchFigure] = {
    "load": lambda launch, name: launch.sessions[name].load,
    "first": lambda launch, name: launch.sessions[name].first,
}
STREAMED: Mapping[str, LaunchFigure] = {
    "device": lambda launch, name: float(np.median(launch.streamed[name].device)),
    "host": lambda launch, name: float(np.median(launch.streamed[name].host)),
}


def build_metrics(measurement: Measurement, batch: int) -> dict[str, Metric]:
    """Return the metrics of a measurement by name.

    Args:
        measurement: the launches.
        batch: examples in an inference.

    Returns:
        `speedup` only if a reference was measured; `device` and `host` only if inferences were timed on the device's
        stream.
    """
    metrics = {name: _build_quantile(measurement, share) for name, share in QUANTILES.items()}
    metrics |= {name: _build_wall(measurement, figure) for name, figure in WALL.items()}
    metrics["cpu"] = _build_cpu(measurement)
    for name in ("p50", "cpu"):
        metrics[name] = _compare(metrics[name], measurement, measurement.weigh_evidence)
    metrics["throughput"] = _build_throughput(metrics["mean"], batch)
    metrics |= {
        name: _build_launch_metric(measurement, figure, measurement.compared, "one of each in a launch")
        for name, figure in SESSION.items()
    }
    if "reference" in measurement.compared:
        metrics["speedup"] = _build_speedup(measurement)
    if streamed := measurement.launches[0].streamed:
        compared = [name for name in measurement.compared if name in streamed]
        method = "in turn on the device's stream"
        metrics |= {
            name: _build_launch_metric(measurement, figure, compared, method) for name, figure in STREAMED.items()
        }
    return metrics


def _build_quantile(measurement: Measurement, share: float) -> Metric:
    estimate = estimate_quantile([launch.alone.wall.tolist() for launch in measurement.launches], share)
    return _compare_wall(_build_timed(estimate), measurement, lambda wall: quantile(sorted(wall.tolist()), share))


def _build_wall(measurement: Measurement, figure: TimesFigure) -> Metric:
    """Return a figure of all inferences of the model alone; its interval comes from the figures of the launches."""
    value = figure(np.concatenate([launch.alone.wall for launch in measurement.launches]))
    ratio = Evidence.from_log_ratios([math.log(figure(launch.alone.wall)) for launch in measurement.launches]).ratio
    estimate = Estimate(value, min(ratio.low, value), max(ratio.high, value))
    return _compare_wall(_build_timed(estimate), measurement, figure)


def _build_cpu(measurement: Measurement) -> Metric:
    """Return the time of an inference by the launches' method, without comparisons."""
    seconds = [launch.inference_seconds[MODEL] for launch in measurement.counted]
    return _widen_disturbed(_build_timed(_average_geometrically(seconds)), measurement.disturbance)


def _build_launch_metric(
    measurement: Measurement, figure: LaunchFigure, compared: Iterable[str], method: str
) -> Metric:
    """Return a figure that each launch has once for each model."""
    launches = measurement.launches
    metric = _build_timed(_average_geometrically([figure(launch, MODEL) for launch in launches]))
    comparisons = {
        other: _build_comparison(
            metric.value,
            Evidence.from_log_ratios(_list_log_ratios(launches, other, figure), get_shared_variance(other)),
            method,
        )
        for other in compared
    }
    return with_comparisons(metric, comparisons)


def _average_geometrically(values: Iterable[float]) -> Estimate:
    return Evidence.from_log_ratios([math.log(value) for value in values]).ratio


def _build_timed(estimate: Estimate) -> Metric:
    return Metric(estimate.value, "s", "lower", "timing", estimate)


def _widen_disturbed(metric: Metric, disturbance: Disturbance | None) -> Metric:
    """Return the metric, with an interval without ends if threads waited for a core in too many launches."""
    if not (disturbance and disturbance.total):
        return metric
    return replace(metric, interval=make_unknown(metric.value), disturbance=disturbance)


def _compare_wall(metric: Metric, measurement: Measurement, figure: TimesFigure) -> Metric:
    """Add comparisons by wall time of the interleaved inferences."""

    def summarize_ratios(other: str) -> Evidence:
        launches = measurement.select_launches(other)
        ratios = _list_log_ratios(launches, other, lambda launch, name: figure(launch.interleaved[name].wall))
        return measurement.summarize(ratios, other)

    return _compare(metric, measurement, summarize_ratios, "paired wall time")


def _list_log_ratios(launches: Iterable[Launch], other: str, figure: LaunchFigure) -> list[float]:
    return [math.log(figure(launch, MODEL) / figure(launch, other)) for launch in launches]


def _compare(
    metric: Metric, measurement: Measurement, evidence_of: Callable[[str], Evidence], method: str = ""
) -> Metric:
    """Add a comparison with each other model; an empty `method` is that of the launches."""
    method = method or METHODS[measurement.launches[0].method]
    comparisons = {
        other: _build_comparison(metric.value, evidence_of(other), method, measurement.find_disturbance(other))
        for other in measurement.compared
    }
    return with_comparisons(metric, comparisons)


def _build_comparison(
    value: float, evidence: Evidence, method: str, disturbance: Disturbance | None = None
) -> Comparison:
    """Return the comparison of a value; the other model's value follows from the ratio.

    Args:
        value: the model's own value.
        evidence: evidence on the ratio of the models' times.
        method: how they were compared, for people.
        disturbance: if threads waited for a core, nothing is known of the ratio: intervals have no ends.
    """
    ratio = make_unknown(evidence.ratio.value) if disturbance and disturbance.total else evidence.ratio
    other = value / ratio.value
    text, count = f"{method}, {evidence.count} launches", evidence.count
    return Comparison(
        other, ratio, _compute_difference(other, ratio), text, count, spread=evidence.spread, disturbance=disturbance
    )


def _compute_difference(other: float, ratio: Estimate) -> Estimate:
    return Estimate(*(other * (factor - 1) for factor in (ratio.value, ratio.low, ratio.high)))


def _build_throughput(mean: Metric, batch: int) -> Metric:
    """Return the examples per second, one inference after another: the inverse of the mean."""
    interval = mean.interval and Estimate(batch / mean.value, batch / mean.interval.high, batch / mean.interval.low)
    value = batch / mean.value
    return Metric(
        value,
        "1/s",
        "higher",
        "timing",
        interval,
        mean.reference and _invert(value, mean.reference),
        mean.baseline and _invert(value, mean.baseline),
        {name: _invert(value, comparison) for name, comparison in mean.references.items()},
    )


def _invert(value: float, comparison: Comparison) -> Comparison:
    """Return the comparison of times as the comparison of the rate `value`."""
    other, ratio = value * comparison.ratio.value, comparison.ratio
    inverse = Estimate(1 / ratio.value, 1 / ratio.high, 1 / ratio.low)
    if comparison.disturbance and comparison.disturbance.total:
        inverse = make_unknown(inverse.value)
    return replace(comparison, value=other, ratio=inverse, difference=_compute_difference(other, inverse))


def _build_speedup(measurement: Measurement) -> Metric:
    """Return how many times faster than the reference the model is; comparisons are those of the times, inverted."""
    ratio, disturbance = (
        measurement.weigh_evidence("reference").invert().ratio,
        measurement.find_disturbance("reference"),
    )
    metric = _widen_disturbed(Metric(ratio.value, "x", "higher", "timing", ratio, disturbance=disturbance), disturbance)
    return _compare(metric, measurement, lambda other: measurement.weigh_evidence(other).invert())
