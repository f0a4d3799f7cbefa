"""Quantiles of measured times with distribution-free intervals.

The interval of a quantile lies between two order statistics, whose ranks come from the binomial distribution (David and
Nagaraja, "Order Statistics", 3rd edition, section 7.1). Times of one launch are correlated, so the interval is at least
as wide as the one of the launches' quantiles, each taken as a single measurement.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from orun.core.metrics import Estimate
from orun.measure.latency.sequential_test import CONFIDENCE, Evidence

TAIL = (1 - CONFIDENCE) / 2


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest of the ordered values with at least `share` of all values at or below it."""
    return ordered[max(math.ceil(len(ordered) * share - 1e-9), 1) - 1]


def estimate_quantile(launches: Sequence[Sequence[float]], share: float) -> Estimate:
    """Return a quantile of all times with its 95 % interval.

    Args:
        launches: the times of each launch, above 0, in seconds; at least two launches, none empty.
        share: which quantile, between 0 and 1.

    Returns:
        An estimate whose `low` is 0, or `high` infinite, if there are too few times to bound it.
    """
    ordered = sorted(time for launch in launches for time in launch)
    value, count = quantile(ordered, share), len(ordered)
    low, high = find_ranks(count, share)
    between = Evidence.from_log_ratios([math.log(quantile(sorted(launch), share)) for launch in launches]).half_width
    return Estimate(
        value,
        low=min(ordered[low - 1], value * math.exp(-between)) if low else 0.0,
        high=max(ordered[high - 1], value * math.exp(between)) if high <= count else math.inf,
    )


def estimate_median_error(values: Sequence[float]) -> float:
    """Return the standard error of the median, whatever the distribution: half the distance of two order statistics.

    Their ranks lie one standard deviation of the binomial below and above (David and Nagaraja, "Order Statistics", 3rd
    edition, section 7.1).
    """
    ordered, deviation = sorted(values), math.sqrt(len(values)) / 2
    middle = (len(ordered) - 1) / 2
    low, high = max(math.floor(middle - deviation), 0), min(math.ceil(middle + deviation), len(ordered) - 1)
    return (ordered[high] - ordered[low]) / 2


@functools.cache
def find_ranks(count: int, share: float) -> tuple[int, int]:
    """Return the ranks of the order statistics that enclose a quantile with 95 % confidence.

    Args:
        count: independent samples.
        share: which quantile, between 0 and 1.

    Returns:
        The lower and the upper rank, counted from 1; 0 and `count + 1` if there is no bound.
    """
    at_most, low = 0.0, 0  # at_most: P(at most `hits` samples are below the quantile)
    for hits in range(count + 1):
        at_most += _compute_binomial(count, hits, share)
        if at_most <= TAIL:
            low = hits + 1
        if at_most >= 1 - TAIL:
            return low, hits + 1
    return low, count + 1


def _compute_binomial(count: int, hits: int, share: float) -> float:
    ways = math.lgamma(count + 1) - math.lgamma(hits + 1) - math.lgamma(count - hits + 1)
    return math.exp(ways + hits * math.log(share) + (count - hits) * math.log1p(-share))
