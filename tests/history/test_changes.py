"""Change points of series with known answers."""

from __future__ import annotations

import math
import random
from itertools import combinations
from statistics import fmean

import pytest

from orun.history.changes import LEAST, Change, choose_division, divide, find_changes, sum_distances
from tests.history.support import nightly


def _noise(count: int, level: float, seed: int, spread: float = 0.01) -> list[float]:
    drawn = random.Random(seed)
    return [level * drawn.lognormvariate(0, spread) for _ in range(count)]


def test_a_shift_is_found_where_it_is() -> None:
    values = _noise(20, 8.0, 1) + _noise(20, 8.4, 2)
    ((index, p),) = divide(values)
    assert index == 20
    assert p == 1 / 500  # the least that so many permutations can say


def test_the_energy_of_every_division_as_it_is_defined() -> None:
    """Against the formula of the paper, which takes far longer."""
    values = [*_noise(9, 8.0, 11), 8.0, 8.0, *_noise(8, 8.3, 12)]

    def gain(split: int) -> float:
        left, right = values[:split], values[split:]
        between = fmean(abs(value - other) for value in left for other in right)
        inside = sum(fmean(abs(value - other) for value, other in combinations(side, 2)) for side in (left, right))
        return (2 * between - inside) * len(left) * len(right) / len(values)

    gains = {split: gain(split) for split in range(LEAST, len(values) - LEAST + 1)}
    best = max(gains, key=lambda split: gains[split])
    split, energy = choose_division(values, sum_distances(values))
    assert split == best
    assert energy == pytest.approx(gains[best], rel=1e-9)
    assert [index for index, _ in divide(values)] == [best]


def test_two_shifts() -> None:
    values = _noise(15, 8.0, 1) + _noise(15, 9.0, 2) + _noise(15, 8.0, 3)
    assert [index for index, _ in divide(values)] == [15, 30]


def test_false_alarms_are_as_rare_as_the_level_says() -> None:
    alarms = sum(bool(divide(_noise(24, 8.0, seed))) for seed in range(200))
    assert alarms <= 6  # binomial(200, 1 %): more than 6 has a chance of 0.4 %


@pytest.mark.slow
def test_a_shift_of_five_sigma_is_seldom_missed() -> None:
    missed = sum(not divide(_noise(12, 8.0, seed) + _noise(6, 8.4, seed + 1000)) for seed in range(20))
    assert missed == 0


def test_a_shift_of_just_the_level_is_one() -> None:
    """Four permutations of 499 divide as well; with one more it would be none."""
    drawn = _noise(10, 8.0, 90)
    assert divide([*drawn[:5], *(1.01 * value for value in drawn[5:])]) == [(6, 0.01)]


def test_an_outlier_is_no_change() -> None:
    values = _noise(30, 8.0, 4)
    values[14] = 40.0
    assert divide(values) == []


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_units_do_not_matter(factor: float) -> None:
    values = [factor * value for value in _noise(12, 8.0, 5) + _noise(12, 8.6, 6)]
    assert divide(values) == divide([value / factor for value in values])
    assert [index for index, _ in divide(values)] == [12]


def test_too_few_or_not_finite_values_are_not_divided() -> None:
    assert divide([1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]) == []
    assert divide([*_noise(10, 1.0, 7), float("nan"), *_noise(10, 2.0, 8)]) == []


def test_levels_are_medians_up_to_the_next_change() -> None:
    values = [8.0, 8.1, 7.9, 8.0, 8.05, 7.95, 8.0, 8.02, 8.01, 8.0, 9.0, 9.1, 8.9, 9.0, 9.05, 8.95, 9.0, 9.02, 9.0, 9.0]
    (change,) = find_changes(nightly(values))
    assert (change.index, change.before, change.after) == (10, 8.0, 9.0)
    assert change.after / change.before == 1.125


def test_of_an_exact_metric_every_change_is_one() -> None:
    assert find_changes(nightly([22.0, 22.0, 23.0, 22.0], noise="none")) == (
        Change(2, 22.0, 23.0, 0.0),
        Change(3, 23.0, 22.0, 0.0),
    )
    lost = find_changes(nightly([22.0, math.nan, math.nan, 22.0], noise="none"))
    assert [change.index for change in lost] == [1, 3]  # what is not a number stays so


def test_the_newest_300_measurements_are_looked_at() -> None:
    values = _noise(150, 8.0, 9) + _noise(300, 9.0, 10)
    assert find_changes(nightly(values)) == ()


@pytest.mark.slow
def test_the_last_changes_of_a_thousand_nights() -> None:
    values = _noise(760, 8.0, 13) + _noise(140, 8.4, 14) + _noise(100, 8.2, 15)
    values[800] = values[950] = 20.0
    levels = find_changes(nightly(values))
    assert [(change.index, change.p) for change in levels] == [(760, 0.005), (900, 0.005)]
    assert [change.after / change.before for change in levels] == pytest.approx([1.05, 0.976], abs=0.003)


@pytest.mark.parametrize("values", [[0.1] * 7 + [0.2], [0.2] + [0.1] * 7, [0.3] * 6 + [0.1, 0.2]])
def test_ties_and_an_outlier_are_no_change(values: list[float]) -> None:
    """The energy distance is 0 then, or below, and what differs between its permutations is rounding."""
    assert divide(values) == []
