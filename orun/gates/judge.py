"""Verdicts over stored measurements; nothing is measured here, so a new threshold costs nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping

from orun.core.metrics import Metric
from orun.core.run_record import Verdict
from orun.gates.absolute import judge_absolute
from orun.gates.composite import by_slice, verdicts
from orun.gates.finding import Finding
from orun.gates.regression import Terms, judge_regression
from orun.gates.relative import judge_relative
from orun.pipeline.model import Gate, Stage
from orun.pipeline.scales import WORSE, lets_worse, misfit, no_proportion
from orun.store.records import Action


def judge(stage: Stage, action: Action, terms: Terms) -> tuple[Verdict, ...]:
    """The verdict of each gate and group of a stage, in file order; a group comes before its members.

    Args:
        stage: the stage with its gates.
        action: what it measured, and of which model.
        terms: what the accepted baseline has for this stage, and this machine as the stage's action holds it.
    """

    def find(gate: Gate) -> Finding:
        if gate.by:
            known = terms.accepted.metrics if terms.accepted and gate.rule == "max_regression" else ()
            return by_slice(gate, action.metrics, lambda one: _find(one, stage, action, terms), known)
        return _find(gate, stage, action, terms)

    return tuple(verdict for one in stage.gates for verdict in verdicts(stage.id, one, find))


def _find(gate: Gate, stage: Stage, action: Action, terms: Terms) -> Finding:
    metric = action.metrics.get(gate.metric)
    if metric is None:
        return Finding("failed", _missing(gate.metric, stage, action.metrics))
    if not math.isfinite(metric.value):
        return Finding("failed", f"{gate.metric} is {metric.value}, not a finite number", metric.value, metric.unit)
    if why := _meaningless(gate, metric, stage):
        return Finding("failed", why, metric.value, metric.unit)
    if gate.rule in ("min", "max"):
        return judge_absolute(gate, metric, stage, action, terms.host)
    if gate.rule == "max_regression":
        return judge_regression(gate, metric, stage, action, terms)
    return judge_relative(gate, metric, stage.params)


def _meaningless(gate: Gate, metric: Metric, stage: Stage) -> str:
    """Why a gate says nothing of a metric, of which its kind had told neither unit nor direction; empty where it does.

    Where nobody said which way a metric of the user's own improves, the rule is taken to know it.
    """
    if found := misfit(gate, metric.unit):
        meant = f"; did you mean {found.suggestion}?" if found.suggestion else ""
        return f"{found.message}; expected {found.expected}{meant}"
    named = gate.metric.partition("[")[0]
    declared = stage.params.get("better")
    assumed = isinstance(declared, Mapping) and named not in declared and not metric.unit
    worse = "" if assumed else lets_worse(gate, metric.better, metric.unit)
    if worse:
        return f"{worse}; did you mean {WORSE[metric.better]}?"
    return no_proportion(gate, metric)


def _missing(name: str, stage: Stage, metrics: Mapping[str, Metric]) -> str:
    from difflib import get_close_matches  # not needed by a run with nothing to do

    close = get_close_matches(name, metrics, n=1)
    if close:
        return f"{stage.id} measured no {name}; did you mean {close[0]}?"
    return f"{stage.id} measured no {name}; it has {', '.join(sorted(metrics)) or 'no metrics'}"
