"""Whether something else uses the core: what a reading is worth, and how long a block waits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from orun.measure.latency.yardstick import AWAIT_SECONDS, CoreWatch, read_yardstick


def test_a_reading_is_the_quotient_of_the_computations_whatever_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first computation takes 14 us and the second 10; one reading in five is interrupted."""
    clock: Iterator[int] = chain.from_iterable(
        (start, start + 14_000 + 90_000 * (number % 5 == 0), start + 200_000, start + 210_000)
        for number, start in enumerate(range(0, 10**9, 10**6))
    )
    monkeypatch.setattr(time, "thread_time_ns", lambda: next(clock))
    assert read_yardstick() == 1.4


def test_a_clock_that_stands_still_is_no_division_by_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "thread_time_ns", lambda: 7)
    assert read_yardstick() == 1.0


def test_a_core_is_shared_if_a_reading_is_a_fifth_above_the_least_so_far() -> None:
    watch = CoreWatch()
    assert [watch.is_alone(reading) for reading in (2.3, 1.4, 1.68, 1.69, 2.3)] == [True, True, True, False, False]
    assert watch.least == 1.4


def test_a_block_waits_until_nothing_else_uses_the_core() -> None:
    watch, readings = CoreWatch(least=1.4), iter([2.3, 2.2, 1.41, 9.0])
    assert watch.await_core(lambda: next(readings)) == 1.41
    assert list(readings) == [9.0]


def test_a_block_does_not_wait_for_ever() -> None:
    watch, readings = CoreWatch(least=1.4), repeat(2.3)
    assert watch.await_core(lambda: next(readings)) == 2.3
    assert watch.waited >= AWAIT_SECONDS
