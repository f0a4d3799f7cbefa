"""Metrics that are one number of all examples, with 95 % intervals: the percentile bootstrap over examples.

The examples are resampled for all models together (Efron and Tibshirani 1993, "An Introduction to the Bootstrap",
chapters 13 and 16). The quantiles are corrected for bias (Efron 1981, Canadian Journal of Statistics 9:139-158), of
which average precision has much, and expanded as in `orun.measure.metrics.paired`, by the examples of the rarest class:
these are what the metric is known by. Of fewer than six in a class nothing is told. A resample that lacks a class is
averaged over the others, as F1 is by definition; one that lacks them all is left out, which the method then says.

Resampling is blind to what no example shows: two models that answer alike would never differ. For classes that are
answered the interval is never narrower than Tango's (1998) for no change among the examples of the rarest class, by its
share in the mean; for scores that holds where all resamples are equal, as where both models tell the classes apart.
Of the area under one ROC curve by itself there is a better bound: `orun.measure.metrics.newcombe`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from orun.core.metrics import Comparison, Estimate, unknown
from orun.measure.metrics.paired import FEWEST, Floats, Z, quantiles, ratio
from orun.measure.metrics.pooled import Pooled

RESAMPLES = (1000, 2000)  # the fewest and the most
WORK = 10_000_000  # weights by classes: what one metric of one model may take
CHUNK = 1 << 16  # weights held at a time: few, so that they stay in the cache
MOST_BIAS = 1.0  # standard errors; more says that resampling does not fit
SAME = 1e-12  # what rounding makes of equal values
DENSE = 4  # examples of each kind from which kinds are drawn, not examples


@dataclass(frozen=True, eq=False)
class Resampled:
    """One model's metric, and what it is of each resample, `[resamples]`; not a number where it is not defined."""

    model: Pooled
    value: float
    values: Floats

    @property
    def interval(self) -> Estimate:
        """The metric with its interval."""
        if self.model.fewest < FEWEST:
            return unknown(self.value)
        bounds = self.model.bounds
        blind = bounds is None and (self.model.answers is not None or _same(self.values))
        found = _bounds(self.model, self.value, self.values, blind=blind)
        if bounds:
            found = Estimate(self.value, min(found.low, bounds[0]), max(found.high, bounds[1]))
        return found if self.model.rarest is None else _within(found, 0.0)

    def against(self, other: Resampled) -> Comparison:
        """This model's metric against another's, which was resampled with it."""
        examples, change = len(self.model), self.value - other.value
        if self.model.fewest < FEWEST:
            nothing = unknown(ratio(self.value, other.value)), unknown(change)
            return Comparison(other.value, *nothing, _too_few(self.model), examples)
        differences = self.values - other.values
        changed = _changed(self.model, other.model, differences)
        found = _bounds(self.model, change, differences, blind=changed is not None)
        if self.model.rarest is not None:
            found = _within(found, -1.0)
        return Comparison(
            value=other.value,
            # The other's own value is taken as known: what its sampling adds to a small change is of second order.
            ratio=_ratio(found, other.value),
            difference=found,
            method=f"paired bootstrap over {examples} examples{_left_out(differences)}",
            count=examples,
            changed=changed,
        )


def resample(models: Mapping[str, Pooled], seed: int) -> dict[str, Resampled]:
    """One metric of several models on the same resamples of the examples.

    Args:
        models: by role, over the same examples.
        seed: of the resamples.
    """
    first = next(iter(models.values()))
    columns = np.concatenate([model.columns for model in models.values()], axis=1)
    _, rows, counts = np.unique(columns, axis=0, return_index=True, return_counts=True)
    wanted = first.resamples or min(max(WORK // (len(rows) * first.classes), RESAMPLES[0]), RESAMPLES[1])
    weighted = {role: model.of(rows) for role, model in models.items()}
    values: dict[str, list[Floats]] = {role: [] for role in models}
    for weights in _weights(counts, wanted, seed):
        for role, weigh in weighted.items():
            values[role].append(weigh(weights))
    return {role: Resampled(model, model.overall, np.concatenate(values[role])) for role, model in models.items()}


def _ratio(change: Estimate, other: float) -> Estimate:
    """Of a value that differs by so much from another's, which may be below 0."""
    value, *ends = (ratio(other + one, other) for one in (change.value, change.low, change.high))
    return Estimate(value, min(ends), max(ends))


def _weights(counts: NDArray[np.intp], resamples: int, seed: int) -> Iterator[Floats]:
    """How often each kind of example is in each resample, `[b, kinds]`, a part of the resamples at a time."""
    generator = np.random.default_rng(seed)
    examples, kinds = int(counts.sum()), len(counts)
    step = max(1, CHUNK // examples)
    kind = np.repeat(np.arange(kinds), counts)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        if DENSE * kinds <= examples:
            yield generator.multinomial(examples, counts / examples, rows).astype(np.float64)
        else:
            drawn = kind[generator.integers(0, examples, (rows, examples))] + kinds * np.arange(rows)[:, None]
            yield np.bincount(drawn.ravel(), minlength=rows * kinds).reshape(rows, kinds).astype(np.float64)


def _bounds(model: Pooled, value: float, values: Floats, *, blind: bool) -> Estimate:
    """The expanded percentiles; `blind` says that they may miss what no example shows."""
    finite = values[np.isfinite(values)]
    if 2 * len(finite) < len(values):
        return unknown(value)
    found = quantiles(value, finite, model.fewest, _bias(value, finite))
    unseen = Z * Z / (model.fewest + Z * Z) / model.classes if blind and model.rarest is not None else 0.0
    return Estimate(value, min(found.low, value - unseen), max(found.high, value + unseen))


def _bias(value: float, resampled: Floats) -> float:
    """Normal quantile of the share of resamples below the value, those that equal it counted half."""
    below = np.count_nonzero(resampled < value - SAME) + np.count_nonzero(np.abs(resampled - value) <= SAME) / 2
    found = NormalDist().inv_cdf((below + 0.5) / (len(resampled) + 1))
    return max(-MOST_BIAS, min(found, MOST_BIAS))


def _within(found: Estimate, least: float) -> Estimate:
    return Estimate(found.value, max(found.low, least), min(found.high, 1.0)) if math.isfinite(found.low) else found


def _changed(ours: Pooled, theirs: Pooled, differences: Floats) -> int | None:
    """Examples that the two models answer differently; of scores none where no resample tells the models apart."""
    if ours.answers is not None and theirs.answers is not None:
        return int(np.count_nonzero((ours.answers != theirs.answers).any(axis=1)))
    return 0 if _same(differences) else None


def _same(values: Floats) -> bool:
    finite = values[np.isfinite(values)]
    return finite.size > 0 and bool(np.ptp(finite) < SAME)


def _too_few(model: Pooled) -> str:
    count = model.fewest
    examples = "1 example" if count == 1 else f"{count} examples"
    of = "" if model.rarest is None else f" of class {model.rarest}"
    return f"{examples}{of}, too few for an interval, which takes {FEWEST}"


def _left_out(values: Floats) -> str:
    lost = int(np.count_nonzero(~np.isfinite(values)))
    return f", {lost} of {len(values)} resamples left out" if lost else ""
