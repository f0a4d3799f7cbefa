"""Interval of an area under the ROC curve (Newcombe 2006).

Method 5 of Newcombe (2006), "Confidence intervals for an effect size measure based on the Mann-Whitney statistic.
Part 2: asymptotic methods and evaluation", Statistics in Medicine 25:559-573: a score interval with the variance of
Hanley and McNeil (1982) at the bound, the same for both sorts of examples. It keeps its coverage where resamples lose
theirs, as few examples of a class are nearly always told apart: few mistakes, or none, tell little of how many there
would be.
"""

from __future__ import annotations

import math

from orun.measure.metrics.paired import Z, turning_point


def newcombe(area: float, positive: int, negative: int, z: float = Z) -> tuple[float, float]:
    """Bounds of an area.

    Args:
        area: that was found, between 0 and 1.
        positive: examples of the class.
        negative: examples that are not of it.
        z: normal quantile of the confidence level; 95 % when left out.
    """

    def error(truth: float) -> float:
        """Standard error if this were the area."""
        size = (positive + negative) / 2 - 1
        pairs = 1 + size * ((1 - truth) / (2 - truth) + truth / (1 + truth))
        return math.sqrt(truth * (1 - truth) * pairs / (positive * negative))

    low = turning_point(lambda truth: area - truth > z * error(truth), 0.0, area)
    high = turning_point(lambda truth: truth - area <= z * error(truth), area, 1.0)
    return low, high
