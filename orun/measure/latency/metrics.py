"""From launches to metrics: what people read, and how it compares."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from orun.core.metrics import Comparison, Disturbance, Estimate, Metric, further, unknown
from orun.core.serialization import replace
from orun.measure.latency.abba_blocks import MODEL, Launch, Method
from orun.measure.latency.cpu_time import Floats
from orun.measure.latency.measurement import Measurement, shared
from orun.measure.latency.quantiles import bounded, quantile
from orun.measure.latency.sequential_test import Evidence

OfTimes = Callable[[Floats], float]  # a figure of the wall times of inferences
OfLaunch = Callable[[Launch, str], float]  # a figure of a model in a launch

METHODS: Mapping[Method, str] = {
    "thread": "paired on-CPU time",
    "threads": "paired on-CPU time of the calling thread",
    "process": "paired CPU time of the process",
    "wall": "paired wall time",
}
QUANTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
WALL: Mapping[str, OfTimes] = {
    "mean": lambda wall: float(wall.mean()),
    "min": lambda wall: float(wall.min()),
    "max": lambda wall: float(wall.max()),
}
ONCE: Mapping[str, OfLaunch] = {
    "load": lambda launch, name: launch.opened[name].load,
    "first": lambda launch, name: launch.opened[name].first,
}
STREAMED: Mapping[str, OfLaunch] = {
    "device": lambda launch, name: float(np.median(launch.streamed[name].device)),
    "host": lambda launch, name: float(np.median(launch.streamed[name].host)),
}
NAMES = (
    *("p50", "p90", "p95", "p99", "mean", "min", "max", "cpu", "throughput", "load", "first", "speedup"),
    *STREAMED,
)


def metrics_of(measurement: Measurement, batch: int) -> dict[str, Metric]:
    """The metrics of a measurement by name, in the order of `NAMES`.

    Args:
        measurement: the launches.
        batch: examples in an inference.

    Returns:
        `speedup` is there only when a reference was measured, `device` and `host` only where inferences were timed on
        the device's stream.
    """
    metrics = {name: _of_quantile(measurement, share) for name, share in QUANTILES.items()}
    metrics |= {name: _of_wall(measurement, figure) for name, figure in WALL.items()}
    metrics |= {name: _of_launches(measurement, figure) for name, figure in ONCE.items()}
    metrics["cpu"] = _cpu(measurement)
    for name in ("p50", "cpu"):
        metrics[name] = _compared(metrics[name], measurement, measurement.evidence)
    metrics["throughput"] = _throughput(metrics["mean"], batch)
    if "reference" in measurement.others:
        metrics["speedup"] = _speedup(measurement)
    if measurement.launches[0].streamed:
        metrics |= {name: _of_streams(measurement, figure) for name, figure in STREAMED.items()}
    return {name: metrics[name] for name in NAMES if name in metrics}


def _of_quantile(measurement: Measurement, share: float) -> Metric:
    estimate = bounded([one.alone.wall.tolist() for one in measurement.launches], share)
    return _beside(_timed(estimate), measurement, lambda wall: quantile(sorted(wall.tolist()), share))


def _of_wall(measurement: Measurement, figure: OfTimes) -> Metric:
    """Of all inferences alone together; the interval is that of the launches."""
    value = figure(np.concatenate([one.alone.wall for one in measurement.launches]))
    found = Evidence.of([math.log(figure(one.alone.wall)) for one in measurement.launches]).ratio
    estimate = Estimate(value, min(found.low, value), max(found.high, value))
    return _beside(_timed(estimate), measurement, figure)


def _of_launches(measurement: Measurement, figure: OfLaunch) -> Metric:
    return _once(measurement, figure, measurement.others, "one of each in a launch")


def _cpu(measurement: Measurement) -> Metric:
    """Seconds on the CPU of an inference beside the other models, not compared yet."""
    metric = _timed(Evidence.of([math.log(one.busy[MODEL]) for one in measurement.counted]).ratio)
    return _disturbed(metric, measurement)


def _of_streams(measurement: Measurement, figure: OfLaunch) -> Metric:
    """Compared with those of the others that were timed on a stream, too."""
    others = [name for name in measurement.others if name in measurement.launches[0].streamed]
    return _once(measurement, figure, others, "in turn on the device's stream")


def _once(measurement: Measurement, figure: OfLaunch, others: Iterable[str], method: str) -> Metric:
    """A figure that a launch has once for a model."""
    launches = measurement.launches
    metric = _timed(Evidence.of([math.log(figure(one, MODEL)) for one in launches]).ratio)
    found = {other: _comparison(metric.value, _each(launches, other, figure), method) for other in others}
    return _beside_others(metric, found)


def _timed(estimate: Estimate) -> Metric:
    return Metric(estimate.value, "s", "lower", "timing", estimate)


def _disturbed(metric: Metric, measurement: Measurement) -> Metric:
    """The metric, of whose value nothing is known if too many launches were disturbed."""
    if not measurement.disturbance:
        return metric
    return replace(metric, interval=unknown(metric.value), disturbance=measurement.disturbance)


def _beside(metric: Metric, measurement: Measurement, figure: OfTimes) -> Metric:
    """Compared by the wall times in the quads, in which the models took turns."""
    return _compared(
        metric,
        measurement,
        lambda other: _each(measurement.counted, other, lambda one, name: figure(one.beside[name].wall)),
        "paired wall time",
    )


def _each(launches: Iterable[Launch], other: str, figure: OfLaunch) -> Evidence:
    """The log ratio of a figure of both models in each launch."""
    return Evidence.of([math.log(figure(one, MODEL) / figure(one, other)) for one in launches], shared(other))


def _compared(metric: Metric, measurement: Measurement, compare: Callable[[str], Evidence], method: str = "") -> Metric:
    """Compared by what was timed in turn; by the method of the launches if no other is named."""
    method, why = method or METHODS[measurement.launches[0].method], measurement.disturbance
    found = {other: _comparison(metric.value, compare(other), method, why) for other in measurement.others}
    return _beside_others(metric, found)


def _beside_others(metric: Metric, found: Mapping[str, Comparison]) -> Metric:
    """The metric with its comparisons by role."""
    named = {further(role): comparison for role, comparison in found.items() if further(role)}
    return replace(metric, reference=found.get("reference"), baseline=found.get("baseline"), references=named)


def _comparison(value: float, evidence: Evidence, method: str, why: Disturbance | None = None) -> Comparison:
    """The other model's value is what the ratio makes of this one's; with `why`, the intervals are without ends."""
    ratio = unknown(evidence.ratio.value) if why else evidence.ratio
    text, count = f"{method}, {evidence.count} launches", evidence.count
    nothing = Estimate(0.0, 0.0, 0.0)
    found = Comparison(0.0, nothing, nothing, text, count, spread=evidence.spread, disturbance=why)
    return _against(found, value / ratio.value, ratio)


def _against(found: Comparison, other: float, ratio: Estimate) -> Comparison:
    """A comparison with another value of the other model, and another ratio to it."""
    difference = Estimate(*(other * (one - 1) for one in (ratio.value, ratio.low, ratio.high)))
    return replace(found, value=other, ratio=ratio, difference=difference)


def _throughput(mean: Metric, batch: int) -> Metric:
    """Examples a second, one inference after another: the inverse of the mean."""
    interval = mean.interval and Estimate(batch / mean.value, batch / mean.interval.high, batch / mean.interval.low)
    value = batch / mean.value
    return Metric(
        value,
        "1/s",
        "higher",
        "timing",
        interval,
        mean.reference and _inverse(value, mean.reference),
        mean.baseline and _inverse(value, mean.baseline),
        {name: _inverse(value, comparison) for name, comparison in mean.references.items()},
    )


def _inverse(value: float, comparison: Comparison) -> Comparison:
    other, ratio = value * comparison.ratio.value, comparison.ratio
    known = Estimate(1 / ratio.value, 1 / ratio.high, 1 / ratio.low)
    return _against(comparison, other, unknown(known.value) if comparison.disturbance else known)


def _speedup(measurement: Measurement) -> Metric:
    """How many times faster than the reference; against the baseline's speed-up as the times are, inverted."""
    ratio = measurement.evidence("reference").inverse().ratio
    metric = _disturbed(Metric(ratio.value, "x", "higher", "timing", ratio), measurement)
    return _compared(metric, measurement, lambda other: measurement.evidence(other).inverse())
