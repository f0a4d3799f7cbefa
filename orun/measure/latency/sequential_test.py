"""Sequential test of whether a model is slower than another; it stops as soon as the answer is clear.

One launch of both models gives one log ratio of their times. The test weighs "not slower" against "slower by d":
Wald's sequential probability ratio test (1945, Annals of Mathematical Statistics 16:117-186) with the likelihoods
maximised over the unknown spread, which makes it as careful about few launches as Student's t is. A floor under the
spread keeps a few launches that agree by luck from looking like certainty.

Against a reference, whose kernels are of another kind, the launches of a run have something in common: what other
processes leave in the caches costs the larger model more, for as long as they are at work. The mean of n launches of
spread s then has the variance s^2 (1 / n + r), with r s^2 the variance between runs: random effects on two levels,
Kalibera and Jones (2013), "Rigorous Benchmarking in Reasonable Time", ISMM. One run cannot tell r. `SHARED` is what
runs of `benchmarks.interval_coverage` need to hold the value of all of them.

Pure Python: gates are judged by the process that plans, which imports no numpy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Literal

from orun.core.metrics import Comparison, Estimate
from orun.core.serialization import Record

CONFIDENCE = 0.95

ALPHA = 0.01  # chance to call an equal model slower
BETA = 0.05  # chance to miss one that is slower by d
FEWEST = 3  # launches below which nothing is decided
FLOOR = 0.008  # of the spread of launches, as a log ratio
SHARED = 0.25  # variance between runs against a reference, in times of that between the launches of one
FINEST = 0.005  # slow-down that it is asked to tell from none: below the floor it would take hundreds of launches

SLOWER = math.log((1 - BETA) / ALPHA)  # log odds at which "slower by d" is accepted
EQUAL = math.log(BETA / (1 - ALPHA))  # and "not slower"

Answer = Literal["slower", "not slower", "undecided"]


class Evidence(Record, frozen=True):
    """The launches of a comparison, as far as the test needs them.

    Attributes:
        count: how many launches, at least 2.
        mean: of their log ratios.
        spread: their standard deviation, or the floor where that is larger.
        shared: variance between runs, in times of that between launches.
    """

    count: int
    mean: float
    spread: float
    shared: float = 0.0

    @classmethod
    def of(cls, ratios: Sequence[float], shared: float = 0.0) -> Evidence:
        """From the log ratio of each launch."""
        count = len(ratios)
        mean = math.fsum(ratios) / count
        variance = math.fsum((ratio - mean) ** 2 for ratio in ratios) / (count - 1)
        return cls(count, mean, max(math.sqrt(variance), FLOOR), shared)

    @classmethod
    def stored(cls, comparison: Comparison) -> Evidence:
        """From a comparison that was measured in launches."""
        return cls(comparison.count, math.log(comparison.ratio.value), comparison.spread)

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval of the mean."""
        return self.spread * reach(self.count, self.shared)

    @property
    def ratio(self) -> Estimate:
        """The ratio of the times with its 95 % interval."""
        low, high = self.mean - self.half_width, self.mean + self.half_width
        return Estimate(math.exp(self.mean), math.exp(low), math.exp(high))

    def inverse(self) -> Evidence:
        """The same with the two models changed over."""
        return Evidence(self.count, -self.mean, self.spread, self.shared)

    def log_odds(self, slowdown: float) -> float:
        """How much better "slower by `slowdown` or more" fits than "not slower": the log of the likelihood ratio.

        Args:
            slowdown: log ratio of the times, above 0.
        """
        variance = self.spread**2 * (self.count - 1) / self.count
        slower = variance + max(slowdown - self.mean, 0.0) ** 2
        equal = variance + max(self.mean, 0.0) ** 2
        return self.count / 2 * math.log(equal / slower)

    def answer(self, slowdown: float) -> Answer:
        """What the launches say of a slow-down, a log ratio above 0."""
        odds = self.log_odds(slowdown)
        if self.count < FEWEST:
            return "undecided"
        if odds <= EQUAL or self.is_below(slowdown):
            return "not slower"
        return "slower" if odds >= SLOWER else "undecided"

    def is_below(self, slowdown: float) -> bool:
        """Whether the launches are slower by clearly less: twice the half of the 95 % interval lies below.

        A change between the two hypotheses fits neither, and the odds would never decide. At three launches an equal
        slow-down looks so in 0.7 % of cases, at more launches in fewer.
        """
        return self.mean + 2 * self.half_width < slowdown


def reach(count: int, shared: float = 0.0) -> float:
    """Return half the width of the 95 % interval of the mean of so many launches, in times of their spread."""
    return student(count - 1) * math.sqrt(1 / count + shared)


@functools.cache
def student(freedom: int) -> float:
    """The quantile of Student's t that leaves 2.5 % above it.

    Args:
        freedom: degrees of freedom, at least 1.
    """
    low, high = 0.0, 1.0
    while _student_within(high, freedom) < CONFIDENCE:
        high *= 2
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if _student_within(middle, freedom) < CONFIDENCE else (low, middle)
    return high


def _student_within(t: float, freedom: int) -> float:
    """P(|T| <= t), the finite series of Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, odd = math.cos(angle), freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for step in range(1 + odd, freedom, 2):
        total += term
        term *= cosine * cosine * step / (step + 1)
    total *= math.sin(angle)
    return (angle + total) * 2 / math.pi if odd else total
