"""How others call a model slower: each from the wall times of one model after those of the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rival = Callable[[Floats, Floats, float], bool]

RUNS = 100  # inferences of each model
RESAMPLES = 1000
CRITERION_NOISE = 0.01  # Criterion's default noise threshold


def mean_of_100(before: Floats, after: Floats, limit: float) -> bool:
    """The mean of 100 runs is worse by more than the limit."""
    return bool(after.mean() / before.mean() - 1 > limit)


def olive(before: Floats, after: Floats, limit: float) -> bool:
    """The same of 20 runs after 10 to warm up, its evaluator's defaults."""
    return bool(after[10:30].mean() / before[10:30].mean() - 1 > limit)


def pytest_benchmark_mean(before: Floats, after: Floats, limit: float) -> bool:
    """`--benchmark-compare-fail=mean:5%` over as many rounds as fit into a second, its default."""
    return bool(_rounds(after).mean() / _rounds(before).mean() - 1 > limit)


def pytest_benchmark_min(before: Floats, after: Floats, limit: float) -> bool:
    """`--benchmark-compare-fail=min:5%` over the same rounds."""
    return bool(_rounds(after).min() / _rounds(before).min() - 1 > limit)


def criterion(before: Floats, after: Floats, limit: float) -> bool:
    """The whole 95 % bootstrap interval of the mean's change is above the noise threshold; it takes no limit."""
    del limit
    generator = np.random.default_rng(0)
    means = [
        times[generator.integers(0, len(times), (RESAMPLES, len(times)))].mean(axis=1) for times in (before, after)
    ]
    return bool(np.quantile(means[1] / means[0] - 1, 0.025) > CRITERION_NOISE)


def mann_whitney(before: Floats, after: Floats, limit: float) -> bool:
    """Mann-Whitney's test at 1 %, and the median worse by more than half the limit."""
    ranks = np.concatenate([before, after]).argsort().argsort() + 1.0
    count, others = len(after), len(before)
    statistic = ranks[others:].sum() - count * (count + 1) / 2
    spread = math.sqrt(count * others * (count + others + 1) / 12)
    significant = (statistic - count * others / 2) / spread > NormalDist().inv_cdf(0.99)
    return bool(significant and np.median(after) / np.median(before) - 1 > limit / 2)


def _rounds(times: Floats) -> Floats:
    return times[: max(5, int(np.searchsorted(np.cumsum(times), 1.0)))]


RIVALS: Mapping[str, Rival] = {
    "mean of 100 runs": mean_of_100,
    "Olive (mean of 20)": olive,
    "pytest-benchmark mean": pytest_benchmark_mean,
    "pytest-benchmark min": pytest_benchmark_min,
    "Criterion's interval": criterion,
    "Mann-Whitney": mann_whitney,
}
