"""Finding of a gate rule: the outcome, and the facts behind it."""

from __future__ import annotations

import math
from typing import Any

from orun.core.metrics import Disturbance, Estimate, Unit
from orun.core.reason import Reason
from orun.core.serialization import Record
from orun.core.verdict import GateOutcome
from orun.pipeline.model import Threshold


class Finding(Record, frozen=True):
    """Outcome of a gate with what was judged; see `orun.core.run_record.Verdict` for the fields."""

    outcome: GateOutcome
    finding: Reason
    measured: float | None = None
    unit: Unit = ""
    interval: Estimate | None = None
    caveats: tuple[Reason, ...] = ()


class Change(Record, frozen=True):
    """One model against another in one figure.

    Attributes:
        noun: what the figure is: `drop`, `increase`, `regression`, `speed-up`.
        against: the other model: `baseline`, or the port of the reference.
        estimate: the figure with its 95 % interval; `low` equals `high` for an exact figure.
        unit: of the figure.
        method: how the measurement got it, in its words, or a reason.
        count: independent units of evidence; 0 for an exact figure.
        width: half of the interval of the ratio to the other, as a log ratio; infinite where it has none.
        changed: examples that the two answered differently; None where answers are not right or wrong or classes.
        disturbance: why nothing, or little, is known of the figure; else None.
        of_zero: whether it is a proportion of 0, which the other model has.
    """

    noun: str
    against: str
    estimate: Estimate
    unit: Unit
    method: str | Reason
    count: int
    width: float = math.inf
    changed: int | None = None
    disturbance: Disturbance | None = None
    of_zero: bool = False

    @property
    def exact(self) -> bool:
        """Whether the figure has no interval."""
        return self.estimate.low == self.estimate.high

    def build_arguments(self, metric: str, limit: Threshold) -> dict[str, Any]:
        """Return the arguments of a reason about the change.

        A difference of proportions has the unit of its threshold: 0.7 % would be one of the other model's value.
        """
        return {
            "noun": self.noun,
            "metric": metric,
            "against": self.against,
            "value": self.estimate.value,
            "low": None if self.exact else self.estimate.low,
            "high": None if self.exact else self.estimate.high,
            "unit": "" if self.unit == "ratio" and not limit.relative else self.unit,
            "method": self.method if isinstance(self.method, str) else None,
            "of_zero": self.of_zero or None,
            "limit": limit.value,
            "threshold": limit.text,
        }

    @property
    def because(self) -> tuple[Reason, ...]:
        """How the figure was got, where that is a reason."""
        return () if isinstance(self.method, str) else (self.method,)


def exceeds(value: float, limit: float) -> bool:
    """Return whether a value exceeds a limit by more than rounding in the last digits."""
    return value > limit and not math.isclose(value, limit, rel_tol=1e-9, abs_tol=1e-12)


def compare_with_maximum(interval: Estimate, limit: float) -> GateOutcome:
    """Return whether the interval is within the limit, above it, or includes it."""
    if not exceeds(interval.high, limit):
        return "passed"
    return "failed" if exceeds(interval.low, limit) else "undecided"


def compare_with_minimum(interval: Estimate, limit: float) -> GateOutcome:
    """Return whether the interval is at or above the limit, below it, or includes it."""
    if not exceeds(limit, interval.low):
        return "passed"
    return "failed" if exceeds(limit, interval.high) else "undecided"


def to_interval(value: float) -> Estimate:
    """Return an exact value as an interval of no width."""
    return Estimate(value, value, value)


def compute_distance(estimate: Estimate, limit: float) -> float:
    """Return how far a limit lies from a value, in halves of the interval on that side: at most 1 if it is inside."""
    half = estimate.high - estimate.value if limit > estimate.value else estimate.value - estimate.low
    return abs(limit - estimate.value) / half if half else math.inf


def compute_log_width(ratio: Estimate) -> float:
    """Return half of the width of a ratio's interval as a log ratio; infinite where an end has no logarithm."""
    known = 0 < ratio.low <= ratio.high < math.inf
    return (math.log(ratio.high) - math.log(ratio.low)) / 2 if known else math.inf
