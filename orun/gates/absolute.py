"""`min` and `max`: a metric against a figure of the file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from orun.core.metrics import Estimate, Metric
from orun.environment.hosts import Host, device, same_machine
from orun.gates.advice import SPEEDUP, WALL, explain_disturbance, to_bound, to_narrow
from orun.gates.finding import (
    Finding,
    against_maximum,
    against_minimum,
    distance,
    figure,
    log_width,
    point,
)
from orun.pipeline.model import Gate, Stage
from orun.store.records import Action
from orun.text.units import show, span

UNDISTURBED = "cpu"  # metric of `measure/latency`: what it would be if nobody else used the machine


def judge_absolute(gate: Gate, metric: Metric, stage: Stage, action: Action, here: Host) -> Finding:
    """The interval decides for times, the value itself for everything else.

    Args:
        gate: with rule `min` or `max`.
        metric: what was measured.
        stage: that has the gate.
        action: what it measured, and on which machine.
        here: fingerprint of this machine.
    """
    limit = gate.threshold.value
    interval = metric.interval if metric.noise == "timing" and metric.interval else point(metric.value)
    outcome = (against_maximum if gate.rule == "max" else against_minimum)(interval, limit)
    text = f"{gate.metric} is {figure(metric.value, metric.unit, limit)}{_device(metric, action.host, here)}"
    beside = [f"95 % interval {span(metric.interval, metric.unit)}"] if metric.interval else []
    known = action.metrics.get(UNDISTURBED) if gate.metric in WALL and metric.noise == "timing" else None
    if known and not known.disturbance:
        beside.append(f"{show(known.value, known.unit)} without waiting for a core")
    text += f" ({'; '.join(beside)})" if beside else ""
    over, under = ("within", "above") if gate.rule == "max" else ("at or above", "below")
    rule = f"{'maximum' if gate.rule == 'max' else 'minimum'} of {gate.threshold.text}"
    if metric.disturbance:
        why = f"{text}: {explain_disturbance(metric.disturbance)}"
        return Finding("undecided", why, metric.value, metric.unit, interval)
    if outcome == "undecided":
        ending = f"and the interval holds the {rule}: {_narrower(gate, interval, stage.params)}"
    else:
        ending = f"{over if outcome == 'passed' else under} the {rule}"
    return Finding(outcome, f"{text}, {ending}", metric.value, metric.unit, metric.interval)


def _narrower(gate: Gate, interval: Estimate, params: Mapping[str, Any]) -> str:
    if gate.metric == SPEEDUP:
        share = distance(interval, gate.threshold.value)
        return to_narrow(gate.metric, log_width(interval), share, 0, params)
    return to_bound(gate.metric, params, bounded=interval.low > 0 and interval.high < math.inf)


def _device(metric: Metric, where: Host, here: Host) -> str:
    """What a time was measured on: on another device the threshold means something else."""
    name = device(where)
    if metric.noise != "timing" or not name:
        return ""
    return f" on {name}" if same_machine(where, here) else f" on another machine ({name})"
