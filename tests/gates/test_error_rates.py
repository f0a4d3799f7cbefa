"""Every judge on measurements whose truth is known: how often it errs, and how often it sees.

At the very limit a verdict other than undecided is an error, and each of the two may come as often as an interval of
95 % misses on one side; counts are within four standard errors of that.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from orun.core.metrics import Metric
from orun.core.verdict import Verdict
from orun.measure.benchmark_case import BASELINE
from orun.measure.latency import measurement
from orun.measure.latency.measurement import Budget
from orun.measure.latency.quantiles import estimate_quantile
from orun.measure.latency.sequential_test import ALPHA, BETA, FEWEST, Evidence
from orun.measure.metrics import paired
from tests.gates.support import accepted, compared, gate, metric, verdict_of
from tests.thin import mostly_slow

TRIALS = 400
FEW = 80  # of what takes a bootstrap each
MISSED = 0.025  # of the intervals on either side

Launches = list[list[float]]


def most(rate: float, trials: int = TRIALS) -> float:
    return trials * rate + 4 * math.sqrt(trials * rate * (1 - rate))


def counted(judge: Callable[[int], Verdict], trials: int = TRIALS) -> Counter[str]:
    return Counter(judge(seed).outcome for seed in range(trials))


def launches(seed: int, spread: float = 0.03) -> Launches:
    """Five launches of 30 exponential times on top of 10 ms; each launch has a speed of its own."""
    generator = random.Random(seed)
    speeds = [math.exp(generator.gauss(0, spread)) for _ in range(5)]
    return [[speed * (0.010 + generator.expovariate(1000)) for _ in range(30)] for speed in speeds]


def absolute(times: Launches, share: float, limit: float) -> Verdict:
    estimate = estimate_quantile(times, share)
    measured = Metric(estimate.value, "s", "lower", "timing", estimate)
    return verdict_of(gate("p50", "max", f"{limit * 1e3}ms", limit), {"p50": measured})


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_absolute_times_at_their_limit(share: float) -> None:
    truth = 0.010 - math.log(1 - share) / 1000
    counts = counted(lambda seed: absolute(launches(seed), share, truth))
    assert counts["failed"] <= most(MISSED)
    assert counts["passed"] <= most(MISSED)


def test_absolute_times_beside_their_limit() -> None:
    truth = 0.010 - math.log(0.5) / 1000
    assert counted(lambda seed: absolute(launches(seed), 0.5, 1.15 * truth))["passed"] >= 0.98 * TRIALS
    assert counted(lambda seed: absolute(launches(seed), 0.5, truth / 1.15))["failed"] >= 0.98 * TRIALS


def right(seed: int, drop: float) -> Metric:
    """The accuracy of a model on 500 examples, of which another gets 90 % right; it loses `drop` and gains 2 %."""
    generator = np.random.default_rng(seed)
    theirs = generator.random(500) < 0.9
    lost = generator.random(500) < (drop + 0.1 * 0.02) / 0.9
    ours = np.where(theirs, ~lost, generator.random(500) < 0.02)
    return sampled(ours.astype(float), theirs.astype(float), seed)


def scored(seed: int, drop: float) -> Metric:
    """The mean of scores between 0 and 1 on 60 examples, `drop` lower than the other's 0.6 on average."""
    generator = np.random.default_rng(seed)
    theirs = generator.beta(3, 2, 60)
    return sampled(theirs - drop + generator.normal(0, 0.03, 60), theirs, seed)


def sampled(ours: paired.Floats, theirs: paired.Floats, seed: int) -> Metric:
    return metric(float(ours.mean()), "ratio", "higher", "sample", reference=paired.compare(ours, theirs, seed))


@pytest.mark.parametrize(("score", "drop", "trials"), [(right, 0.03, TRIALS), (scored, 0.01, FEW)])
def test_a_drop_at_its_limit(score: Callable[[int, float], Metric], drop: float, trials: int) -> None:
    counts = counted(lambda seed: judged_drop(score(seed, drop), drop), trials)
    assert counts["failed"] <= most(MISSED, trials)
    assert counts["passed"] <= most(MISSED, trials)


