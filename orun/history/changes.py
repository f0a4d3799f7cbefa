"""Change points in a series of measurements: E-divisive, for one variable.

Matteson and James, "A nonparametric approach for multiple change point analysis of multivariate data", JASA 109 (2014).
A segment is divided where the energy distance between its two sides is largest, if permutations of the segment seldom
do as well; then its sides likewise. It needs no normal distribution and is not led astray by a single outlier.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

from orun.history.points import Series, differ

LEVEL = 0.01  # of the permutation test
LEAST = 4  # measurements on each side of a change
PERMUTATIONS = 499
FEWER, FROM = 199, 100  # permutations of a segment of at least so many measurements, which cost more
ROUNDING = 1e-9  # largest difference of equal gains, relative to the largest sum of distances
LONGEST = 300  # newest measurements that are searched: the work grows with the square


@dataclass(frozen=True)
class Change:
    """Change of a series to another level.

    Attributes:
        index: index of the first measurement of the new level.
        before, after: medians of the levels on its two sides, up to the next changes.
        p: p-value of the permutation test; 0 for an exact metric, where every difference is a change.
    """

    index: int
    before: float
    after: float
    p: float


def find_changes(series: Series) -> tuple[Change, ...]:
    """Return the changes of a series, the oldest first."""
    values = series.values
    if series.last.noise == "none":
        divisions = [(index, 0.0) for index in range(1, len(values)) if differ(values[index], values[index - 1])]
    else:
        skipped = max(0, len(values) - LONGEST)
        divisions = [(skipped + index, p) for index, p in divide(values[skipped:])]
    ends = [0, *(index for index, _ in divisions), len(values)]
    return tuple(
        Change(index, median(values[ends[number] : index]), median(values[index : ends[number + 2]]), p)
        for number, (index, p) in enumerate(divisions)
    )


def divide(values: Sequence[float]) -> list[tuple[int, float]]:
    """Return the indices at which a new level begins, in order, each with its p-value.

    A series with values that are not finite is not divided.
    """
    if not all(map(math.isfinite, values)):
        return []
    middle = median(values) if values else 0.0
    centred = [value - middle for value in values]  # sums of differences lose no digits to the level
    random = Random(0)  # noqa: S311 -- no secret
    divisions: list[tuple[int, float]] = []
    segments = [(0, len(values))]
    while segments:
        begin, end = segments.pop()
        if end - begin < 2 * LEAST:
            continue
        segment = centred[begin:end]
        totals = sum_distances(segment)
        split, gain = choose_division(segment, totals)
        p = _estimate_chance(segment, totals, gain, random)
        if p <= LEVEL:
            divisions.append((begin + split, p))
            segments += [(begin, begin + split), (begin + split, end)]
    return sorted(divisions)


def sum_distances(values: Sequence[float]) -> dict[float, float]:
    """Return the sum of the distances of each value from all values."""
    ordered = sorted(values)
    return {value: _sum_distances_to(ordered, value) for value in ordered}


def _sum_distances_to(ordered: Sequence[float], value: float) -> float:
    """Return the sum of the distances of a value from sorted values."""
    place = bisect_left(ordered, value)
    below, above = ordered[:place], ordered[place:]
    return value * (len(below) - len(above)) - sum(below) + sum(above)


def choose_division(values: Sequence[float], totals: Mapping[float, float]) -> tuple[int, float]:
    """Return the division with the largest energy distance between its sides, and that distance.

    `totals` is what `sum_distances` returns.
    """
    count, total = len(values), 0.0
    left, between, right = 0.0, 0.0, sum(totals[value] for value in values) / 2
    best = (LEAST, -math.inf)
    ordered: list[float] = []  # the left side; a slice and its sum are faster than code with fewer additions
    for size, value in enumerate(values, start=1):
        place = bisect_left(ordered, value)
        to_left = value * (2 * place - size + 1) + total - 2 * sum(ordered[:place])
        to_right = totals[value] - to_left
        ordered.insert(place, value)
        total += value
        left, between, right = left + to_left, between + to_right - to_left, right - to_right
        rest = count - size
        if size < LEAST or rest < LEAST:
            continue
        energy = 2 * between / (size * rest) - 2 * left / (size * (size - 1)) - 2 * right / (rest * (rest - 1))
        gain = energy * size * rest / count
        if gain > best[1]:
            best = (size, gain)
    return best


def _estimate_chance(values: Sequence[float], totals: Mapping[float, float], gain: float, random: Random) -> float:
    """Return the share of permutations with as large a gain, the p-value; 1 as soon as it must exceed `LEVEL`."""
    order, permutations = list(values), PERMUTATIONS if len(values) < FROM else FEWER
    least = gain - ROUNDING * max(totals.values())  # a gain may be nothing but rounding, or below 0
    as_good = 1  # the series itself is one of its permutations
    for _ in range(permutations):
        random.shuffle(order)
        as_good += choose_division(order, totals)[1] >= least
        if as_good > LEVEL * (permutations + 1):
            return 1.0
    return as_good / (permutations + 1)
