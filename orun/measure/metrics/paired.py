"""Two models on the same examples: the difference of a task metric with its 95 % interval.

Right or wrong: McNemar's setting. The interval inverts the score test, which at no difference is McNemar's own, and
keeps its coverage where few or no examples changed sides: Tango (1998), "Equivalence test and confidence interval for
the difference in proportions for the paired-sample design", Statistics in Medicine 17:891-908; recommended by
Fagerland, Lydersen and Laake (2014), Statistics in Medicine 33:2850-2875. For one proportion: Wilson (1927).

Any other score: the percentile bootstrap over examples, both models resampled together: Efron and Tibshirani (1993),
"An Introduction to the Bootstrap", chapter 13; expanded as Student's t is, because few examples that are resampled
spread too little: Hesterberg (2015), "What Teachers Should Know About the Bootstrap", American Statistician 69:371-386.
Of 6, 12 and 20 normal differences it then holds the truth in 93, 96 and 95 of 100 instead of 86, 92 and 93.

Resampling is blind to what no example shows. Where none of them tells two models apart, and scores are shares from 0 to
1 (a reciprocal rank, a share of positions), the interval is Tango's for no change: an example that would tell them
apart changes the mean by no more than one that changes sides.

Of fewer than six examples nothing is told: a change of all of them to one side has a chance of 2 in 2^n by itself,
which is above 5 %, and resampling one or two yields hardly any width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from orun.core.metrics import UNBOUNDED, Comparison, Estimate, Metric, Unit, further, unknown
from orun.measure.latency.sequential_test import student

Floats = NDArray[np.float64]

Z = NormalDist().inv_cdf(0.975)
RESAMPLES = 5000
FEWEST = 6  # examples that are resampled
MANY = 1000  # from which Student's t is as good as normal
CHUNK = 1 << 22  # resampled scores held at a time


def interval(scores: Floats, seed: int) -> Estimate:
    """The mean of one model's scores `[n]`, one for each example."""
    value = float(scores.mean())
    if _right_or_wrong(scores):
        return Estimate(value, *_wilson(value, len(scores)))
    if len(scores) < FEWEST:
        return unknown(value)
    return quantiles(value, _resample(seed, scores)[0], len(scores))


def compare(scores: Floats, others: Floats, seed: int) -> Comparison:
    """The mean of one model's scores against another's on the same examples, with 95 % intervals.

    McNemar's score interval (Tango 1998) where all scores are 0 or 1, else the paired bootstrap.

    Args:
        scores: one for each example, `[n]`.
        others: the other model's, `[n]`.
        seed: of the bootstrap.
    """
    if _right_or_wrong(scores) and _right_or_wrong(others):
        return _compare_right_or_wrong(scores, others)
    value, other = float(scores.mean()), float(others.mean())
    if len(scores) < FEWEST:
        few = "1 example" if len(scores) == 1 else f"{len(scores)} examples"
        change = unknown(ratio(value, other)), unknown(value - other)
        return Comparison(other, *change, f"{few}, too few for an interval, which takes {FEWEST}", len(scores))
    if np.array_equal(scores, others) and _shares(scores):
        return _compare_alike(scores, others)
    means, other_means = _resample(seed, scores, others)
    ratios = np.array([ratio(ours, theirs) for ours, theirs in zip(means, other_means, strict=True)])
    return Comparison(
        value=other,
        ratio=quantiles(ratio(value, other), ratios, len(scores)),
        difference=quantiles(value - other, means - other_means, len(scores)),
        method=f"paired bootstrap over {len(scores)} examples",
        count=len(scores),
    )


def exact(value: float, other: float) -> Comparison:
    """Two figures that are exact: no interval."""
    factor, difference = ratio(value, other), value - other
    return Comparison(
        value=other,
        ratio=Estimate(factor, factor, factor),
        difference=Estimate(difference, difference, difference),
        method="exact",
    )


def exact_metric(values: Mapping[str, float], unit: Unit) -> Metric:
    """A figure that is exact, the smaller the better, beside that of every other model.

    Args:
        values: by the model's role: `model`, and `reference` and `baseline` where there are such.
        unit: of the figure.
    """
    value = values["model"]
    compared = {role: exact(value, other) for role, other in values.items() if role != "model"}
    named = {further(role): comparison for role, comparison in compared.items() if further(role)}
    reference, baseline = compared.get("reference"), compared.get("baseline")
    return Metric(value, unit, "lower", reference=reference, baseline=baseline, references=named)


def ratio(value: float, other: float) -> float:
    """Value divided by other; 1 when both are zero, and `UNBOUNDED` when only the other is."""
    if other == 0:
        return 1.0 if value == 0 else math.copysign(UNBOUNDED, value)
    return value / other


