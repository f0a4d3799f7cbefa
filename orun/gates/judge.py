"""Verdicts over stored measurements. Nothing is measured here, so a new threshold costs nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping

from orun.core.metrics import SHARE, Metric, Quantity
from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.verdict import Verdict
from orun.gates.absolute import judge_absolute
from orun.gates.composite import iter_verdicts, judge_by_slice
from orun.gates.finding import Finding
from orun.gates.regression import Terms, judge_regression
from orun.gates.relative import judge_relative
from orun.measure.accuracy.names import QUANTITIES
from orun.pipeline.model import Gate, Stage
from orun.pipeline.scales import WORSE, explain_percentage, explain_wrong_rule, find_misfit
from orun.store.records import Action


def judge(stage: Stage, action: Action, terms: Terms) -> tuple[Verdict, ...]:
    """Return the verdict of each gate and group of a stage, in file order; a group comes before its members."""

    def find(gate: Gate) -> Finding:
        if gate.by:
            known = terms.accepted.metrics if terms.accepted and gate.rule == "max_regression" else ()
            return judge_by_slice(gate, action.metrics, lambda item: _find(item, stage, action, terms), known)
        return _find(gate, stage, action, terms)

    return tuple(verdict for item in stage.gates for verdict in iter_verdicts(stage.id, item, find))


def _find(gate: Gate, stage: Stage, action: Action, terms: Terms) -> Finding:
    metric = action.metrics.get(gate.metric)
    if metric is None:
        return Finding("failed", _explain_missing(gate.metric, stage, action.metrics))
    if not math.isfinite(metric.value):
        finding = build_reason(ReasonCode.NOT_FINITE, metric=gate.metric, value=metric.value)
        return Finding("failed", finding, metric.value, metric.unit)
    if misfitting := _explain_misfit(gate, metric, stage):
        return Finding("failed", misfitting, metric.value, metric.unit)
    if gate.rule in ("min", "max"):
        return judge_absolute(gate, metric, stage, action, terms.host)
    if gate.rule == "max_regression":
        return judge_regression(gate, metric, stage, action, terms)
    return judge_relative(gate, metric, stage.params)


def _explain_misfit(gate: Gate, metric: Metric, stage: Stage) -> Reason | None:
    """Return why a gate does not fit its metric, where only the measurement told unit and direction; else None.

    Where nobody said which way a metric of the user's own improves, the rule is taken to know it.
    """
    plain = gate.metric.partition("[")[0]
    greatest = QUANTITIES.get(plain, SHARE).greatest if metric.unit == "ratio" else None
    if problem := find_misfit(gate, Quantity(metric.unit, greatest=greatest)):
        suggestion = problem.suggestion or None
        return build_reason(
            ReasonCode.THRESHOLD_MISFIT, message=problem.message, expected=problem.expected, suggestion=suggestion
        )
    declared = stage.params.get("better")
    assumed = isinstance(declared, Mapping) and plain not in declared and not metric.unit
    worse = "" if assumed else explain_wrong_rule(gate, metric.better, metric.unit)
    if worse:
        return build_reason(ReasonCode.THRESHOLD_MISFIT, message=worse, suggestion=WORSE[metric.better])
    message = explain_percentage(gate, metric)
    return build_reason(ReasonCode.THRESHOLD_MISFIT, message=message) if message else None


def _explain_missing(name: str, stage: Stage, metrics: Mapping[str, Metric]) -> Reason:
    """Say what was measured instead. No slice is suggested in place of another, as that would judge another class."""
    from difflib import get_close_matches  # not needed by a run with nothing to do

    start, equals, _ = name.partition("=")
    slices = sorted(metric for metric in metrics if equals and metric.startswith(f"{start}="))
    comparable = [metric for metric in metrics if _get_slice(metric) == _get_slice(name)]
    close = [] if slices else get_close_matches(name, comparable, n=1)
    known = None if close else slices or sorted(metrics)
    return build_reason(
        ReasonCode.METRIC_MISSING, stage=stage.id, metric=name, suggestion=close[0] if close else None, known=known
    )


def _get_slice(metric: str) -> str:
    """Return `label=3` of `accuracy[label=3]`; empty for all examples."""
    subject = metric.partition("[")[2].removesuffix("]")
    return subject if "=" in subject else ""
