"""E-processes of statistics against a reference: evidence of drift that holds however often it is looked at.

The null hypothesis of each statistic: its values at release and those in the log are exchangeable.

1. A conformal p-value. The next value falls into each of the gaps between the n + t earlier ones with the same
   probability (Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2nd ed. 2022, chapter 8). Equal
   values are ordered at random. Gaps are counted in bins between some order statistics of the reference: a bin that
   spans a of the reference's n + 1 gaps, and into which c later values fell, has a + c of the n + 1 + t gaps. That is
   exact for every distribution and every n, and takes the same memory for every log. The place of the value, random
   within its bin, is p: uniform, and independent of the earlier ones.
2. Bets. A density f on [0, 1] is a fair bet: the product of f(p) over the records is a martingale. `TAIL` and `SPREAD`
   bet on values that are larger, smaller, farther out or closer together than before, all of them or a share.
   `FACTORS` bet on parts of the distribution that lose or gain weight, such as a class that vanishes: parts between two
   edges of bins, whose weight is known as that of a bin is. No bet may look at the values themselves, only at the bins.
3. A mixture. A capital of 1 is laid on all bets alike, at each record as the first one after a change; `reserve` is
   what is left for later records. A sum of martingales with a start of 1 in all is a martingale with a start of 1. So
   a change costs the logarithm of its time, and nothing that was lost before it (Shin, Ramdas and Rinaldo,
   "E-detectors: a nonparametric framework for sequential change detection", NEJSDS 2023).

By Ville's inequality (1939), the capital of a statistic without drift ever reaches K with a probability of at most
1 / K. Each statistic's capital is a martingale in a filtration of its own. The mean over statistics is none in any
(Choe and Ramdas, "Combining Evidence Across Filtrations", 2024). So each of m statistics must reach m / alpha. This
costs log m, and whichever statistic is named is named rightly, with a probability of 1 - alpha for all together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Densities s a z^(a-1) + 1 - s: a share s of the values moves, the farther the larger a is.
# In the tails z is p, and z is 1 - p. For the spread it is the distance of p from the middle, and what it lacks to 1.
TAIL = (
    (1.1, 0.99), (1.4, 0.99), (2.0, 0.99), (8.0, 0.99), (64.0, 0.99), (64.0, 0.1), (512.0, 0.03),
)  # fmt: skip
SPREAD = ((1.4, 0.99), (2.0, 0.99), (8.0, 0.99))
FACTORS = (0.1, 3.0)  # by which the weight of a part of the distribution changes
# Parts of the distribution, from one quantile of the reference to another.
PARTS = (
    *((number / parts, (number + 1) / parts) for parts in (8, 16) for number in range(parts)),
    (0.0, 1 / 64),
    (63 / 64, 1.0),
)
BETS = 2 * len(TAIL) + 2 * len(SPREAD) + len(FACTORS) * len(PARTS)
LARGEST_PART = 0.9  # of the values, on which a factor is bet
HALVED = 16  # from 1 / 16 of the values towards each end, bins are halved down to single values
BLOCK = 64  # records whose gains, each from 0.01 to 64, have a product that is a float
CERTAIN = 1e100  # capital that is not counted any further


@dataclass(frozen=True, eq=False)
class Evidence:
    """Evidence of drift after each of some records.

    Attributes:
        capital: capital of each statistic, `[records, columns]`.
        since: time of the record at which the change that fits best began, `[records, columns]`.
    """

    capital: Array
    since: Array


@dataclass(eq=False)
class DriftTest:
    """Tests of several statistics, one column each.

    Attributes:
        random: source of the order of equal values.
        edges: the order statistics that divide the bins, `[columns, bins - 1]`; infinite where a statistic has fewer.
        ties: second numbers of the edges, which order equal values; 2 where a statistic has fewer.
        gaps: gaps between all values so far in each bin, `[columns, bins]`.
        parts: the first bin of each part and the first bin after it, `[columns, 2, parts]`.
        records: values in the log so far, `[columns]`.
        capital: capital of each bet from all starts, `[columns, bets]`.
        best: capital of each bet from its best start, `[columns, bets]`.
        since: time of that start, `[columns, bets]`.
    """

    random: np.random.Generator
    edges: Array
    ties: Array
    gaps: Array
    parts: Array
    records: Array
    capital: Array
    best: Array
    since: Array

    @classmethod
    def begin(cls, references: Sequence[Array], random: np.random.Generator) -> DriftTest:
        """Return a test that has seen no record.

        Args:
            references: values of each statistic at release, `[n]` each, infinite where there is none.
            random: source of the order of equal values.
        """
        ranks = [_choose_ranks(len(values)) for values in references]
        columns, edges = len(references), max(map(len, ranks), default=0)
        test = cls(
            random,
            np.full((columns, edges), np.inf),
            np.full((columns, edges), 2.0),
            np.zeros((columns, edges + 1)),
            np.zeros((columns, 2, len(PARTS)), np.int64),
            np.zeros(columns),
            np.zeros((columns, BETS)),
            np.zeros((columns, BETS)),
            np.full((columns, BETS), np.nan),
        )
        for column, (values, places) in enumerate(zip(references, ranks, strict=True)):
            ties = random.random(len(values))
            order = np.lexsort((ties, values))
            test.edges[column, : len(places)] = values[order[places - 1]]
            test.ties[column, : len(places)] = ties[order[places - 1]]
            test.gaps[column, : len(places) + 1] = np.diff(places, prepend=0, append=len(values) + 1)
            ends = _rank(np.array(PARTS).T, len(values))
            test.parts[column] = np.searchsorted([*places, len(values) + 1], ends, side="right")
        return test

    def to_arrays(self) -> dict[str, Array]:
        """Return its state but for the source of randomness, by the names of its attributes."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "random"}

    def add(self, values: Array, times: Array) -> Evidence:
        """Bet on the next values of each statistic.

        Args:
            values: `[records, columns]`; infinite where a record has no value, NaN where it does not count.
            times: `[records]`, for `Evidence.since`.
        """
        blocks = [self._add(values[at : at + BLOCK], times[at : at + BLOCK]) for at in range(0, len(values), BLOCK)]
        return Evidence(*(np.concatenate([getattr(block, name) for block in blocks]) for name in ("capital", "since")))

    def _add(self, values: Array, times: Array) -> Evidence:
        counts = ~np.isnan(values)
        gains = np.where(counts[..., None], self._bet(values, counts), 1.0)
        records = np.concatenate((self.records[None], self.records + np.cumsum(counts, axis=0)))
        reserve = 1 / (1 + np.log1p(records))
        after = np.cumprod(gains, axis=0)
        stakes = (reserve[:-1] - reserve[1:])[..., None] / BETS * gains / after  # as if they were laid at once
        capital = np.cumsum(np.concatenate((self.capital[None], stakes)), axis=0)[1:] * after
        best = np.maximum.accumulate(np.concatenate((self.best[None], stakes)))
        is_start = best[1:] > best[:-1]
        start = np.maximum.accumulate(np.where(is_start, np.arange(len(times))[:, None, None], -1))
        since = np.where(start < 0, self.since, times[start])
        best = best[1:] * after
        self.records, self.since = records[-1], since[-1]
        self.capital, self.best = np.minimum(capital[-1], CERTAIN), np.minimum(best[-1], CERTAIN)
        leader = best.argmax(axis=2)[..., None]
        return Evidence(capital.sum(axis=2) + reserve[1:], np.take_along_axis(since, leader, axis=2)[..., 0])

    def _bet(self, values: Array, counts: Array) -> Array:
        """Return what each bet yields for each value, `[records, columns, bets]`, and count the values."""
        ties, places = np.moveaxis(self.random.random((*values.shape, 2)), 2, 0)  # the same for any blocks
        values, ties = values[..., None], ties[..., None]
        bins = ((self.edges < values) | ((self.edges == values) & (self.ties < ties))).sum(axis=2)
        falls = (np.arange(self.gaps.shape[1]) == bins[..., None]) & counts[..., None]
        gaps = self.gaps + np.cumsum(falls, axis=0)
        self.gaps = gaps[-1]
        ends = np.cumsum(gaps - falls, axis=2)  # gaps up to the end of each bin, before the record
        starts = np.concatenate((np.zeros((*bins.shape, 1)), ends), axis=2)
        below, above = (np.take_along_axis(starts, bins[..., None] + step, axis=2)[..., 0] for step in (0, 1))
        p = (below + places * (above - below)) / ends[..., -1]
        return np.concatenate((_bet_on_density(p), self._bet_on_parts(bins, starts)), axis=2)

    def _bet_on_parts(self, bins: Array, starts: Array) -> Array:
        """Return the bets on each part: its weight changes by a factor, and all else shares what is left.

        Args:
            bins: the bin of each value, `[records, columns]`.
            starts: gaps before each bin, and all gaps, `[records, columns, bins + 1]`.
        """
        first, after = self.parts[None, :, 0], self.parts[None, :, 1]
        is_inside = (first <= bins[..., None]) & (bins[..., None] < after)
        weights = (np.take_along_axis(starts, after, axis=2) - np.take_along_axis(starts, first, axis=2)) / starts[
            ..., -1:
        ]
        bets = []
        for factor in FACTORS:
            weight = np.where(max(factor, 1.0) * weights < LARGEST_PART, weights, 0.0)
            bets.append(np.where(weight == 0, 1.0, np.where(is_inside, factor, (1 - factor * weight) / (1 - weight))))
        return np.concatenate(bets, axis=2)


def _choose_ranks(count: int) -> Array:
    """Return the ranks, from 1 to `count`, of the reference's values that divide the bins."""
    tail = 2 ** np.arange(max(count // HALVED, 1).bit_length())
    ranks = np.concatenate((_rank(np.array(PARTS).ravel(), count), tail, count + 1 - tail))
    return np.unique(ranks[(ranks >= 1) & (ranks <= count)])


def _rank(level: Array, count: int) -> Array:
    """Return the rank of a quantile among `count` values: 0 below all, and `count` + 1 above all."""
    return np.round(level * (count + 1)).astype(np.int64)


def _bet_on_density(p: Array) -> Array:
    out = np.abs(2 * p - 1)
    bets = [(z, *bet) for z in (p, 1 - p) for bet in TAIL] + [(z, *bet) for z in (out, 1 - out) for bet in SPREAD]
    return np.stack([share * a * z ** (a - 1) + 1 - share for z, a, share in bets], axis=-1)
