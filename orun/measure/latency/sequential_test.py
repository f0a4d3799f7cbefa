"""Sequential test of whether a model is slower than another one. It stops as soon as the answer is clear.

Each launch gives one log ratio of the two models' times. The test weighs "not slower" against "slower by d": Wald's
sequential probability ratio test (1945, Annals of Mathematical Statistics 16:117-186), with the likelihoods maximized
over the unknown spread. That makes it as careful about few launches as Student's t is. A floor under the spread keeps
a few launches that agree by luck from looking certain.

Against a reference, whose kernels are of another kind, the launches of a run are correlated: what other processes and
other virtual machines do on the same core and caches slows kernels unequally, for as long as they do it. The mean of n
launches of spread s then has the variance s^2 (1 / n + r), where r s^2 is the variance between runs (random effects on
two levels: Kalibera and Jones 2013, "Rigorous Benchmarking in Reasonable Time", ISMM). One run cannot estimate r.
`SHARED` is the r with which intervals of `benchmarks.interval_coverage` hold the value of all runs at the stated rate.

Pure Python: the process that plans judges gates, and imports no numpy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Literal

from orun.core.metrics import Comparison, Estimate
from orun.core.serialization import Record

CONFIDENCE = 0.95

ALPHA = 0.01  # probability of calling an equal model slower
BETA = 0.05  # probability of missing a model that is slower by d
FEWEST = 3  # launches below which nothing is decided
FLOOR = 0.008  # least spread of launches, as a log ratio
SHARED = 0.35  # r: variance between runs against a reference over the variance between launches of a run
FINEST = 0.005  # smallest slow-down to test for: below the floor it would take hundreds of launches

SLOWER = math.log((1 - BETA) / ALPHA)  # log odds at which "slower by d" is accepted
EQUAL = math.log(BETA / (1 - ALPHA))  # log odds at which "not slower" is accepted

Answer = Literal["slower", "not slower", "undecided"]


class Evidence(Record, frozen=True):
    """Sufficient statistics of a comparison's launches.

    Attributes:
        count: launches, at least 2.
        mean: mean of their log ratios.
        spread: standard deviation of their log ratios, at least `FLOOR`.
        shared: variance between runs over the variance between launches.
        error: log ratio by which all launches may be off together.
    """

    count: int
    mean: float
    spread: float
    shared: float = 0.0
    error: float = 0.0

    @classmethod
    def from_log_ratios(cls, ratios: Sequence[float], shared: float = 0.0, error: float = 0.0) -> Evidence:
        """Summarize the log ratio of each launch."""
        count = len(ratios)
        mean = math.fsum(ratios) / count
        variance = math.fsum((ratio - mean) ** 2 for ratio in ratios) / (count - 1)
        return cls(count, mean, max(math.sqrt(variance), FLOOR), shared, error)

    @classmethod
    def from_comparison(cls, comparison: Comparison) -> Evidence:
        """Read back what a comparison stores of its launches: count, ratio of the times and spread."""
        return cls(comparison.count, math.log(comparison.ratio.value), comparison.spread)

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval of the mean."""
        return self.spread * compute_reach(self.count, self.shared) + self.error

    @property
    def ratio(self) -> Estimate:
        """Ratio of the times with its 95 % interval."""
        low, high = self.mean - self.half_width, self.mean + self.half_width
        return Estimate(math.exp(self.mean), math.exp(low), math.exp(high))

    def invert(self) -> Evidence:
        """Return the evidence with the two models swapped."""
        return Evidence(self.count, -self.mean, self.spread, self.shared, self.error)

    def log_odds(self, slowdown: float) -> float:
        """Return the log likelihood ratio of "slower by `slowdown` or more" to "not slower".

        Args:
            slowdown: log ratio of the times, above 0.
        """
        variance = self.spread**2 * (self.count - 1) / self.count
        slower = variance + max(slowdown - self.mean, 0.0) ** 2
        equal = variance + max(self.mean, 0.0) ** 2
        return self.count / 2 * math.log(equal / slower)

    def answer(self, slowdown: float) -> Answer:
        """Decide whether the model is slower by `slowdown`, a log ratio above 0."""
        odds = self.log_odds(slowdown)
        if self.count < FEWEST:
            return "undecided"
        if odds <= EQUAL or self.is_below(slowdown):
            return "not slower"
        return "slower" if odds >= SLOWER else "undecided"

    def is_below(self, slowdown: float) -> bool:
        """Return whether the model is slower by clearly less: the mean plus twice the half width lies below.

        A change between the two hypotheses fits neither, and the odds alone would never decide. With three launches
        a slow-down of exactly `slowdown` looks so in 0.7 % of cases, with more launches in fewer.
        """
        return self.mean + 2 * self.half_width < slowdown


def compute_reach(count: int, shared: float = 0.0) -> float:
    """Return half the width of the 95 % interval of the mean of `count` launches, as a multiple of their spread."""
    return compute_student_quantile(count - 1) * math.sqrt(1 / count + shared)


@functools.cache
def compute_student_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t, by bisection.

    Args:
        freedom: degrees of freedom, at least 1.
    """
    low, high = 0.0, 1.0
    while _compute_student_within(high, freedom) < CONFIDENCE:
        high *= 2
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if _compute_student_within(middle, freedom) < CONFIDENCE else (low, middle)
    return high


def _compute_student_within(t: float, freedom: int) -> float:
    """Return P(|T| <= t) by the finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, odd = math.cos(angle), freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for step in range(1 + odd, freedom, 2):
        total += term
        term *= cosine * cosine * step / (step + 1)
    total *= math.sin(angle)
    return (angle + total) * 2 / math.pi if odd else total