@pytest.mark.parametrize(
    ("score", "drop", "far", "trials"), [(right, 0.03, 0.1, TRIALS), (scored, 0.01, 0.04, FEW // 2)]
)
def test_a_drop_beside_its_limit(score: Callable[[int, float], Metric], drop: float, far: float, trials: int) -> None:
    assert counted(lambda seed: judged_drop(score(seed, far), drop), trials)["failed"] >= 0.95 * trials
    assert counted(lambda seed: judged_drop(score(seed, 0.0), far), trials)["passed"] >= 0.95 * trials


def judged_drop(measured: Metric, drop: float) -> Verdict:
    return verdict_of(gate("accuracy", "max_drop", f"{drop}", drop), {"accuracy": measured})


def regression(ratios: Sequence[float]) -> Verdict:
    evidence = Evidence.from_log_ratios(ratios)
    ratio = evidence.ratio
    baseline = compared(0.01, (ratio.value, ratio.low, ratio.high), "by test", evidence.count, evidence.spread)
    measured = {"p50": metric(0.01 * ratio.value, "s", "lower", "timing", baseline=baseline)}
    return verdict_of(gate("p50", "max_regression", "5%", 0.05), measured, accepted(measured))


def drawn(seed: int, slowdown: float) -> list[float]:
    """Six launches with the tails of Student's t at five degrees of freedom."""
    generator = np.random.default_rng(seed)
    return [math.log1p(slowdown) + 0.012 * float(t) for t in generator.standard_t(5, 6)]


def test_a_regression_that_is_none_and_one_that_is() -> None:
    equal = counted(lambda seed: regression(drawn(seed, 0.0)))
    slower = counted(lambda seed: regression(drawn(seed, 0.05)))
    assert equal["failed"] == 0
    assert equal["passed"] >= 0.98 * TRIALS
    assert slower["passed"] <= most(0.001)
    assert slower["failed"] >= 0.94 * TRIALS  # six launches are not always enough for the rest


@pytest.mark.parametrize(("spread", "wrong"), mostly_slow([(0.015, 0.001), (0.03, ALPHA), (0.05, 0.02)], (0.03, ALPHA)))
def test_a_gate_that_goes_on_where_it_is_promising_errs_as_seldom(spread: float, wrong: float) -> None:
    """Launches end when the answer is clear, and after eight unless up to eight more would make it so."""
    trials = 2000
    equal = Counter(sequential(seed, 0.0, spread) for seed in range(trials))
    slower = Counter(sequential(seed, 0.05, spread) for seed in range(trials))
    assert equal["slower"] <= most(wrong, trials)
    assert slower["not slower"] <= most(BETA, trials)
    assert equal["slower"] < equal["not slower"]
    assert slower["not slower"] < slower["slower"]


def sequential(seed: int, slowdown: float, spread: float) -> str:
    """The answer of launches that are made one by one, as a stage makes them that has no time left."""
    generator, budget = random.Random(seed), Budget(0.0, 0.05, (3, 30), 30, 0.0, enough=8)
    ratios: list[float] = []
    while True:
        ratios.append(math.log1p(slowdown) + generator.gauss(0, spread))
        if len(ratios) < FEWEST:
            continue
        evidence = {BASELINE: Evidence.from_log_ratios(ratios)}
        enough = len(ratios) >= budget.enough and not measurement.is_promising(evidence, budget)
        if enough or measurement.is_clear(evidence, budget):
            return evidence[BASELINE].answer(math.log1p(0.05))


def test_the_order_of_examples_changes_no_verdict_on_right_and_wrong() -> None:
    for seed in range(20):
        generator = np.random.default_rng(seed)
        ours, theirs = (generator.random((2, 100)) < 0.8).astype(float)
        order = generator.permutation(100)
        assert paired.compare(ours, theirs, 0) == paired.compare(ours[order], theirs[order], 0)
