"""Decision rules of other tools on whether a model got slower, from the wall times of two models in sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu

Floats = NDArray[np.float64]
Rival = Callable[[Floats, Floats, float], bool]

RUNS = 100  # inferences of each model
RESAMPLES = 1000
CRITERION_NOISE = 0.01  # Criterion's default noise threshold


def mean_of_100(before: Floats, after: Floats, limit: float) -> bool:
    """Compare the means of 100 runs."""
    return bool(after.mean() / before.mean() - 1 > limit)


def olive(before: Floats, after: Floats, limit: float) -> bool:
    """Compare the means of 20 runs after 10 warm-up runs, the defaults of Olive's evaluator."""
    return bool(after[10:30].mean() / before[10:30].mean() - 1 > limit)


def pytest_benchmark_mean(before: Floats, after: Floats, limit: float) -> bool:
    """Apply `--benchmark-compare-fail=mean:5%` to the rounds that fit into a second, the default."""
    return bool(_rounds(after).mean() / _rounds(before).mean() - 1 > limit)


def pytest_benchmark_min(before: Floats, after: Floats, limit: float) -> bool:
    """Apply `--benchmark-compare-fail=min:5%` to the same rounds."""
    return bool(_rounds(after).min() / _rounds(before).min() - 1 > limit)


def criterion(before: Floats, after: Floats, limit: float) -> bool:
    """Return whether the whole 95 % bootstrap interval of the mean's change exceeds the noise threshold; no limit."""
    del limit
    generator = np.random.default_rng(0)
    means = [
        times[generator.integers(0, len(times), (RESAMPLES, len(times)))].mean(axis=1) for times in (before, after)
    ]
    return bool(np.quantile(means[1] / means[0] - 1, 0.025) > CRITERION_NOISE)


def mann_whitney(before: Floats, after: Floats, limit: float) -> bool:
    """Apply Mann-Whitney's test at 1 %, and require a median that is worse by more than half the limit."""
    significant = mannwhitneyu(after, before, alternative="greater").pvalue < 0.01  # noqa: PLR2004 - 1 %
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
