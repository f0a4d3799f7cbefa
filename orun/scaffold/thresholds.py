"""Thresholds of gates, from what the pipeline measured when it was written."""

from __future__ import annotations

import math
from collections.abc import Mapping

from orun.core.metrics import Metric
from orun.core.run_record import RunResult
from orun.scaffold.recipe import LABEL_RULES
from orun.scaffold.request import Request
from orun.text.units import show

SPARE = 1.05  # allowed size over the measured one; a release that much larger or slower is not worse
NOTED_SHAPES = 1024  # bytes that a change may add to a small model: the shape of each value
WORSE = 1.5  # allowed distance from 1 over the measured one
SLOWEST = "5%"  # allowed slow-down against the accepted baseline
SURE = 0.9  # required speed-up over the lower end of the measured interval
LEAST_COSINE = 0.9  # smallest cosine of a model that may be released
LEAST_SQNR = 10  # dB; the same of a model whose outputs are single numbers: an error of 32 %
MOST_SQNR = 100  # dB; beyond it is rounding of float32, which differs from machine to machine
LEAST_CHANGE = 0.01  # share of classes that may change where none did: kernels of other machines round otherwise
MOST_CHANGE = 0.5  # share of a figure by labels; a gate that allows a larger change says little
REDUCED = ("int8", "half")  # stages that make a model smaller and less exact


def choose_gates(result: RunResult, *, judges_labels: bool = True) -> dict[str, dict[str, dict[str, str]]]:
    """Return the gates of each stage that was measured: stage -> metric -> rule -> threshold."""
    gates: dict[str, dict[str, dict[str, str]]] = {}
    for stage in result.stages:
        metrics = stage.metrics
        if stage.stage in REDUCED and "size" in metrics:
            gates[stage.stage] = {"size": {"max": _format_size(metrics["size"].value * SPARE)}}
        if stage.stage == "accuracy":
            cosines = {name: metrics[name] for name in ("cosine.mean", "cosine.min") if name in metrics}
            gates["accuracy"] = {
                name: {"min": _bound_cosine(metric)} for name, metric in cosines.items() if 0 < metric.value <= 1
            }
            if "sqnr" in metrics and "cosine" not in metrics:  # the noise may have `WORSE` times the power
                least_sqnr = min(metrics["sqnr"].value, MOST_SQNR) - 10 * math.log10(WORSE)
                gates["accuracy"] = {"sqnr": {"min": f"{math.floor(least_sqnr)}"}}
            if least := _bound_agreement(metrics.get("agreement")):
                gates["accuracy"]["agreement"] = {"min": least}
            for name, (limit, rule) in LABEL_RULES.items():
                if name in metrics and judges_labels:
                    thresholds = {limit: _bound_figure(metrics[name]), rule: _bound_change(metrics[name])}
                    if written := {key: value for key, value in thresholds.items() if value}:
                        gates["accuracy"][name] = written
        if stage.stage == "latency":
            gates["latency"] = {"p50": {"max_regression": SLOWEST}} | _choose_speedup_gate(metrics)
    return gates


def measure_likeness(result: RunResult) -> tuple[str, float, float] | None:
    """Return how alike the outputs are to the original's: the metric, its value, and the least for a release."""
    metrics = next((stage.metrics for stage in result.stages if stage.stage == "accuracy"), {})
    if cosine := metrics.get("cosine.mean"):
        return "cosine", cosine.value, LEAST_COSINE
    if sqnr := metrics.get("sqnr"):
        return "sqnr", sqnr.value, LEAST_SQNR
    return None


def find_release_size(result: RunResult) -> Metric | None:
    """Return the size of the last model; None if it is not known."""
    stages = {stage.stage: stage for stage in result.stages}
    release = next((stages[name] for name in ("tune", *REDUCED, "fuse", "simplify") if name in stages), None)
    return release.metrics.get("size") if release else None


def find_drawback(request: Request, result: RunResult) -> str:
    """Return what the release is worse in than the original: `larger and slower`; empty for none and for a goal."""
    graph, size, speedup = request.facts.graph, find_release_size(result), result["latency"].metrics.get("speedup")
    is_larger = bool(graph and size and size.value > graph.size * SPARE + NOTED_SHAPES)
    is_slower = bool(speedup and speedup.interval and speedup.interval.high * SPARE < 1)
    named = ["larger"] * is_larger + ["slower"] * is_slower
    return "" if request.goal else " and ".join(named)


