"""Percentile bootstrap over examples: 95 % intervals of pooled metrics, which are one number of all examples.

Examples are resampled for all models together (Efron and Tibshirani 1993, "An Introduction to the Bootstrap", chapters
13 and 16). Quantiles are corrected for bias (Efron 1981, Canadian Journal of Statistics 9:139-158), which is large for
average precision, and expanded as in `orun.measure.metrics.paired` for the number of examples of the rarest class: they
decide how well the metric is known. With fewer than six in a class there is no interval. A resample that lacks a class
is averaged over the other classes, as F1 is by definition. A resample that lacks all classes is left out; the method's
text then says so.

The bootstrap cannot see differences that no example shows: two models with equal predictions would never differ. For
predicted classes the interval is therefore at least as wide as Tango's (1998) for no change among the examples of the
rarest class, times its share in the mean. For scores this holds only if all resamples are equal. The area under one ROC
curve has a better bound: `orun.measure.metrics.newcombe`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from orun.core.metrics import Comparison, Estimate, make_unknown
from orun.measure.metrics.paired import FEWEST, Floats, Z, estimate_quantiles, ratio
from orun.measure.metrics.pooled import Pooled

RESAMPLES = (1000, 2000)  # the fewest and the most
WORK = 10_000_000  # weights times classes that one metric of one model may take
CHUNK = 1 << 16  # weights held at a time: few enough for the cache
MOST_BIAS = 1.0  # standard errors; a larger bias means that resampling does not suit the metric
ROUNDING = 1e-12  # difference of equal values after rounding
DENSE = 4  # examples per kind from which counts of kinds are drawn, not examples


@dataclass(frozen=True, eq=False)
class Resampled:
    """One model's metric and its value for each resample, `[resamples]`; NaN where it is not defined."""

    model: Pooled
    value: float
    values: Floats

    @property
    def interval(self) -> Estimate:
        """Metric with its interval."""
        if _explain_unknown(self.model):
            return make_unknown(self.value)
        bounds = self.model.bounds
        blind = bounds is None and (self.model.answers is not None or _are_equal(self.values))
        estimate = _estimate_bounds(self.model, self.value, self.values, blind=blind)
        if bounds:
            estimate = Estimate(self.value, min(estimate.low, bounds[0]), max(estimate.high, bounds[1]))
        return estimate if self.model.most is None else _clip(estimate, 0.0, self.model.most)

    def compare_with(self, other: Resampled) -> Comparison:
        """Compare with another model's metric on the same resamples."""
        examples, change = len(self.model), self.value - other.value
        if why := _explain_unknown(self.model):
            nothing = make_unknown(ratio(self.value, other.value)), make_unknown(change)
            return Comparison(other.value, *nothing, why, examples)
        differences = self.values - other.values
        changed = _count_changed(self.model, other.model, differences)
        difference = _estimate_bounds(self.model, change, differences, blind=changed is not None)
        if self.model.most is not None:
            difference = _clip(difference, -self.model.most, self.model.most)
        return Comparison(
            value=other.value,
            # The other's value counts as known: its sampling error has a second-order effect on a small change.
            ratio=_estimate_ratio(difference, other.value),
            difference=difference,
            method=f"paired bootstrap over {examples} examples{_describe_left_out(differences)}",
            count=examples,
            changed=changed,
        )


def resample(models: Mapping[str, Pooled], seed: int) -> dict[str, Resampled]:
    """Resample the examples, and compute one metric of several models on the same resamples.

    Args:
        models: by role, over the same examples.
        seed: of the resamples.
    """
    first = next(iter(models.values()))
    columns = np.concatenate([model.columns for model in models.values()], axis=1)
    _, rows, counts = np.unique(columns, axis=0, return_index=True, return_counts=True)
    resamples = first.resamples or min(max(WORK // (len(rows) * first.classes), RESAMPLES[0]), RESAMPLES[1])
    weighings = {role: model.of(rows) for role, model in models.items()}
    values: dict[str, list[Floats]] = {role: [] for role in models}
    for weights in draw_weights(counts, resamples, seed):
        for role, weigh in weighings.items():
            values[role].append(weigh(weights))
    return {role: Resampled(model, model.overall, np.concatenate(values[role])) for role, model in models.items()}


def _estimate_ratio(change: Estimate, other: float) -> Estimate:
    """Return the ratio to `other`, which may be negative, from the difference."""
    value, *ends = (ratio(other + step, other) for step in (change.value, change.low, change.high))
    return Estimate(value, min(ends), max(ends))


def draw_weights(counts: NDArray[np.intp], resamples: int, seed: int) -> Iterator[Floats]:
    """Yield how often each kind of example is in each resample, `[b, kinds]`, for some resamples at a time.

    Args:
        counts: examples of each kind, `[kinds]`; those of a kind are interchangeable.
        resamples: how many in all.
        seed: of the draws.
    """
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


def _estimate_bounds(model: Pooled, value: float, values: Floats, *, blind: bool) -> Estimate:
    """Return the expanded percentiles; `blind` widens them by what no example shows."""
    finite = values[np.isfinite(values)]
    if 2 * len(finite) < len(values):
        return make_unknown(value)
    estimate = estimate_quantiles(value, finite, model.fewest, _estimate_bias(value, finite))
    unseen = Z * Z / (model.fewest + Z * Z) / model.classes if blind and model.most is not None else 0.0
    return Estimate(value, min(estimate.low, value - unseen), max(estimate.high, value + unseen))


def _estimate_bias(value: float, resampled: Floats) -> float:
    """Return the normal quantile of the share of resamples below the value; equal resamples count half."""
    equal = np.count_nonzero(np.abs(resampled - value) <= ROUNDING)
    below = np.count_nonzero(resampled < value - ROUNDING) + equal / 2
    bias = NormalDist().inv_cdf((below + 0.5) / (len(resampled) + 1))
    return max(-MOST_BIAS, min(bias, MOST_BIAS))


def _clip(estimate: Estimate, least: float, most: float) -> Estimate:
    if not math.isfinite(estimate.low):
        return estimate
    return Estimate(estimate.value, max(estimate.low, least), min(estimate.high, most))


def _count_changed(ours: Pooled, theirs: Pooled, differences: Floats) -> int | None:
    """Count the examples that the models classify differently; for scores 0 if all resamples are equal, else None."""
    if ours.answers is not None and theirs.answers is not None:
        return int(np.count_nonzero((ours.answers != theirs.answers).any(axis=1)))
    return 0 if _are_equal(differences) else None


def _are_equal(values: Floats) -> bool:
    finite = values[np.isfinite(values)]
    return finite.size > 0 and bool(np.ptp(finite) < ROUNDING)


def _explain_unknown(model: Pooled) -> str:
    """Say why a metric has no interval; return an empty text if it has one."""
    count = model.fewest
    if model.unknown or count >= FEWEST:
        return model.unknown
    counted = model.counted if count == 1 else f"{model.counted}s"
    of = "" if model.rarest is None else f" of class {model.rarest}"
    return f"{count} {counted}{of}, too few for an interval, which takes {FEWEST}"


def _describe_left_out(values: Floats) -> str:
    lost = int(np.count_nonzero(~np.isfinite(values)))
    return f", {lost} of {len(values)} resamples left out" if lost else ""
