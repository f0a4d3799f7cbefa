"""Quantiles of times: ranks from the tables, coverage on synthetic times, and no dependence on units or order."""

from __future__ import annotations

import math
import random

import pytest

from orun.measure.latency.quantiles import estimate_quantile, find_ranks, quantile

TRIALS = 1000


def test_a_quantile_is_one_of_the_values() -> None:
    values = [1.0, 2.0, 3.0, 4.0]
    assert [quantile(values, share) for share in (0.01, 0.25, 0.5, 0.51, 0.99, 1.0)] == [1, 1, 2, 3, 4, 4]
    assert quantile([1.0], 0.5) == 1.0
    assert quantile(sorted(range(100)), 0.29) == 28  # 100 * 0.29 is 28.999999999999996
    assert quantile(sorted(range(100)), 0.07) == 6  # 100 * 0.07 is 7.000000000000001


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [
        (5, 0.5, (0, 6)),  # too few for any bound
        (6, 0.5, (1, 6)),
        (20, 0.5, (6, 15)),
        (100, 0.5, (40, 61)),
        (35, 0.9, (28, 36)),
        (36, 0.9, (29, 36)),
        (367, 0.99, (359, 368)),  # 368 are the fewest that bound the 99th percentile above
        (368, 0.99, (360, 368)),
    ],
)
def test_ranks(count: int, share: float, expected: tuple[int, int]) -> None:
    assert find_ranks(count, share) == expected


@pytest.mark.parametrize(("count", "share"), [(30, 0.5), (60, 0.9), (400, 0.99)])
def test_ranks_cover_the_quantile(count: int, share: float) -> None:
    """Of exponential times, whose quantiles are known; the interval is at least as wide as promised."""
    low, high = find_ranks(count, share)
    true = -math.log1p(-share)
    covered = 0
    for seed in range(TRIALS):
        generator = random.Random(seed)
        ordered = sorted(generator.expovariate(1.0) for _ in range(count))
        covered += ordered[low - 1] <= true <= ordered[high - 1]
    assert covered >= TRIALS * 0.95 - 4 * math.sqrt(TRIALS * 0.95 * 0.05)


def test_an_interval_within_launches_that_agree() -> None:
    launches = [[1.0 + step / 100 for step in range(40)] for _ in range(5)]
    estimate = estimate_quantile(launches, 0.5)
    ordered = sorted(time for launch in launches for time in launch)
    low, high = find_ranks(200, 0.5)
    assert estimate.value == ordered[99]
    assert (estimate.low, estimate.high) == (ordered[low - 1], ordered[high - 1])


def test_launches_that_differ_widen_the_interval() -> None:
    launches = [[level] * 50 for level in (1.0, 1.1, 1.2)]
    estimate = estimate_quantile(launches, 0.5)
    logs = [math.log(level) for level in (1.0, 1.1, 1.2)]
    mean = sum(logs) / 3
    spread = math.sqrt(sum((log_ratio - mean) ** 2 for log_ratio in logs) / 2)
    half = 4.30265 * spread / math.sqrt(3)
    assert estimate.value == 1.1
    assert estimate.low == pytest.approx(1.1 * math.exp(-half), rel=1e-5)
    assert estimate.high == pytest.approx(1.1 * math.exp(half), rel=1e-5)


def test_too_few_times_bound_nothing() -> None:
    estimate = estimate_quantile([[1.0, 2.0], [3.0]], 0.99)
    assert (estimate.value, estimate.high) == (3.0, math.inf)
    assert estimate_quantile([[1.0, 2.0], [3.0]], 0.5).low == 0.0


def test_coverage_when_launches_differ() -> None:
    """Times of a launch share a factor of their own: intervals of independent times would cover far less."""
    covered = alone = 0
    for seed in range(TRIALS):
        generator = random.Random(seed)
        launches = [_launch(generator) for _ in range(4)]
        estimate = estimate_quantile(launches, 0.5)
        ordered = sorted(time for launch in launches for time in launch)
        low, high = find_ranks(len(ordered), 0.5)
        covered += estimate.low <= 1.0 <= estimate.high
        alone += ordered[low - 1] <= 1.0 <= ordered[high - 1]
    assert covered >= TRIALS * 0.93
    assert alone <= TRIALS * 0.7


def _launch(generator: random.Random) -> list[float]:
    level = generator.gauss(0, 0.05)
    return [math.exp(level + generator.gauss(0, 0.02)) for _ in range(30)]


def test_units_and_order_change_nothing() -> None:
    generator = random.Random(5)
    launches = [_launch(generator) for _ in range(3)]
    estimate = estimate_quantile(launches, 0.9)
    scaled = estimate_quantile(
        [[1e3 * time for time in generator.sample(launch, 30)] for launch in reversed(launches)], 0.9
    )
    assert scaled.value == 1e3 * estimate.value
    assert (scaled.low, scaled.high) == pytest.approx((1e3 * estimate.low, 1e3 * estimate.high))


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_the_value_is_within_its_interval(share: float) -> None:
    for seed in range(100):
        generator = random.Random(seed)
        estimate = estimate_quantile([_launch(generator) for _ in range(3)], share)
        assert estimate.low <= estimate.value <= estimate.high
