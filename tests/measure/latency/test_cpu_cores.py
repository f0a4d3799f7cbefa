"""The quietest core, staying on it, and whether something else uses it; pressure while something is measured."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest

from orun.measure.latency import cpu_cores, pressure
from orun.measure.latency.cpu_cores import AWAIT_SECONDS, CoreWatch, pin, quietest_core, read_yardstick
from orun.measure.latency.pressure import PressureGauge

linux = pytest.mark.skipif(sys.platform != "linux", reason="cores are chosen on Linux alone")


@linux
def test_the_quietest_core_is_one_that_we_may_use() -> None:
    assert quietest_core() in os.sched_getaffinity(0)


@linux
def test_the_core_that_was_read_idle_ticks_most_is_the_quietest(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = sorted(os.sched_getaffinity(0))
    readings = iter([dict.fromkeys(cores, 1000), {core: 1000 + place for place, core in enumerate(cores)}])
    monkeypatch.setattr(cpu_cores, "read_idle_ticks", lambda: next(readings))
    assert quietest_core() == cores[-1]


@linux
def test_of_equally_quiet_cores_it_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = os.sched_getaffinity(0)
    monkeypatch.setattr(cpu_cores, "read_idle_ticks", lambda: dict.fromkeys(cores, 1000))
    assert quietest_core() == max(cores)


@linux
def test_read_idle_ticks_ticks_of_every_core_are_read() -> None:
    assert set(cpu_cores.read_idle_ticks()) >= os.sched_getaffinity(0)


def test_a_system_that_cannot_pin_has_no_quietest_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    assert quietest_core() is None


@linux
def test_pinning_keeps_the_calling_thread_alone() -> None:
    before, seen = os.sched_getaffinity(0), set[int]()
    core = max(before)

    def pinned() -> None:
        pin(core)
        seen.update(os.sched_getaffinity(0))

    thread = threading.Thread(target=pinned)
    thread.start()
    thread.join()
    assert seen == {core}
    assert os.sched_getaffinity(0) == before


@pytest.mark.skipif(not Path("/proc/pressure/cpu").exists(), reason="this kernel counts no pressure")
def test_pressure_is_a_share_of_the_time() -> None:
    found = PressureGauge().read()
    assert found.cpu is not None
    assert 0 <= found.cpu <= 1
    assert found.load is not None
    assert found.load >= 0


def test_a_kernel_without_pressure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pressure, "read_stalled", lambda: None)
    assert PressureGauge().read().cpu is None


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
    watch, readings = CoreWatch(), iter([2.3, 1.4, 1.68, 1.69, 2.3])
    alone = [watch.is_alone(watch.read(lambda: next(readings))) for _ in range(5)]
    assert alone == [True, True, True, False, False]
    assert watch.least == 1.4


def test_a_block_waits_until_nothing_else_uses_the_core() -> None:
    watch, readings = CoreWatch(least=1.4), iter([2.3, 2.2, 1.41, 9.0])
    assert watch.await_core(lambda: next(readings)) == 1.41
    assert list(readings) == [9.0]


def test_a_block_does_not_wait_for_ever() -> None:
    watch, readings = CoreWatch(least=1.4), repeat(2.3)
    assert watch.await_core(lambda: next(readings)) == 2.3
    assert watch.waited >= AWAIT_SECONDS
