"""The sequential test: exact values, known error rates on synthetic launches, and no dependence on units or order."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import pytest

from orun.core.metrics import Comparison, Estimate
from orun.core.serialization import replace
from orun.measure.latency.sequential_test import (
    ALPHA,
    BETA,
    EQUAL,
    FLOOR,
    SLOWER,
    Evidence,
    compute_reach,
    compute_student_quantile,
)
from tests.thin import mostly_slow

GATES = 2000


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (5, 2.5706), (10, 2.2281), (30, 2.0423), (120, 1.9799)],
)
def test_students_quantiles_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    assert compute_student_quantile(freedom) == pytest.approx(quantile, abs=5e-5)


def test_the_thresholds_are_walds() -> None:
    assert (ALPHA, BETA) == (0.01, 0.05)
    assert math.exp(SLOWER) == pytest.approx(95)
    assert math.exp(-EQUAL) == pytest.approx(19.8)


def test_evidence_of_launches() -> None:
    evidence = Evidence.from_log_ratios([0.01, 0.03, 0.05])
    assert (evidence.count, evidence.mean, evidence.spread) == pytest.approx((3, 0.03, 0.02))
    assert evidence.half_width == pytest.approx(4.30265 * 0.02 / math.sqrt(3), rel=1e-5)
    ratio = evidence.ratio
    assert ratio.value == pytest.approx(math.exp(0.03))
    assert (ratio.low, ratio.high) == pytest.approx((math.exp(-0.0196828), math.exp(0.0796828)), rel=1e-5)


def test_launches_that_agree_by_luck_have_the_spread_of_the_floor() -> None:
    assert Evidence.from_log_ratios([0.01, 0.01, 0.01]).spread == FLOOR


def test_a_stored_comparison_gives_the_evidence_back() -> None:
    evidence = Evidence(5, 0.021, 0.013)
    nothing = Estimate(0.0, -math.inf, math.inf)  # of a disturbed comparison no end is known
    comparison = Comparison(1.0, replace(nothing, value=evidence.ratio.value), nothing, "by test", 5, spread=0.013)
    again = Evidence.from_comparison(comparison)
    assert (again.count, again.spread) == (5, 0.013)
    assert again.mean == pytest.approx(0.021)


def test_what_launches_of_a_run_have_in_common_widens_the_interval() -> None:
    """Its square by 1 + n r, with r the variance between runs."""
    alone, common = Evidence(4, 0.1, 0.02), Evidence(4, 0.1, 0.02, shared=0.25)
    assert common.half_width == pytest.approx(alone.half_width * math.sqrt(2))
    assert common.invert().half_width == common.half_width
    assert compute_reach(10_000, 0.25) == pytest.approx(1.96 / 2, rel=1e-3)


@pytest.mark.parametrize("count", [3, 8, 16])
def test_intervals_of_whole_runs_hold_the_truth(count: int) -> None:
    """Of runs that differ by half as much as their launches, which no launch tells."""
    randomness, held, alone = random.Random(count), 0, 0
    for _ in range(GATES):
        run = randomness.gauss(0.0, 0.01)
        launches = [run + randomness.gauss(0.0, 0.02) for _ in range(count)]
        held += (
            abs(Evidence.from_log_ratios(launches, 0.25).mean) <= Evidence.from_log_ratios(launches, 0.25).half_width
        )
        alone += abs(Evidence.from_log_ratios(launches).mean) <= Evidence.from_log_ratios(launches).half_width
    assert held >= 0.93 * GATES
    assert alone < held


def test_log_odds_by_hand() -> None:
    evidence, slowdown = Evidence(4, 0.04, 0.02), 0.05
    variance = 0.02**2 * 3 / 4
    by_hand = 2 * math.log((variance + 0.04**2) / (variance + 0.01**2))
    assert evidence.log_odds(slowdown) == pytest.approx(by_hand)


def test_one_slower_than_asked_or_faster_is_as_clear_as_can_be() -> None:
    beyond, faster = Evidence(3, 0.2, 0.01), Evidence(3, -0.2, 0.01)
    variance = 0.01**2 * 2 / 3
    assert beyond.log_odds(0.05) == pytest.approx(1.5 * math.log(1 + 0.2**2 / variance))
    assert faster.log_odds(0.05) == pytest.approx(-1.5 * math.log(1 + 0.25**2 / variance))
    assert (beyond.answer(0.05), faster.answer(0.05)) == ("slower", "not slower")


def test_the_middle_is_undecided() -> None:
    assert Evidence(30, 0.025, 0.01).log_odds(0.05) == pytest.approx(0, abs=1e-9)
    assert Evidence(4, 0.025, 0.01).answer(0.05) == "undecided"


def test_a_slow_down_that_is_clearly_smaller_than_the_limit_is_not_slower() -> None:
    """Three times the work is less than ten times, although it fits "none" no better than "ten times"."""
    assert Evidence(3, math.log(3), 0.008).answer(math.log(10)) == "not slower"
    assert Evidence(3, math.log(3), 0.5).answer(math.log(10)) == "undecided"
    assert Evidence(30, 0.025, 0.01).answer(0.05) == "not slower"


def test_two_launches_decide_nothing() -> None:
    assert Evidence(2, 0.3, FLOOR).log_odds(0.05) > SLOWER
    assert Evidence(2, 0.3, FLOOR).answer(0.05) == "undecided"


def test_the_models_changed_over() -> None:
    evidence = Evidence.from_log_ratios([0.05, 0.06, 0.04])
    assert evidence.invert() == Evidence.from_log_ratios([-0.05, -0.06, -0.04])
    assert evidence.invert().ratio.value == pytest.approx(1 / evidence.ratio.value)
    assert evidence.invert().ratio.low == pytest.approx(1 / evidence.ratio.high)


def test_order_and_unit_change_nothing() -> None:
    generator = random.Random(3)
    for _ in range(200):
        times = [(generator.lognormvariate(0, 0.1), generator.lognormvariate(0.03, 0.1)) for _ in range(6)]
        ratios = [math.log(b / a) for a, b in times]
        in_milliseconds = [math.log((b * 1e3) / (a * 1e3)) for a, b in times]
        odds = Evidence.from_log_ratios(ratios).log_odds(0.05)
        assert Evidence.from_log_ratios(in_milliseconds).log_odds(0.05) == pytest.approx(odds)
        assert Evidence.from_log_ratios(generator.sample(ratios, 6)).log_odds(0.05) == pytest.approx(odds)


def test_evidence_grows_with_the_slow_down() -> None:
    means = [-0.05 + 0.01 * step for step in range(16)]
    odds = [Evidence(4, mean, 0.01).log_odds(0.05) for mean in means]
    assert odds == sorted(odds)


@pytest.mark.parametrize(
    ("spread", "slowdown"), mostly_slow(itertools.product((0.004, 0.008, 0.011), (0.02, 0.05)), (0.011, 0.02))
)
def test_error_rates_are_kept(spread: float, slowdown: float) -> None:
    """At the spreads that are met in practice; the counts are within four standard errors of the promised rates."""
    limit = math.log1p(slowdown)
    equal = Counter(_gate(0.0, spread, limit, seed) for seed in range(GATES))
    slower = Counter(_gate(limit, spread, limit, seed) for seed in range(GATES))
    assert equal["slower"] <= _most(ALPHA)
    assert slower["not slower"] <= _most(BETA)
    assert equal["undecided"] + slower["undecided"] == 0


@pytest.mark.parametrize(("spread", "slowdown"), mostly_slow([(0.02, 0.05), (0.04, 0.1)], (0.02, 0.05)))
def test_a_noisier_machine_costs_launches_not_errors(spread: float, slowdown: float) -> None:
    limit = math.log1p(slowdown)
    assert sum(_gate(0.0, spread, limit, seed) == "slower" for seed in range(GATES)) <= _most(ALPHA)
    assert sum(_gate(limit, spread, limit, seed) == "not slower" for seed in range(GATES)) <= _most(BETA)
    assert _launches(0.0, spread, limit) > _launches(0.0, spread / 4, limit)


def _most(rate: float) -> float:
    return GATES * rate + 4 * math.sqrt(GATES * rate * (1 - rate))


def _gate(mean: float, spread: float, limit: float, seed: int) -> str:
    return _play(mean, spread, limit, seed)[0]


def _launches(mean: float, spread: float, limit: float) -> int:
    return sum(_play(mean, spread, limit, seed)[1] for seed in range(200))


def _play(mean: float, spread: float, limit: float, seed: int) -> tuple[str, int]:
    """Launches from a normal distribution until the test answers."""
    generator = random.Random(seed)
    ratios = [generator.gauss(mean, spread) for _ in range(2)]
    while len(ratios) < 100:
        ratios.append(generator.gauss(mean, spread))
        if (answer := Evidence.from_log_ratios(ratios).answer(limit)) != "undecided":
            return answer, len(ratios)
    return "undecided", len(ratios)
