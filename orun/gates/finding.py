"""Finding of a gate rule, and the figures in its sentence."""

from __future__ import annotations

import math

from orun.core.metrics import Disturbance, Estimate, Unit
from orun.core.run_record import GateOutcome
from orun.core.serialization import Record
from orun.pipeline.model import Threshold
from orun.text.units import show, span


class Finding(Record, frozen=True):
    """The outcome of a gate with what was judged; see `orun.core.run_record.Verdict` for the fields."""

    outcome: GateOutcome
    why: str
    measured: float | None = None
    unit: Unit = ""
    interval: Estimate | None = None
    caveat: str = ""


class Change(Record, frozen=True):
    """One model against another in one figure.

    Attributes:
        noun: what the figure is: `drop`, `increase`, `regression`, `speed-up`.
        against: the other model, for people.
        estimate: the figure with its 95 % interval; `low` equals `high` for an exact one.
        unit: of the figure.
        method: how it was found, for people.
        count: independent units of evidence; 0 for an exact figure.
        width: half of the interval of the ratio to the other, as a log ratio; infinite where it has none.
        changed: examples that the two answered differently; None where answers are not right or wrong or classes.
        disturbance: why nothing is known of the figure; else None.
    """

    noun: str
    against: str
    estimate: Estimate
    unit: Unit
    method: str
    count: int
    width: float = math.inf
    changed: int | None = None
    disturbance: Disturbance | None = None

    @property
    def exact(self) -> bool:
        """Whether the figure has no interval."""
        return self.estimate.low == self.estimate.high

    def sentence(self, metric: str, limit: Threshold) -> str:
        """`the drop of recall_at_1 against the reference is 0.7 % (95 % interval ...)`.

        A difference of proportions is told as its threshold is written, 0.007: 0.7 % would be one of the other's value.
        """
        unit: Unit = "" if self.unit == "ratio" and not limit.relative else self.unit
        interval = "" if self.exact else f"95 % interval {span(self.estimate, unit)}; "
        value = figure(self.estimate.value, unit, limit.value)
        return f"the {self.noun} of {metric} against {self.against} is {value} ({interval}{self.method})"


def above(value: float, limit: float) -> bool:
    """Whether a value exceeds a limit by more than rounding in the last digits."""
    return value > limit and not math.isclose(value, limit, rel_tol=1e-9, abs_tol=1e-12)


def against_maximum(interval: Estimate, limit: float) -> GateOutcome:
    """Three outcomes: the interval is within the limit, above it, or holds it."""
    if not above(interval.high, limit):
        return "passed"
    return "failed" if above(interval.low, limit) else "undecided"


def against_minimum(interval: Estimate, limit: float) -> GateOutcome:
    """Three outcomes: the interval is at or above the limit, below it, or holds it."""
    if not above(limit, interval.low):
        return "passed"
    return "failed" if above(limit, interval.high) else "undecided"


def point(value: float) -> Estimate:
    """An exact value as an interval of no width."""
    return Estimate(value, value, value)


def figure(value: float, unit: Unit, limit: float) -> str:
    """A value as people read it, with more digits where the usual ones would make it look like the limit."""
    if math.isinf(value):
        return "without bound"
    shown = show(value, unit)
    alike = shown == show(limit, unit) and (above(value, limit) or above(limit, value))
    return f"{value:.9g}" if alike else shown


def distance(estimate: Estimate, limit: float) -> float:
    """How far a limit lies from a value, in halves of the interval on that side: at most 1 where that holds it."""
    half = estimate.high - estimate.value if limit > estimate.value else estimate.value - estimate.low
    return abs(limit - estimate.value) / half if half else math.inf


def log_width(ratio: Estimate) -> float:
    """Half of the width of a ratio's interval as a log ratio; infinite where an end has no logarithm."""
    known = 0 < ratio.low <= ratio.high < math.inf
    return (math.log(ratio.high) - math.log(ratio.low)) / 2 if known else math.inf
