"""Where a series of measurements changed for good: E-divisive, for one variable.

Matteson and James, "A nonparametric approach for multiple change point analysis of multivariate data", JASA 109 (2014).
A segment is divided where the energy distance between its two sides is largest, if permutations of the segment seldom
do as well; then its sides likewise. It needs no normal distribution and is not led astray by a single outlier.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from random import Random
from statistics import median

from orun.history.points import Series

LEVEL = 0.01  # of the permutation test
LEAST = 4  # measurements on each side of a change
PERMUTATIONS = 499
LONGEST = 300  # newest measurements that are looked at: the work grows with the square


@dataclass(frozen=True)
class Change:
    """From `index` on the series has another level.

    Attributes:
        index: of the first measurement of the new level.
        before, after: medians of the levels on its two sides, up to the next changes.
        p: of the permutation test; 0 for an exact metric, of which every change is one.
    """

    index: int
    before: float
    after: float
    p: float

    @property
    def ratio(self) -> float:
        """The new level divided by the old one; not a number when the old one is 0."""
        return self.after / self.before if self.before else math.nan


def changes(series: Series) -> tuple[Change, ...]:
    """The changes of a series, the oldest first."""
    values = series.values
    if series.last.noise == "none":
        found = [(index, 0.0) for index in range(1, len(values)) if values[index] != values[index - 1]]
    else:
        skipped = max(0, len(values) - LONGEST)
        found = [(skipped + index, p) for index, p in divide(values[skipped:])]
    ends = [0, *(index for index, _ in found), len(values)]
    return tuple(
        Change(index, median(values[ends[number] : index]), median(values[index : ends[number + 2]]), p)
        for number, (index, p) in enumerate(found)
    )


def divide(values: Sequence[float], *, seed: int = 0) -> list[tuple[int, float]]:
    """Indices at which a new level begins, in order, each with its p-value.

    Args:
        values: finite numbers; a series that holds others is not divided.
        seed: of the permutations.
    """
    if not all(map(math.isfinite, values)):
        return []
    distances = [tuple(abs(one - other) for other in values) for one in values]
    random = Random(seed)  # noqa: S311 -- no secret
    found: list[tuple[int, float]] = []
    segments = [(0, len(values))]
    while segments:
        begin, end = segments.pop()
        if end - begin < 2 * LEAST:
            continue
        rows = [row[begin:end] for row in distances[begin:end]]
        split, gain = _best(rows)
        p = _chance(rows, gain, random)
        if p <= LEVEL:
            found.append((begin + split, p))
            segments += [(begin, begin + split), (begin + split, end)]
    return sorted(found)


def _best(rows: Sequence[Sequence[float]]) -> tuple[int, float]:
    """The division of the largest energy distance between its sides, and that distance."""
    count = len(rows)
    left, between, right = 0.0, 0.0, sum(map(sum, rows)) / 2
    best = (LEAST, -math.inf)
    for index, row in enumerate(rows):
        to_left, to_right = sum(row[:index]), sum(row[index + 1 :])
        left, between, right = left + to_left, between + to_right - to_left, right - to_right
        one, other = index + 1, count - index - 1
        if one < LEAST or other < LEAST:
            continue
        energy = 2 * between / (one * other) - 2 * left / (one * (one - 1)) - 2 * right / (other * (other - 1))
        gain = energy * one * other / count
        if gain > best[1]:
            best = (one, gain)
    return best


def _chance(rows: Sequence[Sequence[float]], gain: float, random: Random) -> float:
    """How often a permutation is divided as well; given up, with 1, as soon as that is too often for `LEVEL`."""
    order = list(range(len(rows)))
    as_good = 1  # the series itself is one of its permutations
    for _ in range(PERMUTATIONS):
        random.shuffle(order)
        pick = itemgetter(*order)
        as_good += _best([pick(rows[index]) for index in order])[1] >= gain * (1 - 1e-12)
        if as_good > LEVEL * (PERMUTATIONS + 1):
            return 1.0
    return as_good / (PERMUTATIONS + 1)
