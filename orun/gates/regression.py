"""`max_regression`: a metric against the accepted baseline, measured side by side where that is possible."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

from orun.core.metrics import Comparison, Estimate, Metric
from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.serialization import Record, field, replace
from orun.core.verdict import GateOutcome
from orun.environment.hosts import format_machine, is_same_machine
from orun.gates.advice import advise_for_slowdown
from orun.gates.baseline_file import Accepted
from orun.gates.baselines import drop_comparisons
from orun.gates.conditions import list_changes_since
from orun.gates.finding import Change, Finding, compute_distance, to_interval
from orun.gates.measured import BASELINE, Compare, Ports, drop_references, list_changes, select_references
from orun.gates.relative import compute_change, judge_by_interval
from orun.measure.latency.sequential_test import EQUAL, SLOWER, Evidence
from orun.pipeline.model import Gate, Stage
from orun.store.records import Action

LARGEST_ODDS = 1e6  # beyond this a likelihood ratio is a matter of the model, not of the evidence
NEARLY_ALL = 1 - 1e-9  # a regression of a metric that should be high cannot exceed all of it


class Terms(Record, frozen=True):
    """Terms of a comparison: the accepted model or figures, and the method.

    Attributes:
        accepted: what the accepted baseline has for the stage, or None.
        host: fingerprint of this machine.
        compare: returns how two sets of key components differ.
        side_by_side: whether the stage's kind measures the accepted model too.
        ports: the stage's inputs by what they are for.
        removed: stages that the baseline has and the file no longer has: one of them may be this stage.
        abandoned: baseline beside the file whose own pipeline file is gone: it may be of this one.
        file: the pipeline file, to accept a run of.
        overrides: values that replace those of the file in this run.
        store: path of the store of this run; empty for the default one.
    """

    accepted: Accepted | None
    host: Mapping[str, str]
    compare: Compare
    side_by_side: bool = True
    ports: Ports = field(default_factory=Ports)
    removed: tuple[str, ...] = ()
    abandoned: str = ""
    file: str = ""
    overrides: Mapping[str, str] = field(default_factory=dict)
    store: str = ""

    def list_run_arguments(self, gate: Gate) -> Mapping[str, object]:
        """Return the arguments of a reason that name the run to accept: its file, and its options if there are any."""
        options = {"overrides": dict(self.overrides) or None, "store": self.store or None}
        return {"file": self.file or gate.position.file, **options}


def judge_regression(gate: Gate, metric: Metric, stage: Stage, action: Action, terms: Terms) -> Finding:
    """Judge times by the sequential test, a sample by the paired interval, and an exact figure by its value."""
    accepted = terms.accepted
    if metric.better == "neither":
        return Finding("failed", build_reason(ReasonCode.NO_DIRECTION, metric=gate.metric, noun="regression"))
    if accepted is None:
        lost = {"removed": list(terms.removed) or None, "abandoned": terms.abandoned or None}
        run = terms.list_run_arguments(gate)
        return Finding("no baseline", build_reason(ReasonCode.NO_BASELINE, stage=stage.id, **lost, **run))
    same = accepted.model and accepted.model == terms.ports.find_measured(action)
    comparable = not _has_other_reference(metric, stage, action, terms, accepted)
    if comparable and same and accepted.inputs == terms.ports.list_companions(action):
        judged = _judge_unchanged(gate, metric, build_reason(ReasonCode.SAME_MODEL))
    elif comparable and metric.baseline:
        judged = _judge_side_by_side(gate, metric, metric.baseline, stage)
    else:
        return _add_approver(_judge_by_stored(gate, metric, stage, action, terms, accepted), accepted)
    caveats = list_changes_since(terms.compare, stage, accepted, action, terms.ports)
    return _add_approver(replace(judged, caveats=caveats), accepted)


def _has_other_reference(metric: Metric, stage: Stage, action: Action, terms: Terms, accepted: Accepted) -> bool:
    """Return whether a figure compares two models, such as a cosine, and the reference changed since.

    The accepted model is then no measure: it was made from another reference, and is always far from the new one. A
    time, and a figure that is itself compared with the reference, are of one model.
    """
    if metric.noise == "timing" or metric.reference or metric.references:
        return False
    return bool(
        list_changes(terms.compare, stage, select_references(accepted.components), terms.ports.list_setup(action))
    )


def _add_approver(judged: Finding, accepted: Accepted) -> Finding:
    """Return a failure with who accepted the baseline, who may have to decide on it."""
    if judged.outcome != "failed":
        return judged
    who = "".join(filter(str.isprintable, accepted.who))
    signed = (*judged.finding.because, build_reason(ReasonCode.ACCEPTED_BY, who=who, day=accepted.day))
    return replace(judged, finding=replace(judged.finding, because=signed))


def _judge_unchanged(gate: Gate, metric: Metric, method: Reason) -> Finding:
    same = Comparison(metric.value, to_interval(1.0), to_interval(0.0), "")
    return judge_by_interval(gate, metric, replace(_compute_regression(gate, metric, same), method=method))


def _compute_regression(gate: Gate, metric: Metric, comparison: Comparison) -> Change:
    noun = "increase" if metric.better == "lower" else "drop"
    return replace(
        compute_change(comparison, metric, noun, BASELINE, relative=gate.threshold.relative), noun="regression"
    )


def _judge_side_by_side(gate: Gate, metric: Metric, comparison: Comparison, stage: Stage) -> Finding:
    compared = _compute_regression(gate, metric, comparison)
    launches = comparison.spread > 0 and comparison.count > 1 and min(comparison.value, comparison.ratio.value) > 0
    if metric.noise != "timing" or compared.disturbance or not launches:
        return judge_by_interval(gate, metric, compared, stage.params)
    return _weigh_launches(gate, metric, compared, comparison, stage)


def _weigh_launches(gate: Gate, metric: Metric, compared: Change, comparison: Comparison, stage: Stage) -> Finding:
    """Weigh "no regression" against "a regression of the threshold or more"."""
    limit = gate.threshold.value if gate.threshold.relative else gate.threshold.value / comparison.value
    evidence = Evidence.from_comparison(comparison)
    slowdown = math.log1p(min(limit, sys.float_info.max))
    if metric.better == "higher":
        evidence, slowdown = evidence.invert(), -math.log1p(-min(limit, NEARLY_ALL))
    arguments = compared.build_arguments(gate.metric, gate.threshold)
    if slowdown <= 0:
        judged = judge_by_interval(gate, metric, compared)
        if judged.outcome != "undecided":
            return judged
        return replace(judged, finding=build_reason(ReasonCode.ZERO_THRESHOLD, **arguments), interval=compared.estimate)
    answer, odds = evidence.answer(slowdown), evidence.log_odds(slowdown)
    outcome: GateOutcome = "undecided"
    if answer == "slower":
        outcome = "failed"
        finding = build_reason(
            ReasonCode.REGRESSION_SHOWN, odds=_compute_odds(odds), needed=_compute_odds(SLOWER), **arguments
        )
    elif answer == "not slower":
        outcome = "passed"
        finding = build_reason(
            ReasonCode.NO_REGRESSION, odds=_compute_odds(-odds), needed=_compute_odds(-EQUAL), **arguments
        )
        if odds > EQUAL:
            finding = build_reason(ReasonCode.REGRESSION_EXCLUDED, **arguments)
    else:
        advice = advise_for_slowdown(gate.metric, evidence, slowdown, stage.params)
        finding = build_reason(ReasonCode.TOO_FEW_LAUNCHES, advice, **arguments)
    return Finding(outcome, finding, compared.estimate.value, compared.unit, compared.estimate)


def _compute_odds(log_odds: float) -> float:
    return math.exp(min(log_odds, math.log(LARGEST_ODDS)))


def _judge_by_stored(
    gate: Gate, metric: Metric, stage: Stage, action: Action, terms: Terms, accepted: Accepted
) -> Finding:
    """Compare with the figures of the baseline file, each against the reference of its own run.

    The accepted model was not measured side by side, or tells nothing beside a new reference.
    """
    stored, run = accepted.metrics.get(gate.metric), terms.list_run_arguments(gate)
    if stored is None:
        return Finding("no baseline", build_reason(ReasonCode.NO_BASELINE, stage=stage.id, metric=gate.metric, **run))
    if stored.unit != metric.unit:
        units = {"unit": metric.unit, "accepted": stored.unit}
        return Finding("undecided", build_reason(ReasonCode.OTHER_UNIT, metric=gate.metric, **run, **units))
    if metric.noise != "none" and stored == drop_comparisons(metric):
        return _judge_unchanged(gate, metric, build_reason(ReasonCode.SAME_MEASUREMENT, day=accepted.day))
    why = _explain_stored(metric, stage, action, terms, accepted)
    if metric.noise == "timing" and not is_same_machine(terms.host, accepted.host):
        return Finding(
            "undecided", build_reason(ReasonCode.OTHER_MACHINE, why, machine=format_machine(accepted.host), **run)
        )
    then = drop_references(accepted.components)
    if differing := list_changes(terms.compare, stage, then, terms.ports.list_setup(action)):
        return Finding("undecided", build_reason(ReasonCode.OTHER_SETUP, why, *differing, **run))
    if metric.noise != "none" and not (metric.interval and stored.interval):
        return Finding("undecided", build_reason(ReasonCode.NO_INTERVALS, why, noise=metric.noise, **run))
    method = build_reason(ReasonCode.STORED_FIGURES, why, noise=metric.noise, day=accepted.day)
    compared = replace(_compute_regression(gate, metric, _compare_stored(metric, stored)), method=method)
    judged = judge_by_interval(gate, metric, compared)
    share = compute_distance(compared.estimate, gate.threshold.value)
    if judged.outcome == "undecided" and share:
        narrower = build_reason(ReasonCode.NARROWER_INTERVALS, times=1 / share)
        judged = replace(judged, finding=replace(judged.finding, because=(*judged.finding.because, narrower)))
    return judged


def _explain_stored(metric: Metric, stage: Stage, action: Action, terms: Terms, accepted: Accepted) -> Reason:
    """Return why the figure is not compared with that of the accepted model, measured side by side."""
    if _has_other_reference(metric, stage, action, terms, accepted):
        return build_reason(ReasonCode.OTHER_REFERENCE)
    if not accepted.model:
        return build_reason(ReasonCode.NO_MODEL_MEASURED, stage=stage.id)
    if accepted.model == terms.ports.find_measured(action):
        now = terms.ports.list_companions(action)
        changed = [port for port in sorted({*now, *accepted.inputs}) if now.get(port) != accepted.inputs.get(port)]
        return build_reason(ReasonCode.OTHER_INPUTS, ports=changed)
    return (
        build_reason(ReasonCode.MODEL_MISSING)
        if terms.side_by_side
        else build_reason(ReasonCode.ONE_MODEL_KIND, uses=stage.uses)
    )


def _compare_stored(metric: Metric, stored: Metric) -> Comparison:
    """Compare two figures of different runs.

    Of times the ends of the intervals are subtracted: what a machine does from one day to the next is in neither. Of
    samples the halves are squared and added, which holds for independent ones (Newcombe 1998, Statistics in Medicine
    17:873-890, method 10) and is careful about the same examples, whose scores rise and fall together.
    """
    value, other = metric.value, stored.value
    a, b = (item.interval or to_interval(item.value) for item in (metric, stored))
    difference = Estimate(
        value - other,
        value - other - math.hypot(value - a.low, b.high - other),
        value - other + math.hypot(a.high - value, other - b.low),
    )
    if metric.noise == "timing":
        difference = Estimate(value - other, a.low - b.high, a.high - b.low)
        ratio = Estimate(_divide(value, other), _divide(a.low, b.high), _divide(a.high, b.low))
    else:  # of either sign; the other's own value is taken as known
        ends = (difference.value, difference.low, difference.high)
        ratio = Estimate(*(_divide(other + end, other) for end in ends))
    return Comparison(other, ratio, difference, "")


def _divide(value: float, other: float) -> float:
    if other == 0:
        return 1.0 if value == 0 else math.copysign(math.inf, value)
    return 0.0 if math.isinf(other) else value / other
