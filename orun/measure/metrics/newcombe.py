"""Interval of the area under a ROC curve (Newcombe 2006).

Method 5 of Newcombe (2006), "Confidence intervals for an effect size measure based on the Mann-Whitney statistic.
Part 2: asymptotic methods and evaluation", Statistics in Medicine 25:559-573: a score interval with the variance of
Hanley and McNeil (1982) at the bound, with the mean size of both groups. It keeps its coverage where the bootstrap does
not: with few or no mistakes among few examples of a class, resamples hardly vary.
"""

from __future__ import annotations

import math

from orun.measure.metrics.paired import Z, find_turning_point


def estimate_interval(area: float, positive: int, negative: int) -> tuple[float, float]:
    """Return the 95 % bounds of an area.

    Args:
        area: the measured area, between 0 and 1.
        positive: examples of the class.
        negative: all other examples.
    """

    def compute_error(truth: float) -> float:
        """Return the standard error at a true area."""
        size = (positive + negative) / 2 - 1
        pairs = 1 + size * ((1 - truth) / (2 - truth) + truth / (1 + truth))
        return math.sqrt(truth * (1 - truth) * pairs / (positive * negative))

    low = find_turning_point(lambda truth: area - truth > Z * compute_error(truth), 0.0, area)
    high = find_turning_point(lambda truth: truth - area <= Z * compute_error(truth), area, 1.0)
    return low, high