def _right_or_wrong(scores: Floats) -> bool:
    return bool(np.isin(scores, (0.0, 1.0)).all())


def _shares(scores: Floats) -> bool:
    return bool(((scores >= 0) & (scores <= 1)).all())


def _compare_alike(scores: Floats, others: Floats) -> Comparison:
    """Of shares that no example tells apart: resamples would not either, and call them alike for certain."""
    examples = len(scores)
    value, other = float(scores.mean()), float(others.mean())
    unseen = tango(0, 0, examples)
    low, high = (min(max(value - other + one, -1.0), 1.0) for one in unseen)
    return Comparison(
        value=other,
        ratio=Estimate(*(ratio(other + change, other) for change in (value - other, low, high))),
        difference=Estimate(value - other, low, high),
        method=f"paired over {examples} examples, none of which tells the two apart",
        count=examples,
        changed=0,
    )


def _compare_right_or_wrong(scores: Floats, others: Floats) -> Comparison:
    examples = len(scores)
    better, worse = int((scores > others).sum()), int((scores < others).sum())
    value, other = float(scores.mean()), float(others.mean())
    low, high = tango(better, worse, examples)
    return Comparison(
        value=other,
        # The other's own value is taken as known: what its sampling adds to a small change is of second order.
        ratio=Estimate(*(ratio(other + change, other) for change in (value - other, low, high))),
        difference=Estimate(value - other, low, high),
        method=f"McNemar's score interval over {examples} examples, {better} better and {worse} worse",
        count=examples,
        changed=better + worse,
    )


def tango(better: int, worse: int, examples: int, z: float = Z) -> tuple[float, float]:
    """Score interval of (better - worse) / examples for paired right-or-wrong outcomes.

    Args:
        better: examples that only this model gets right.
        worse: examples that only the other gets right.
        examples: all examples.
        z: normal quantile of the confidence level; 95 % when left out.
    """
    estimate = (better - worse) / examples
    low = turning_point(lambda change: _score(better, worse, examples, change) > z, -1.0, estimate)
    high = turning_point(lambda change: _score(better, worse, examples, change) > -z, estimate, 1.0)
    return low, high


def _score(better: int, worse: int, examples: int, change: float) -> float:
    """Tango's statistic for a true difference of `change`: falls as `change` grows."""
    linear = -(better + worse) + (2 * examples - better + worse) * change
    constant = -worse * change * (1 - change)
    root = math.sqrt(max(linear * linear - 8 * examples * constant, 0.0))
    only_other = (root - linear) / (4 * examples)  # most likely share that only the other gets right, given the change
    variance = examples * (2 * only_other + change * (1 - change))
    distance = better - worse - examples * change
    if variance <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    return distance / math.sqrt(variance)


def turning_point(above: Callable[[float], bool], low: float, high: float) -> float:
    """Where `above` turns from true to false between low and high."""
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        low, high = (middle, high) if above(middle) else (low, middle)


def _wilson(share: float, examples: int) -> tuple[float, float]:
    centre = (share + Z * Z / (2 * examples)) / (1 + Z * Z / examples)
    spread = Z / (1 + Z * Z / examples) * math.sqrt(share * (1 - share) / examples + (Z / (2 * examples)) ** 2)
    # None and all right are bounds themselves, which rounding must not miss.
    return min(max(centre - spread, 0.0), share), max(min(centre + spread, 1.0), share)


def _resample(seed: int, *scores: Floats) -> tuple[Floats, ...]:
    """Means of each `[n]` of scores over the same resamples of the examples, each `[RESAMPLES]`."""
    generator = np.random.default_rng(seed)
    examples = len(scores[0])
    rows = max(1, CHUNK // examples)
    means = np.empty((len(scores), RESAMPLES))
    for start in range(0, RESAMPLES, rows):
        stop = min(start + rows, RESAMPLES)
        chosen = generator.integers(0, examples, (stop - start, examples))
        for row, values in zip(means, scores, strict=True):
            row[start:stop] = values[chosen].mean(axis=1)
    return tuple(means)


def quantiles(value: float, resampled: Floats, examples: int, bias: float = 0.0) -> Estimate:
    """A value with the percentiles of its resamples, expanded as Student's t is for so many examples.

    Args:
        value: of the sample.
        resampled: of each resample.
        examples: that it rests on.
        bias: normal quantile of the share of resamples that lie below the value.
    """
    reach = student(examples - 1) * math.sqrt(examples / (examples - 1)) if examples < MANY else Z
    tails = [NormalDist().cdf(2 * bias + side * reach) for side in (-1, 1)]
    # A resampled value, never one between two of them: ratios to zero are no numbers to calculate with.
    low, high = np.quantile(resampled, tails, method="inverted_cdf")
    return Estimate(value, min(float(low), value), max(float(high), value))