def find_label_doubt(request: Request, result: RunResult) -> str:
    """Return why labels that were assumed may be wrong: the model is no better at them than by chance; else nothing."""
    graph, metrics = request.facts.graph, {stage.stage: stage.metrics for stage in result.stages}
    accuracy = metrics.get("accuracy", {}).get("accuracy")
    if not request.label_facts.assumption or not (graph and graph.scores) or accuracy is None:
        return ""
    low = accuracy.interval.low if accuracy.interval else accuracy.value
    if low > 1 / graph.scores:
        return ""
    is_image = isinstance(request.data, Mapping) and "classes" in request.data and "labels" not in request.data
    wrong = "the order of `classes`, or the preparation of `images`," if is_image else "the column of `labels`"
    shown = show(accuracy.value, "ratio")
    return f"an accuracy of {shown} is about chance, so {wrong} may be wrong. Next: correct it, and add a gate"


def _bound_cosine(metric: Metric) -> str:
    """Return a minimum whose distance from 1 is `WORSE` times the measured one, with as few digits as possible."""
    distance = max(1 - metric.value, 1e-6) * WORSE
    digits = max(2, math.ceil(-math.log10(distance)) + 1)
    return f"{math.floor((1 - distance) * 10**digits) / 10**digits:.{digits}f}"


def _bound_agreement(agreement: Metric | None) -> str:
    """Return a minimum whose distance from 100 % is `WORSE` times the measured one; empty without a useful one."""
    if agreement is None:
        return ""
    least = math.floor((1 - max(1 - agreement.value, LEAST_CHANGE) * WORSE) * 1000) / 10
    return f"{least:g}%" if least > 0 else ""


def _bound_figure(metric: Metric) -> str:
    """Return a bound of a figure by labels; empty without a useful one.

    Its distance is `WORSE` times what the examples cannot exclude of the figure, and of its change from the original's:
    on another machine a few answers differ, and the interval with them must not reach the bound.
    """
    if metric.interval is None or metric.value == 0:
        return ""
    is_error = metric.better == "lower"
    end = metric.interval.high if is_error else metric.interval.low
    distance = max(abs(end / metric.value - 1) * WORSE, _compute_uncertain_change(metric))
    if not distance < MOST_CHANGE:
        return ""
    bound = metric.value * (1 + distance if is_error else 1 - distance)
    if not is_error:
        return f"{math.floor(bound * 1000) / 10:g}%"
    digits = 2 - math.floor(math.log10(bound))
    return f"{math.ceil(bound * 10**digits) / 10**digits:.{max(digits, 0)}f}"


def _bound_change(metric: Metric) -> str:
    """Return a change from the original's figure that the examples can exclude; empty without a useful one."""
    most = _compute_uncertain_change(metric)
    return f"{math.ceil(most * 1000) / 10:g}%" if metric.reference and most < MOST_CHANGE else ""


def _compute_uncertain_change(metric: Metric) -> float:
    """Return `WORSE` times the change from the original's figure that the examples cannot exclude, as a share."""
    change = 0.0
    if metric.reference is not None:
        ratio = metric.reference.ratio
        change = ratio.high - 1 if metric.better == "lower" else 1 - ratio.low
    return max(change, LEAST_CHANGE) * WORSE


def _choose_speedup_gate(metrics: Mapping[str, Metric]) -> dict[str, dict[str, str]]:
    speedup = metrics.get("speedup")
    if speedup is None or speedup.interval is None or not math.isfinite(speedup.interval.low):
        return {}
    least = math.floor(speedup.interval.low * SURE * 10) / 10
    return {"speedup": {"min": f"{least:.1f}"}} if least > 1 else {}


def _format_size(size: float) -> str:
    """Return a size as text, rounded up: `23MB`."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            digits = 1 if size < 10 * scale else 0
            return f"{math.ceil(size / scale * 10**digits) / 10**digits:g}{unit}"
    return f"{math.ceil(size)}B"
