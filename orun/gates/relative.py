"""`max_drop`, `max_increase` and `min_speedup`: a metric against the stage's reference, measured beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from orun.core.metrics import UNBOUNDED, Comparison, Estimate, Metric, unknown
from orun.core.run_record import GateOutcome
from orun.gates.advice import explain_disturbance, to_narrow
from orun.gates.finding import Change, Finding, above, against_maximum, against_minimum, distance, log_width
from orun.pipeline.model import Gate
from orun.text.units import show

Z2 = 1.959964**2  # of the normal quantile of 95 %
MOST = 100  # times as many examples that are worth naming
REFERENCE = "the reference"  # of the input `reference`; others are called by their names


def judge_relative(gate: Gate, metric: Metric, params: Mapping[str, Any]) -> Finding:
    """The paired interval decides: shown to be within the threshold, shown not to be, or neither."""
    comparison = metric.references.get(gate.against) if gate.against else metric.reference
    against = gate.against or REFERENCE
    if comparison is None:
        port = f"reference.{gate.against}" if gate.against else "reference"
        why = f"the stage has no `{port}` input, or the metric itself is what lies between the two: use min or max"
        return Finding("failed", f"{against} has no {gate.metric} to compare with: {why}")
    if gate.rule == "min_speedup":
        if metric.better == "neither":
            return Finding("failed", f"{gate.metric} has no direction of improvement, so it has no speed-up")
        if min(metric.value, comparison.value) < 0:
            values = f"{show(metric.value, metric.unit)}, and {show(comparison.value, metric.unit)} of {against}"
            return Finding("failed", f"{gate.metric} is {values}: a figure below 0 has no speed-up")
        return by_interval(gate, metric, speedup(comparison, metric, against), params)
    noun = "drop" if gate.rule == "max_drop" else "increase"
    found = change(comparison, metric, noun, against, relative=gate.threshold.relative)
    return by_interval(gate, metric, found, params)


def speedup(comparison: Comparison, metric: Metric, against: str) -> Change:
    """How many times better the metric is than the reference's."""
    ratio = comparison.ratio
    if metric.better == "lower":
        ratio = _inverse_of(ratio)
    count, changed, why = comparison.count, comparison.changed, comparison.disturbance
    return Change("speed-up", against, ratio, "x", comparison.method, count, log_width(ratio), changed, why)


def change(comparison: Comparison, metric: Metric, noun: str, against: str, *, relative: bool) -> Change:
    """How far a metric rose, or fell for a `drop`: a proportion of the other's value, or in the metric's unit."""
    rise, method = comparison.difference, comparison.method
    if relative:
        sign = -1 if comparison.value < 0 else 1
        ends = sorted((sign * _proportion(comparison.ratio.low), sign * _proportion(comparison.ratio.high)))
        rise = Estimate(sign * _proportion(comparison.ratio.value), *ends)
        if comparison.value == 0 and not rise.low == rise.high == 0:
            method += f"; nothing is a proportion of 0, which {against} has: write the threshold without %"
    if noun == "drop":
        rise = Estimate(-rise.value, -rise.high, -rise.low)
    unit = "ratio" if relative else metric.unit
    width, count = log_width(comparison.ratio), comparison.count
    return Change(noun, against, rise, unit, method, count, width, comparison.changed, comparison.disturbance)


def _proportion(ratio: float) -> float:
    """The rise that a ratio says; without bound where it is one to 0."""
    return math.copysign(math.inf, ratio) if abs(ratio) >= UNBOUNDED else ratio - 1


def by_interval(gate: Gate, metric: Metric, found: Change, params: Mapping[str, Any] | None = None) -> Finding:
    """Judge a change by its interval; `min_speedup` must reach the threshold, every other must stay within it.

    Args:
        gate: the condition.
        metric: what was measured.
        found: how it compares.
        params: of the stage; None where measuring on would not narrow the interval.
    """
    limit, text = gate.threshold.value, gate.threshold.text
    sentence = found.sentence(gate.metric, gate.threshold)
    estimate = found.estimate
    if any(map(math.isnan, (estimate.value, estimate.low, estimate.high))):
        return Finding("failed", f"{gate.metric} cannot be compared: {sentence}")
    if found.disturbance:
        why = f"{sentence}: {explain_disturbance(found.disturbance)}"
        return Finding("undecided", why, estimate.value, found.unit, estimate)
    least = gate.rule == "min_speedup"
    outcome = (against_minimum if least else against_maximum)(found.estimate, limit)
    known = math.isfinite(estimate.low) or math.isfinite(estimate.high)
    ending = f"the interval holds {text}" if known else f"{text} is neither kept nor broken"
    if params is not None:
        ending += _more(gate, found, metric, params)
    if outcome != "undecided":
        ending = f"{_shown(found)}{_side(outcome, least=least)} {text}"
    interval = None if found.exact else found.estimate
    return Finding(outcome, f"{sentence}: {ending}", found.estimate.value, found.unit, interval)


def _shown(found: Change) -> str:
    return "" if found.exact else "shown to be "


def _side(outcome: GateOutcome, *, least: bool) -> str:
    if least:
        return "at least" if outcome == "passed" else "less than"
    return "within" if outcome == "passed" else "more than"


def _more(gate: Gate, found: Change, metric: Metric, params: Mapping[str, Any]) -> str:
    """What would narrow the interval enough."""
    share = distance(found.estimate, gate.threshold.value)
    if metric.noise == "timing":
        return f": {to_narrow(gate.metric, found.width, share, found.count, params)}"
    apart = above(found.estimate.value, gate.threshold.value) or above(gate.threshold.value, found.estimate.value)
    if not (found.count and apart and share):
        return ""
    needed = max(_examples(found, share) - found.count, 1)
    if needed > MOST * found.count:
        return f"; over {MOST} times as many examples would decide it: choose another threshold"
    return f"; about {float(f'{needed:.2g}'):.0f} more examples would decide it"


def _examples(found: Change, share: float) -> float:
    """Examples, of the same mix, of which the interval is so narrow.

    Its width falls with the root of their number. Where answers are right or wrong or classes, and next to none
    changed, it falls with the number itself, as the interval of Tango does: for a share r of n that changed its half h
    solves n h^2 = z^2 (r + h (1 - h)), nearly.
    """
    if found.changed is None:
        return found.count / share**2
    rate, seen = found.changed / found.count, found.count + Z2
    half = share * (Z2 + math.sqrt(Z2 * Z2 + 4 * seen * Z2 * rate)) / (2 * seen)
    return Z2 * (rate + half * (1 - half)) / half**2


def _inverse_of(ratio: Estimate) -> Estimate:
    if ratio.low == -math.inf:  # nothing is known of it
        return unknown(_inverse(ratio.value))
    return Estimate(_inverse(ratio.value), _inverse(ratio.high), _inverse(ratio.low))


def _inverse(value: float) -> float:
    return 1 / value if value > 0 else math.inf
