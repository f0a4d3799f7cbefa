"""The quietest core, and staying on it; pressure while something is measured."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from orun.measure.latency import cpu_cores, pressure
from orun.measure.latency.cpu_cores import pin, quietest_core
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
