"""`min` and `max`: a metric against a figure of the file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from orun.core.metrics import Estimate, Metric
from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.verdict import GateOutcome
from orun.environment.hosts import Host, is_same_machine, name_device
from orun.gates.advice import SPEEDUP, advise_for_figure, advise_for_ratio, explain_disturbance
from orun.gates.finding import (
    Finding,
    compare_with_maximum,
    compare_with_minimum,
    compute_distance,
    compute_log_width,
    to_interval,
)
from orun.pipeline.model import Gate, Stage
from orun.store.records import Action

CPU_TIME = "cpu"  # metric of `measure/latency`: the time on a machine that nobody else uses
TYPICAL = frozenset({"p50", "mean"})  # wall times that it stands for; a tail or an extreme has no such figure
CODES: Mapping[GateOutcome, ReasonCode] = {
    "passed": ReasonCode.VALUE_WITHIN,
    "failed": ReasonCode.VALUE_BEYOND,
    "undecided": ReasonCode.VALUE_UNDECIDED,
}


def judge_absolute(gate: Gate, metric: Metric, stage: Stage, action: Action, host: Host) -> Finding:
    """Judge times by their interval, and everything else by the value."""
    limit = gate.threshold.value
    interval = metric.interval if metric.noise == "timing" and metric.interval else to_interval(metric.value)
    outcome = (compare_with_maximum if gate.rule == "max" else compare_with_minimum)(interval, limit)
    shown = metric.interval
    because: list[Reason] = []
    if metric.disturbance and outcome == "undecided":
        shown, because = interval, [explain_disturbance(metric.disturbance)]
    elif outcome == "undecided":
        because = [_advise(gate, interval, stage.params)]
    machine = name_device(action.host) if metric.noise == "timing" else ""
    finding = build_reason(
        CODES[outcome],
        *because,
        metric=gate.metric,
        rule=gate.rule,
        value=metric.value,
        low=metric.interval.low if metric.interval else None,
        high=metric.interval.high if metric.interval else None,
        unit=metric.unit,
        undisturbed=_estimate_without_waiting(gate, metric, action),
        machine=machine or None,
        elsewhere=(bool(machine) and not is_same_machine(action.host, host)) or None,
        limit=limit,
        threshold=gate.threshold.text,
    )
    return Finding(outcome, finding, metric.value, metric.unit, shown)


def _estimate_without_waiting(gate: Gate, metric: Metric, action: Action) -> float | None:
    """Return what a typical wall time would be if no thread waited for a core; None where that is not known."""
    known = action.metrics.get(CPU_TIME) if gate.metric in TYPICAL and metric.noise == "timing" else None
    return known.value if known and not known.disturbance else None


def _advise(gate: Gate, interval: Estimate, params: Mapping[str, Any]) -> Reason:
    if gate.metric == SPEEDUP:
        share = compute_distance(interval, gate.threshold.value)
        return advise_for_ratio(gate.metric, compute_log_width(interval), share, 0, params)
    return advise_for_figure(gate.metric, params, bounded=interval.low > 0 and interval.high < math.inf)
