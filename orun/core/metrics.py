"""Measured values as plain data: what stages return, gates judge, and reports show."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Literal

from orun.core.serialization import Record, field, replace

Better = Literal["higher", "lower", "neither"]
Unit = Literal["s", "B", "J", "ratio", "x", "1/s", ""]
Noise = Literal["none", "sample", "timing"]

UNBOUNDED = sys.float_info.max  # a ratio to 0, which is calculated with where infinity cannot be

# What a metric of each unit is, for a message.
UNIT_WORDS: Mapping[Unit, str] = {
    "s": "is a time",
    "B": "is a size",
    "J": "is an energy",
    "ratio": "is a proportion",
    "x": "is a factor",
    "1/s": "is a rate in 1/s",
    "": "has no unit",
}


class Quantity(Record, frozen=True):
    """Facts of a metric that are known before it is measured.

    Attributes:
        unit: its unit; None if only the measurement tells it.
        better: the direction of improvement; `neither` also if only the measurement tells it.
        least: value that none is below; None if there is no such value.
        greatest: value that no sensible limit is above; None if there is no such value.
    """

    unit: Unit | None = None
    better: Better = "neither"
    least: float | None = None
    greatest: float | None = None


TIME, SIZE, ENERGY = (Quantity(unit, "lower", 0.0) for unit in ("s", "B", "J"))
RATE, SPEEDUP = Quantity("1/s", "higher", 0.0), Quantity("x", "higher", 0.0)
SHARE, LOWER_SHARE, HIGHER_SHARE = (Quantity("ratio", better, 0.0, 1.0) for better in ("neither", "lower", "higher"))
COUNT, LOWER, HIGHER = (Quantity("", better, 0.0) for better in ("neither", "lower", "higher"))  # counts, errors
GAIN = Quantity("", "higher")  # may be negative, as decibels and the number of removed weights
UNKNOWN = Quantity()


def find_quantity(declared: Mapping[str, Quantity] | None, metric: str, otherwise: Quantity = UNKNOWN) -> Quantity:
    """Return what is declared of a metric: of `accuracy[label=3]`, what is declared of `accuracy`."""
    return (declared or {}).get(metric.partition("[")[0], otherwise)


class Estimate(Record, frozen=True):
    """Value with its 95 % confidence interval.

    Attributes:
        value: the value.
        low: the lower end.
        high: the upper end.
    """

    value: float
    low: float
    high: float

    @property
    def holds(self) -> bool:
        """Whether the value lies between the ends, but for rounding in the last digits."""
        pairs = ((self.low, self.value), (self.value, self.high))
        return all(a <= b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in pairs)


class Disturbance(Record, frozen=True):
    """Too many launches in which a thread waited for a core, or something else used the core.

    Where threads waited, the times tell nothing of how models compare: intervals have no ends. On a shared core they
    tell it roughly: intervals against a reference are wider.

    Attributes:
        launches: that were disturbed.
        of: all launches.
        shared: whether something else used the core; else some of several threads waited for one.
    """

    launches: int
    of: int
    shared: bool = False

    @property
    def total(self) -> bool:
        """Whether nothing is known: intervals have no ends."""
        return not self.shared


class Comparison(Record, frozen=True):
    """Comparison with the same metric of another model, measured side by side.

    Attributes:
        value: the other model's value, in the metric's unit.
        ratio: this model's value divided by the other's; 1 where both are 0, `UNBOUNDED` where that alone is.
        difference: this model's value minus the other's, in the metric's unit.
        method: how they were compared, for people ("paired bootstrap over 312 examples").
        count: independent units of evidence behind it (launches, examples); 0 for an exact metric.
        changed: examples that the two answered differently, where answers are right or wrong or classes; else None.
        spread: standard deviation of the log ratio of a launch, as `Evidence` of the sequential test has it; 0
            where it was not measured in launches.
        disturbance: why nothing, or little, is known of how they compare; else None.
    """

    value: float
    ratio: Estimate
    difference: Estimate
    method: str
    count: int = 0
    changed: int | None = None
    spread: float = 0.0
    disturbance: Disturbance | None = None


class Metric(Record, frozen=True):
    """Measured value.

    Attributes:
        value: in `unit`; seconds and bytes, never their multiples.
        unit: s, B, J, ratio (a proportion between 0 and 1), x (a factor), 1/s, or none.
        better: the direction of improvement.
        noise: `none` for exact values, `sample` for a task metric on a sample of examples, `timing`
            for what the machine disturbs. An absolute threshold is judged by the interval for
            `timing` alone: on a fixed data set the value itself is exact.
        interval: the value with its 95 % interval; None for exact values.
        reference: against the stage's reference input.
        baseline: against the accepted baseline, measured beside this model.
        references: against each further reference input (`reference.<name>`), by its name.
        examples: how many examples it is of, where it is of one slice of a dataset; else 0.
        disturbance: why nothing, or little, is known of the value; else None.
    """

    value: float
    unit: Unit = ""
    better: Better = "neither"
    noise: Noise = "none"
    interval: Estimate | None = None
    reference: Comparison | None = None
    baseline: Comparison | None = None
    references: Mapping[str, Comparison] = field(default_factory=dict)
    examples: int = 0
    disturbance: Disturbance | None = None


def make_unknown(value: float) -> Estimate:
    """Return a value of which nothing is known: its interval has no ends."""
    return Estimate(value, -math.inf, math.inf)


def with_comparisons(metric: Metric, comparisons: Mapping[str, Comparison]) -> Metric:
    """Return the metric with its comparisons, by role: any of `reference`, `reference.<name>` and `baseline`."""
    references = {name: comparison for role, comparison in comparisons.items() if (name := parse_extra_reference(role))}
    return replace(
        metric, reference=comparisons.get("reference"), baseline=comparisons.get("baseline"), references=references
    )


def parse_extra_reference(role: str) -> str:
    """Return the name of an extra reference: `fused` of `reference.fused`; empty for every other role."""
    return role.removeprefix("reference.") if role.startswith("reference.") else ""
