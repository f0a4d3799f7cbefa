"""Verdicts over stored measurements: nothing is measured here, so a new threshold costs nothing."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping

from orun.gates.absolute import judge_absolute
from orun.gates.baselines import Accepted
from orun.gates.finding import Finding
from orun.gates.regression import judge_regression
from orun.gates.relative import judge_relative
from orun.metrics import Metric, Unit
from orun.pipeline.model import Gate, Stage
from orun.record import Verdict
from orun.store.records import Action

# What a metric is in, for a message.
UNITS: Mapping[Unit, str] = {
    "s": "is a time",
    "B": "is a size",
    "ratio": "is a proportion",
    "x": "is a factor",
    "1/s": "is a rate in 1/s",
    "": "has no unit",
}


def judge(stage: Stage, action: Action, accepted: Accepted | None, host: Mapping[str, str]) -> tuple[Verdict, ...]:
    """The verdict of each gate of a stage, in file order.

    Args:
        stage: the stage with its gates.
        action: what it measured, and of which model.
        accepted: what the accepted baseline has for this stage, or None.
        host: fingerprint of this machine, as the stage's action holds it.
    """
    return tuple(_verdict(stage, gate, _find(gate, stage, action, accepted, host)) for gate in stage.gates)


def _verdict(stage: Stage, gate: Gate, finding: Finding) -> Verdict:
    return Verdict(
        stage=stage.id,
        metric=gate.metric,
        rule=gate.rule,
        threshold=gate.threshold.text,
        outcome=finding.outcome,
        fails=finding.outcome == "failed" or (finding.outcome == "undecided" and gate.undecided == "fail"),
        measured=finding.measured,
        unit=finding.unit,
        interval=finding.interval,
        why=finding.why,
        position=gate.position,
    )


def _find(gate: Gate, stage: Stage, action: Action, accepted: Accepted | None, host: Mapping[str, str]) -> Finding:
    metric = action.metrics.get(gate.metric)
    if metric is None:
        return Finding("failed", _missing(gate.metric, stage, action.metrics))
    if not math.isfinite(metric.value):
        return Finding("failed", f"{gate.metric} is {metric.value}, not a finite number", metric.value, metric.unit)
    if not _fits(gate, metric):
        written, unit = gate.threshold.text, UNITS[metric.unit]
        return Finding(
            "failed", f"{gate.metric} cannot be held against {written}: it {unit}", metric.value, metric.unit
        )
    if gate.rule in ("min", "max"):
        return judge_absolute(gate, metric)
    if gate.rule == "max_regression":
        return judge_regression(gate, metric, stage, action, accepted, host)
    return judge_relative(gate, metric)


def _fits(gate: Gate, metric: Metric) -> bool:
    """Whether the threshold is written in the metric's unit; a limit of 300 MB would pass any time in seconds."""
    unit = gate.threshold.unit
    if not unit or gate.threshold.relative or gate.rule == "min_speedup":
        return True
    return unit == metric.unit or (unit == "ratio" and not metric.unit)


def _missing(name: str, stage: Stage, metrics: Mapping[str, Metric]) -> str:
    close = difflib.get_close_matches(name, metrics, n=1)
    if close:
        return f"{stage.id} measured no {name}; did you mean {close[0]}?"
    return f"{stage.id} measured no {name}; it has {', '.join(sorted(metrics)) or 'no metrics'}"
