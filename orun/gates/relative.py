"""`max_drop`, `max_increase` and `min_speedup`: a metric against the stage's reference, measured beside it."""

from __future__ import annotations

import math

from orun.gates.finding import Change, Finding, Outcome, above, against_maximum, against_minimum
from orun.metrics import UNBOUNDED, Comparison, Estimate, Metric
from orun.pipeline.model import Gate
from orun.units import show

REFERENCE = "the reference"  # of the input `reference`; others are called by their names


def judge_relative(gate: Gate, metric: Metric) -> Finding:
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
        return by_interval(gate, metric, speedup(comparison, metric, against))
    noun = "drop" if gate.rule == "max_drop" else "increase"
    return by_interval(gate, metric, change(comparison, metric, noun, against, relative=gate.threshold.relative))


def speedup(comparison: Comparison, metric: Metric, against: str) -> Change:
    """How many times better the metric is than the reference's."""
    ratio = comparison.ratio
    if metric.better == "lower":
        ratio = Estimate(_inverse(ratio.value), _inverse(ratio.high), _inverse(ratio.low))
    return Change("speed-up", against, ratio, "x", comparison.method, comparison.count)


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
    return Change(noun, against, rise, "ratio" if relative else metric.unit, method, comparison.count)


def _proportion(ratio: float) -> float:
    """The rise that a ratio says; without bound where it is one to 0."""
    return math.copysign(math.inf, ratio) if abs(ratio) >= UNBOUNDED else ratio - 1


def by_interval(gate: Gate, metric: Metric, found: Change) -> Finding:
    """Judge a change by its interval; `min_speedup` must reach the threshold, every other must stay within it."""
    limit, text = gate.threshold.value, gate.threshold.text
    sentence = found.sentence(gate.metric, limit)
    estimate = found.estimate
    if any(map(math.isnan, (estimate.value, estimate.low, estimate.high))):
        return Finding("failed", f"{gate.metric} cannot be compared: {sentence}")
    least = gate.rule == "min_speedup"
    outcome = (against_minimum if least else against_maximum)(found.estimate, limit)
    ending = f"the interval holds {text}{_more(found, limit, metric)}"
    if outcome != "undecided":
        ending = f"{_shown(found)}{_side(outcome, least=least)} {text}"
    interval = None if found.exact else found.estimate
    return Finding(outcome, f"{sentence}: {ending}", found.estimate.value, found.unit, interval)


def _shown(found: Change) -> str:
    return "" if found.exact else "shown to be "


def _side(outcome: Outcome, *, least: bool) -> str:
    if least:
        return "at least" if outcome == "passed" else "less than"
    return "within" if outcome == "passed" else "more than"


def _more(found: Change, limit: float, metric: Metric) -> str:
    """How much more evidence would narrow the interval enough: its width falls with the root of the count."""
    estimate = found.estimate
    half = estimate.high - estimate.value if limit > estimate.value else estimate.value - estimate.low
    apart = above(estimate.value, limit) or above(limit, estimate.value)
    if not (found.count and apart and math.isfinite(half)):
        return ""
    needed = max(found.count * ((half / (limit - estimate.value)) ** 2 - 1), 1)
    more = f"about {float(f'{needed:.2g}'):.0f} more"
    if metric.noise == "timing":
        return f"; {more} launches would decide it: measure again with --fresh and a longer `time`"
    return f"; {more} examples would decide it"


def _inverse(value: float) -> float:
    return 1 / value if value > 0 else math.inf
