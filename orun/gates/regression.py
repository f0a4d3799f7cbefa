"""`max_regression`: a metric against the accepted baseline, measured beside this model where it is to be had."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

from orun.core.metrics import UNIT_WORDS, Comparison, Estimate, Metric, Noise
from orun.core.run_record import GateOutcome
from orun.core.serialization import Record, field, replace
from orun.environment.hosts import machine, same_machine
from orun.gates.advice import to_tell
from orun.gates.baselines import Accepted, alone
from orun.gates.conditions import changed_since
from orun.gates.finding import Change, Finding, distance, point
from orun.gates.measured import Compare, Ports, changes, without_references
from orun.gates.relative import by_interval, change
from orun.measure.latency.sequential_test import EQUAL, SLOWER, Evidence
from orun.pipeline.model import Gate, Stage
from orun.store.records import Action
from orun.text.wording.reasons import sentences

ACCEPT = "orun baseline accept"
BASELINE = "the accepted baseline"
LARGEST_ODDS = 1e6  # beyond this a likelihood ratio is a matter of the model, not of the evidence
NOISY: Mapping[Noise, str] = {"sample": "a sample", "timing": "a machine that disturbs"}
WHOLE = 1 - 1e-9  # a regression of a metric that should be high cannot exceed all of it
STORED: Mapping[Noise, str] = {
    "none": "figure stored on {day}",
    "sample": "figures stored on {day}, not example by example: {reason}",
    "timing": "figures stored on {day} on this machine, not side by side: {reason}",
}


class Terms(Record, frozen=True):
    """What a stage is compared with, and how that may be.

    Attributes:
        accepted: what the accepted baseline has for the stage, or None.
        host: fingerprint of this machine.
        compare: what says how two sets of key components differ.
        beside: whether the stage's kind measures the accepted model too.
        ports: what comes in where.
        gone: what else the baseline has, of stages that are not in the file any more: one of them may be this one.
    """

    accepted: Accepted | None
    host: Mapping[str, str]
    compare: Compare
    beside: bool = True
    ports: Ports = field(default_factory=Ports)
    gone: tuple[str, ...] = ()


def judge_regression(gate: Gate, metric: Metric, stage: Stage, action: Action, terms: Terms) -> Finding:
    """The sequential test decides for times, the paired interval for a sample, the value for what is exact."""
    accepted = terms.accepted
    if metric.better == "neither":
        return Finding("failed", f"{gate.metric} has no direction of improvement, so it has no regression")
    if accepted is None:
        known = ", ".join(f"`{name}`" for name in terms.gone)
        gone = f" (the baseline has {known}, no longer in the file)" if known else ""
        return _without_baseline(gate, f"no baseline yet for `{stage.id}`{gone}")
    same = accepted.model and accepted.model == terms.ports.measured(action)
    if same and accepted.beside == terms.ports.with_model(action):
        found = _the_same(gate, metric, "the accepted baseline is this very model")
    elif metric.baseline:
        found = _side_by_side(gate, metric, metric.baseline, stage)
    else:
        return _signed(_by_stored(gate, metric, stage, action, terms, accepted), accepted)
    return _signed(replace(found, caveat=changed_since(terms.compare, stage, accepted, action, terms.ports)), accepted)


def _signed(found: Finding, accepted: Accepted) -> Finding:
    """A failure with who accepted what it is held against: who has to decide on it may be neither of the two others."""
    if found.outcome != "failed":
        return found
    who = "".join(filter(str.isprintable, accepted.who))
    return replace(found, why=f"{found.why}; {who} accepted that baseline on {accepted.day}")


def _the_same(gate: Gate, metric: Metric, why: str) -> Finding:
    return by_interval(gate, metric, _regression(gate, metric, Comparison(metric.value, point(1.0), point(0.0), why)))


def _regression(gate: Gate, metric: Metric, comparison: Comparison) -> Change:
    noun = "increase" if metric.better == "lower" else "drop"
    return replace(change(comparison, metric, noun, BASELINE, relative=gate.threshold.relative), noun="regression")


def _side_by_side(gate: Gate, metric: Metric, comparison: Comparison, stage: Stage) -> Finding:
    found = _regression(gate, metric, comparison)
    launches = comparison.spread > 0 and comparison.count > 1 and min(comparison.value, comparison.ratio.value) > 0
    if metric.noise != "timing" or found.disturbance or not launches:
        return by_interval(gate, metric, found, stage.params)
    return _by_launches(gate, metric, found, comparison, stage)


def _by_launches(gate: Gate, metric: Metric, found: Change, comparison: Comparison, stage: Stage) -> Finding:
    """Weigh "no regression" against "a regression of the threshold or more"."""
    limit = gate.threshold.value if gate.threshold.relative else gate.threshold.value / comparison.value
    evidence = Evidence.from_comparison(comparison)
    slowdown = math.log1p(min(limit, sys.float_info.max))
    if metric.better == "higher":
        evidence, slowdown = evidence.inverse(), -math.log1p(-min(limit, WHOLE))
    sentence = found.sentence(gate.metric, gate.threshold)
    result = Finding("undecided", "", found.estimate.value, found.unit, found.estimate)
    if slowdown <= 0:
        judged = by_interval(gate, metric, found)
        if judged.outcome != "undecided":
            return judged
        return replace(result, why=f"{sentence}: a threshold of 0 tells no two times apart; allow 1 % or more")
    outcomes: Mapping[str, GateOutcome] = {"slower": "failed", "not slower": "passed", "undecided": "undecided"}
    outcome = outcomes[evidence.answer(slowdown)]
    weighed = _weigh(outcome, evidence, slowdown, gate.threshold.text)
    if outcome == "undecided":
        weighed += f": {to_tell(gate.metric, evidence, slowdown, stage.params)}"
    return replace(result, outcome=outcome, why=f"{sentence}: {weighed}")


def _weigh(outcome: GateOutcome, evidence: Evidence, slowdown: float, text: str) -> str:
    odds = evidence.log_odds(slowdown)
    if outcome == "failed":
        return f"one of {text} or more fits {_times(odds)} better than none ({_times(SLOWER)} fail)"
    if outcome == "passed" and odds > EQUAL:
        return f"it is clearly less than {text}"
    if outcome == "passed":
        return f"none fits {_times(-odds)} better than one of {text} or more ({_times(-EQUAL)} pass)"
    return f"too few launches to tell one of {text} from none"


def _times(log_odds: float) -> str:
    odds = math.exp(min(log_odds, math.log(LARGEST_ODDS)))
    return "over a million times" if odds >= LARGEST_ODDS * WHOLE else f"{odds:.0f} times"


def _by_stored(gate: Gate, metric: Metric, stage: Stage, action: Action, terms: Terms, accepted: Accepted) -> Finding:
    """Against the figures of the baseline file, because its model was not measured beside this one."""
    stored = accepted.metrics.get(gate.metric)
    if stored is None:
        return _without_baseline(gate, f"no baseline yet for `{gate.metric}` of `{stage.id}`")
    if stored.unit != metric.unit:
        units = f"{UNIT_WORDS[metric.unit]}, and in the accepted baseline it {UNIT_WORDS[stored.unit]}"
        return _untold(gate, f"{gate.metric} {units}")
    if metric.noise != "none" and stored == alone(metric):
        return _the_same(gate, metric, f"the figure that was accepted on {accepted.day} is of this very measurement")
    reason = _why_stored(stage, action, terms, accepted)
    if metric.noise == "timing" and not same_machine(terms.host, accepted.host):
        why = f"{reason}, and the accepted figures are of another machine ({machine(accepted.host)})"
        return _untold(gate, why, " on this one")
    then = without_references(accepted.setup) if metric.reference or metric.references else accepted.setup
    if otherwise := changes(terms.compare, stage, then, terms.ports.setup(action)):
        return _untold(
            gate, f"{reason}, and the accepted figures were measured otherwise: {'; '.join(sentences(otherwise))}"
        )
    if metric.noise != "none" and not (metric.interval and stored.interval):
        return _untold(gate, f"{reason}, and figures on {NOISY[metric.noise]} tell nothing without their intervals")
    method = STORED[metric.noise].format(day=accepted.day, reason=reason)
    found = _regression(gate, metric, _stored_comparison(metric, stored, method))
    judged = by_interval(gate, metric, found)
    share = distance(found.estimate, gate.threshold.value)
    if judged.outcome == "undecided" and share:
        judged = replace(judged, why=f"{judged.why}; intervals {1 / share:.2g} times as narrow would decide it")
    return judged


def _without_baseline(gate: Gate, why: str) -> Finding:
    """Nothing is accepted yet that the metric could be compared with."""
    return Finding("no baseline", f"{why}; `{ACCEPT} {gate.position.file}`")


def _untold(gate: Gate, why: str, where: str = "") -> Finding:
    """There is a baseline, and the metric cannot be compared with it."""
    return Finding("undecided", f"{why}; `{ACCEPT} {gate.position.file}`{where}")


def _why_stored(stage: Stage, action: Action, terms: Terms, accepted: Accepted) -> str:
    """Why the accepted model was not measured beside this one."""
    if not accepted.model:
        return f"{stage.id} measures no model that could be measured again"
    if accepted.model == terms.ports.measured(action):
        now = terms.ports.with_model(action)
        others = [port for port in sorted({*now, *accepted.beside}) if now.get(port) != accepted.beside.get(port)]
        return f"the model is the accepted one, and its input {' and '.join(others)} another"
    return "the accepted model is not in the store" if terms.beside else f"{stage.uses} measures no second model"


def _stored_comparison(metric: Metric, stored: Metric, method: str) -> Comparison:
    """Two figures of different runs.

    Of times the ends of the intervals are subtracted: what a machine does from one day to the next is in neither. Of
    samples the halves are squared and added, which holds for independent ones (Newcombe 1998, Statistics in Medicine
    17:873-890, method 10) and is careful about the same examples, whose scores rise and fall together.
    """
    value, other = metric.value, stored.value
    a, b = (one.interval or point(one.value) for one in (metric, stored))
    difference = Estimate(
        value - other,
        value - other - math.hypot(value - a.low, b.high - other),
        value - other + math.hypot(a.high - value, other - b.low),
    )
    if metric.noise == "timing":
        difference = Estimate(value - other, a.low - b.high, a.high - b.low)
        ratio = Estimate(_ratio(value, other), _ratio(a.low, b.high), _ratio(a.high, b.low))
    else:  # of either sign; the other's own value is taken as known
        ratio = Estimate(*(_ratio(other + one, other) for one in (difference.value, difference.low, difference.high)))
    return Comparison(other, ratio, difference, method)


def _ratio(value: float, other: float) -> float:
    if other == 0:
        return 1.0 if value == 0 else math.copysign(math.inf, value)
    return 0.0 if math.isinf(other) else value / other
