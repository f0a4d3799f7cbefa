"""E-processes: fair bets, exact p-values, blocks of any size, false alarms and planted drifts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from orun.drift.e_process import BETS, DriftTest

Array = NDArray[Any]
LIVES = 100


def capital_of(reference: Array, values: Array, block: int = 0) -> Array:
    """Return the capital of each column after each record, fed in blocks of a size."""
    test = DriftTest.begin(list(reference.T), np.random.default_rng(0))
    size = block or len(values)
    parts = [values[start : start + size] for start in range(0, len(values), size)]
    return np.concatenate([test.add(part, np.zeros(len(part))).capital for part in parts])


def draws(kind: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    if kind == "coin":
        return random.integers(0, 2, shape).astype(float)
    return np.where(random.random(shape) < 0.3, np.inf, random.normal(size=shape))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["coin", "missing"])
def test_every_bet_is_fair(kind: str) -> None:
    """Over new references and logs, capital is kept in the mean: bets that look at the values themselves gain 3 %."""
    random = np.random.default_rng(0)
    lives = 10_000
    test = DriftTest.begin(list(draws(kind, (lives, 3), random)), random)
    test.add(draws(kind, (2, lives), random), np.zeros(2))
    staked = 1 - 1 / (1 + np.log1p(2))
    means, errors = (figure(test.capital, axis=0) * BETS / staked for figure in (np.mean, np.std))
    assert means.shape == (BETS,)
    assert np.all(np.abs(means - 1) < np.maximum(5 * errors / np.sqrt(lives), 1e-9))


def test_the_division_of_a_log_into_blocks_does_not_matter() -> None:
    random = np.random.default_rng(0)
    reference, values = random.normal(size=(50, 3)), random.normal(0.5, 1, (150, 3))
    values[::7, 1] = np.nan
    undivided = capital_of(reference, values)
    for block in (1, 13, 100):
        assert capital_of(reference, values, block=block) == pytest.approx(undivided, rel=1e-9)


def test_few_lives_without_drift_have_an_alarm() -> None:
    random = np.random.default_rng(1)
    capital = capital_of(random.normal(size=(100, LIVES)), random.normal(size=(500, LIVES)))
    assert (capital.max(axis=0) >= 100).sum() <= 1


@pytest.mark.parametrize(
    ("drift", "most"),
    [
        (lambda random, shape: random.normal(1, 1, shape), 120),
        (lambda random, shape: random.normal(0, 0.3, shape), 90),
        (lambda random, shape: random.normal(0, 3, shape), 90),
        (lambda _, shape: np.full(shape, np.inf), 10),
        (lambda _, shape: np.full(shape, 1e9), 10),
    ],
)
def test_drift_after_many_records_is_found(drift: Any, most: int) -> None:
    random = np.random.default_rng(2)
    test = DriftTest.begin([random.normal(size=500) for _ in range(20)], random)
    test.add(random.normal(size=(500, 20)), np.arange(500.0))
    evidence = test.add(drift(random, (most, 20)), 500 + np.arange(float(most)))
    is_drift = evidence.capital >= 3000
    assert is_drift.any(axis=0).all()
    since = evidence.since[is_drift.argmax(axis=0), np.arange(20)]
    assert abs(np.median(since) - 500) <= 5


def test_a_class_that_vanishes_is_found() -> None:
    random = np.random.default_rng(3)
    reference = random.integers(0, 5, (1000, 20)).astype(float)
    values = random.choice([0.0, 1.0, 3.0, 4.0], (300, 20))
    assert np.all(capital_of(reference, values)[-1] >= 3000)


def test_a_record_that_does_not_count_changes_nothing() -> None:
    random = np.random.default_rng(4)
    reference = random.normal(size=(50, 1))
    capital = capital_of(reference, np.array([[5.0], [np.nan], [np.nan]]))
    assert capital[1:] == pytest.approx(np.repeat(capital[:1], 2, axis=0), rel=1e-12)


def test_a_state_goes_on() -> None:
    random = np.random.default_rng(5)
    reference, values = random.normal(size=(50, 2)), random.normal(1, 1, (40, 2))
    undivided = capital_of(reference, values)
    test = DriftTest.begin(list(reference.T), np.random.default_rng(0))
    test.add(values[:15], np.zeros(15))
    again = DriftTest(test.random, **{name: array.copy() for name, array in test.to_arrays().items()})
    assert again.add(values[15:], np.zeros(25)).capital == pytest.approx(undivided[15:])


def test_capital_stays_finite() -> None:
    capital = capital_of(np.random.default_rng(6).normal(size=(1000, 1)), np.full((3000, 1), 1e6))
    assert np.isfinite(capital).all()
    assert capital[-1, 0] > 1e50
