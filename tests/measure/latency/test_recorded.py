"""Recorded launches: the statistics on real times of a busy machine, exactly and without measuring."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orun.measure.latency import measurement
from orun.measure.latency.abba_blocks import FEWEST_ABBA_BLOCKS, STEADY_ABBA_BLOCKS, Block, Pair, compute_log_ratios
from orun.measure.latency.cpu_time import Times
from orun.measure.latency.measurement import Budget
from orun.measure.latency.quantiles import estimate_median_error, estimate_quantile, find_ranks, quantile
from orun.measure.latency.sequential_test import FEWEST, Evidence

DATA = Path(__file__).parent / "data"
NEIGHBOURS: dict[str, Any] = json.loads((DATA / "neighbours.json").read_text(encoding="utf-8"))
RECORDED: dict[str, Any] = json.loads((DATA / "launches.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("slowdown", [0.02, 0.04, 0.05])
def test_no_equal_model_is_called_slower(slowdown: float) -> None:
    counts = Counter(answer for answer, _ in gates(RECORDED["equal"], slowdown))
    assert counts == {"not slower": len(RECORDED["equal"])}


@pytest.mark.parametrize("slowdown", [0.02, 0.04, 0.05])
def test_every_slower_model_is_caught(slowdown: float) -> None:
    counts = Counter(answer for answer, _ in gates(RECORDED["slower"], slowdown))
    assert counts == {"slower": len(RECORDED["slower"])}


def test_few_launches_suffice() -> None:
    launch_times = [launches for _, launches in gates(RECORDED["equal"], 0.05)]
    assert Counter(launch_times) == {3: 87, 4: 3}
    assert max(launches for _, launches in gates(RECORDED["slower"], 0.05)) == 7


def test_the_value_of_a_launch_is_the_median_of_its_pairs() -> None:
    """Of 12 ABBA blocks in which every block was one inference; their halves are 24 pairs of neighbours."""
    blocks = [
        Block(name, Times(np.array(cpu), np.array(cpu), np.array(cpu), None))
        for abba_block in RECORDED["abba_blocks"]
        for name, cpu in abba_block
    ]
    ratios = compute_log_ratios(_pairs_of(blocks), "baseline", "thread")
    (first_name, first), (_, second) = RECORDED["abba_blocks"][0][:2]
    by_hand = math.log(first[0] / second[0]) * (1 if first_name == "model" else -1)
    assert len(ratios) == 24
    assert ratios[0] == pytest.approx(by_hand)
    assert np.median(ratios) == pytest.approx(0.038359, abs=1e-6)


def test_pairs_of_neighbours_are_steadier_than_abba_blocks() -> None:
    """On cores whose speed changes by a third from one inference to the next."""
    ratios = [_recorded_ratios(order, times) for order, times in NEIGHBOURS["launches"]]
    by_pairs = [float(np.median(launch)) for launch in ratios]
    by_abba_blocks = [
        float(np.median([sum(launch[i : i + 2]) / 2 for i in range(0, len(launch), 2)])) for launch in ratios
    ]
    assert np.std(by_pairs, ddof=1) == pytest.approx(0.01017, abs=5e-6)
    assert np.std(by_abba_blocks, ddof=1) == pytest.approx(0.01481, abs=5e-6)
    answers = Counter(answer for start in range(len(by_pairs)) for answer in [_from(by_pairs, start, 0.05)])
    assert answers == {"not slower": len(by_pairs)}


@pytest.mark.parametrize(
    ("share", "launches", "above", "below", "alone"), [(0.5, 3, 10, 21, 154), (0.9, 3, 1, 9, 165), (0.9, 8, 0, 11, 219)]
)
def test_the_interval_of_a_quantile_on_times_that_resemble_their_neighbours(
    share: float, launches: int, above: int, below: int, alone: int
) -> None:
    """Of 256 windows of 12 times a launch: how many intervals miss, and how many order statistics alone would hold."""
    times = [launch_times for _, launch_times in NEIGHBOURS["launches"]]
    truth = quantile(sorted(time for launch_times in times for time in launch_times), share)
    counts: Counter[str] = Counter()
    for start, offset in itertools.product(range(32), range(0, 96, 12)):
        window = [times[(start + number) % 32][offset : offset + 12] for number in range(launches)]
        interval, ordered = estimate_quantile(window, share), sorted(itertools.chain(*window))
        low, high = find_ranks(len(ordered), share)
        counts["above"] += interval.low > truth
        counts["below"] += interval.high < truth
        counts["alone"] += ordered[low - 1] <= truth <= ordered[high - 1]
    assert counts == {"above": above, "below": below, "alone": alone}


@pytest.mark.parametrize(
    ("abba_blocks", "spread", "equal", "slower"),
    [
        (FEWEST_ABBA_BLOCKS, 0.0459, {"not slower": 170, "undecided": 22}, {"slower": 148, "undecided": 44}),
        (STEADY_ABBA_BLOCKS, 0.0203, {"not slower": 96}, {"slower": 96}),
    ],
)
def test_short_launches_of_a_slow_model(
    abba_blocks: int, spread: float, equal: dict[str, int], slower: dict[str, int]
) -> None:
    """Gates of launches in turn, each with so many of its 24 ABBA blocks, by which few are decided and none wrongly."""
    ratios = [_recorded_ratios(order, times) for order, times in NEIGHBOURS["launches"]]
    parts = [[launch[start : start + 2 * abba_blocks] for launch in ratios] for start in range(0, 48, 2 * abba_blocks)]
    values = [[float(np.median(launch)) for launch in part] for part in parts]
    assert np.std(values, ddof=1) == pytest.approx(spread, abs=5e-5)
    middle = float(np.mean(values))
    for slowdown, expected in ((0.0, equal), (0.05, slower)):
        shifted = [[value - middle + math.log1p(slowdown) for value in part] for part in values]
        counts = Counter(_promising([*part[start:], *part[:start]]) for part in shifted for start in range(len(part)))
        assert counts == expected


def _promising(ratios: Sequence[float]) -> str:
    """The answer after eight launches at most, or up to sixteen where these promise one, of a stage with no time."""
    budget = Budget(0.0, 0.05, (3, 30), 30, 0.0, enough=8)
    for count in range(FEWEST, len(ratios) + 1):
        evidence = Evidence.from_log_ratios(ratios[:count])
        answer = evidence.answer(math.log1p(0.05))
        if answer != "undecided" or (count >= 8 and not measurement.is_promising({"baseline": evidence}, budget)):
            return answer
    return "undecided"


def test_launches_do_not_resemble_the_ones_before() -> None:
    """Or the test would be surer than it may be."""
    correlations = [_correlation(RECORDED[name]) for name in ("equal", "slower")]
    assert correlations == pytest.approx([-0.0075, -0.2354], abs=5e-4)


def _correlation(values: Sequence[float]) -> float:
    """From one to the next: mean product of their distances from the mean, over the mean square."""
    deviations = np.array(values) - np.mean(values)
    return float(np.mean(deviations[1:] * deviations[:-1]) / np.mean(deviations**2))


def _recorded_ratios(order: str, times: Sequence[int]) -> list[float]:
    """Return the log ratio of each pair of a launch, recorded as letters and microseconds."""
    names = {"A": "model", "B": "baseline"}
    seconds = [np.array([time / 1e6]) for time in times]
    blocks = [Block(names[name], Times(cpu, cpu, cpu, None)) for name, cpu in zip(order, seconds, strict=True)]
    return compute_log_ratios(_pairs_of(blocks), "baseline", "thread")


def _pairs_of(blocks: Sequence[Block]) -> list[Pair]:
    return [Pair("baseline", blocks[start : start + 2]) for start in range(0, len(blocks), 2)]


def _from(ratios: Sequence[float], start: int, slowdown: float) -> str:
    return _gate([*ratios[start:], *ratios[:start]], slowdown)[0]


@pytest.mark.parametrize(
    ("values", "error"), [([1.0], 0.0), ([0.0, 1.0], 0.5), (range(101), 6.0), ([0.0] * 99 + [9.0], 0.0)]
)
def test_the_error_of_a_median_lies_between_order_statistics(values: Sequence[float], error: float) -> None:
    assert estimate_median_error(list(values)) == error


def test_the_error_of_a_median_is_that_of_normal_values() -> None:
    """Of 101 values: sqrt(pi / 2 / n), and up to a quarter more because ranks are whole numbers."""
    drawn = np.random.default_rng(0).standard_normal((400, 101))
    errors = [estimate_median_error(list(values)) for values in drawn]
    assert 1 <= np.mean(errors) / math.sqrt(math.pi / 2 / 101) <= 1.25
    assert np.std(np.median(drawn, axis=1)) == pytest.approx(math.sqrt(math.pi / 2 / 101), rel=0.1)


def gates(ratios: Sequence[float], slowdown: float) -> list[tuple[str, int]]:
    """A gate from each of the launches on, round in a circle."""
    return [_gate([*ratios[start:], *ratios[:start]], slowdown) for start in range(len(ratios))]


def _gate(ratios: Sequence[float], slowdown: float) -> tuple[str, int]:
    for count in range(2, len(ratios) + 1):
        answer = Evidence.from_log_ratios(ratios[:count]).answer(math.log1p(slowdown))
        if answer != "undecided":
            return answer, count
    return "undecided", len(ratios)
