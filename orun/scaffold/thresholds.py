"""Thresholds of gates, from what the pipeline measured when it was written."""

from __future__ import annotations

import math
from collections.abc import Mapping

from orun.core.metrics import Metric
from orun.core.run_record import RunResult

SPARE = 1.05  # times the measured size that is allowed
WORSE = 1.5  # times the measured distance from 1 that is allowed
SLOWEST = "5%"  # slower than the accepted baseline
SURE = 0.9  # of the lower end of a speed-up's interval


def gates_for(result: RunResult) -> dict[str, dict[str, dict[str, str]]]:
    """Return the gates of each stage that was measured: stage -> metric -> rule -> threshold."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for stage in result.stages:
        metrics = stage.metrics
        if stage.stage == "int8" and "size" in metrics:
            found["int8"] = {"size": {"max": _size(metrics["size"].value * SPARE)}}
        if stage.stage == "accuracy":
            found["accuracy"] = {name: {"min": _below_one(metrics[name])} for name in _worth(metrics)}
        if stage.stage == "latency":
            found["latency"] = {"p50": {"max_regression": SLOWEST}} | _speedup(metrics)
    return found


def _worth(metrics: Mapping[str, Metric]) -> list[str]:
    return [name for name in ("cosine.mean", "cosine.min") if name in metrics and 0 < metrics[name].value <= 1]


def _below_one(metric: Metric) -> str:
    """A minimum below the measured value, by half as much again as that is below 1, in as few digits as tell it."""
    distance = max(1 - metric.value, 1e-6) * WORSE
    digits = max(2, math.ceil(-math.log10(distance)) + 1)
    return f"{math.floor((1 - distance) * 10**digits) / 10**digits:.{digits}f}"


def _speedup(metrics: Mapping[str, Metric]) -> dict[str, dict[str, str]]:
    speedup = metrics.get("speedup")
    if speedup is None or speedup.interval is None or speedup.interval.low * SURE <= 1:
        return {}
    return {"speedup": {"min": f"{math.floor(speedup.interval.low * SURE * 10) / 10:.1f}"}}


def _size(size: float) -> str:
    """A size rounded up, as people write it."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            digits = 1 if size < 10 * scale else 0
            return f"{math.ceil(size / scale * 10**digits) / 10**digits:g}{unit}"
    return f"{math.ceil(size)}B"
