"""`max_drop`, `max_increase` and `min_speedup`: a metric against the stage's reference, measured side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from orun.core.metrics import UNBOUNDED, Comparison, Estimate, Metric, make_unknown
from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.verdict import GateOutcome
from orun.gates.advice import advise_for_ratio, explain_disturbance
from orun.gates.finding import (
    Change,
    Finding,
    compare_with_maximum,
    compare_with_minimum,
    compute_distance,
    compute_log_width,
    exceeds,
)
from orun.gates.measured import REFERENCE
from orun.pipeline.model import Gate

Z2 = 1.959964**2  # of the normal quantile of 95 %
MOST = 100  # times as many examples that are worth a try
CODES: Mapping[GateOutcome, ReasonCode] = {
    "passed": ReasonCode.CHANGE_WITHIN,
    "failed": ReasonCode.CHANGE_BEYOND,
    "undecided": ReasonCode.CHANGE_UNDECIDED,
}


def judge_relative(gate: Gate, metric: Metric, params: Mapping[str, Any]) -> Finding:
    """Judge by the paired interval: shown to be within the threshold, shown not to be, or neither."""
    comparison = metric.references.get(gate.against) if gate.against else metric.reference
    against = f"{REFERENCE}.{gate.against}" if gate.against else REFERENCE
    if comparison is None:
        return Finding("failed", build_reason(ReasonCode.NO_REFERENCE, metric=gate.metric, against=against))
    if gate.rule == "min_speedup":
        if metric.better == "neither":
            return Finding("failed", build_reason(ReasonCode.NO_DIRECTION, metric=gate.metric, noun="speed-up"))
        if min(metric.value, comparison.value) < 0:
            values = {"value": metric.value, "other": comparison.value, "unit": metric.unit}
            return Finding(
                "failed", build_reason(ReasonCode.NEGATIVE_VALUE, metric=gate.metric, against=against, **values)
            )
        return judge_by_interval(gate, metric, compute_speedup(comparison, metric, against), params)
    noun = "drop" if gate.rule == "max_drop" else "increase"
    return judge_by_interval(
        gate, metric, compute_change(comparison, metric, noun, against, relative=gate.threshold.relative), params
    )


def compute_speedup(comparison: Comparison, metric: Metric, against: str) -> Change:
    """Return how many times better the metric is than the reference's."""
    ratio = comparison.ratio
    if metric.better == "lower":
        ratio = _invert_ratio(ratio)
    count, changed, disturbance = comparison.count, comparison.changed, comparison.disturbance
    return Change(
        "speed-up", against, ratio, "x", comparison.method, count, compute_log_width(ratio), changed, disturbance
    )


def compute_change(comparison: Comparison, metric: Metric, noun: str, against: str, *, relative: bool) -> Change:
    """Return how far a metric rose, or fell for a `drop`: a proportion of the other's value, or in its own unit."""
    rise, of_zero = comparison.difference, False
    if relative:
        sign = -1 if comparison.value < 0 else 1
        ends = sorted(
            (sign * _compute_proportion(comparison.ratio.low), sign * _compute_proportion(comparison.ratio.high))
        )
        rise = Estimate(sign * _compute_proportion(comparison.ratio.value), *ends)
        of_zero = comparison.value == 0 and not rise.low == rise.high == 0
    if noun == "drop":
        rise = Estimate(-rise.value, -rise.high, -rise.low)
    unit = "ratio" if relative else metric.unit
    return Change(
        noun,
        against,
        rise,
        unit,
        comparison.method,
        comparison.count,
        compute_log_width(comparison.ratio),
        comparison.changed,
        comparison.disturbance,
        of_zero,
    )


def _compute_proportion(ratio: float) -> float:
    """Return the rise of a ratio; without bound for a ratio to 0."""
    return math.copysign(math.inf, ratio) if abs(ratio) >= UNBOUNDED else ratio - 1


def judge_by_interval(gate: Gate, metric: Metric, compared: Change, params: Mapping[str, Any] | None = None) -> Finding:
    """Judge a change by its interval: `min_speedup` must reach the threshold, every other must stay within it.

    `params` is None where measuring on would not narrow the interval.
    """
    limit, estimate = gate.threshold.value, compared.estimate
    least = gate.rule == "min_speedup"
    arguments = {**compared.build_arguments(gate.metric, gate.threshold), "least": least or None}
    if any(map(math.isnan, (estimate.value, estimate.low, estimate.high))):
        return Finding("failed", build_reason(ReasonCode.NOT_COMPARABLE, *compared.because, **arguments))
    outcome = (compare_with_minimum if least else compare_with_maximum)(estimate, limit)
    advice: tuple[Reason, ...] = ()
    if outcome == "undecided" and compared.disturbance:
        advice = (explain_disturbance(compared.disturbance),)
    elif outcome == "undecided" and params is not None:
        advice = _advise(gate, compared, metric, params)
    finding = build_reason(CODES[outcome], *compared.because, *advice, **arguments)
    return Finding(outcome, finding, estimate.value, compared.unit, None if compared.exact else estimate)


def _advise(gate: Gate, compared: Change, metric: Metric, params: Mapping[str, Any]) -> tuple[Reason, ...]:
    share = compute_distance(compared.estimate, gate.threshold.value)
    if metric.noise == "timing":
        return (advise_for_ratio(gate.metric, compared.width, share, compared.count, params),)
    differs = exceeds(compared.estimate.value, gate.threshold.value) or exceeds(
        gate.threshold.value, compared.estimate.value
    )
    if not (compared.count and differs and share and math.isfinite(share)):
        return ()
    needed = max(_estimate_examples(compared, share) - compared.count, 1)
    if needed > MOST * compared.count:
        return (build_reason(ReasonCode.TOO_MANY_EXAMPLES, times=MOST),)
    return (build_reason(ReasonCode.MORE_EXAMPLES, number=round(float(f"{needed:.2g}"))),)


def _estimate_examples(compared: Change, share: float) -> float:
    """Return how many examples, of the same mix, make the interval so narrow.

    Its width falls with the root of their number. Where answers are right or wrong or classes, and next to none
    changed, it falls with the number itself, as the interval of Tango does: for a share r of n that changed its half h
    solves n h^2 = z^2 (r + h (1 - h)), nearly.
    """
    if compared.changed is None:
        return compared.count / share**2
    rate, seen = compared.changed / compared.count, compared.count + Z2
    half = share * (Z2 + math.sqrt(Z2 * Z2 + 4 * seen * Z2 * rate)) / (2 * seen)
    return Z2 * (rate + half * (1 - half)) / half**2


def _invert_ratio(ratio: Estimate) -> Estimate:
    if ratio.low == -math.inf:  # nothing is known of it
        return make_unknown(_invert(ratio.value))
    return Estimate(_invert(ratio.value), _invert(ratio.high), _invert(ratio.low))


def _invert(value: float) -> float:
    return 1 / value if value > 0 else math.inf
