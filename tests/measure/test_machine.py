"""The quietest core, and staying on it; pressure while something is measured."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from orun.measure import machine, pressure
from orun.measure.machine import apart, pin, quiet_cores, spread
from orun.measure.pressure import PressureGauge

linux = pytest.mark.skipif(sys.platform != "linux", reason="cores are chosen on Linux alone")


@linux
def test_the_quiet_cores_are_those_that_we_may_use() -> None:
    assert set(quiet_cores()) == os.sched_getaffinity(0)


@linux
def test_the_core_that_was_idle_most_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = sorted(os.sched_getaffinity(0))
    readings = iter([dict.fromkeys(cores, 1000), {core: 1000 + place for place, core in enumerate(cores)}])
    monkeypatch.setattr(machine, "_idle", lambda: next(readings))
    assert quiet_cores() == cores[::-1]


@linux
def test_idle_ticks_of_every_core_are_read() -> None:
    assert set(machine._idle()) >= os.sched_getaffinity(0)


def test_a_system_that_cannot_pin_has_no_quiet_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    assert quiet_cores() == []


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


@linux
def test_each_thread_has_a_core_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[int, set[int]] = {}
    monkeypatch.setattr(os, "sched_setaffinity", kept.__setitem__)
    spread([11, 12], [3, 0, 5])
    assert kept == {11: {3}, 12: {0}}
    kept.clear()
    spread([11, 12, 13], [3, 0])
    assert kept == {}


@linux
def test_a_thread_that_has_ended_is_left_out() -> None:
    ended = threading.Thread(target=int)
    ended.start()
    ended.join()
    assert ended.native_id is not None
    spread([ended.native_id], quiet_cores())


def test_hardware_threads_of_one_core_are_used_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for core, siblings in {0: "0,4", 1: "1,5", 4: "0,4", 5: "1,5"}.items():
        (tmp_path / f"cpu{core}/topology").mkdir(parents=True)
        (tmp_path / f"cpu{core}/topology/thread_siblings_list").write_text(f"{siblings}\n", encoding="ascii")
    monkeypatch.setattr(machine, "TOPOLOGY", tmp_path)
    assert apart([4, 0, 5, 1]) == [4, 5, 0, 1]
    assert apart([7, 6]) == [7, 6]  # of which the system tells nothing


@pytest.mark.skipif(not Path("/proc/pressure/cpu").exists(), reason="this kernel counts no pressure")
def test_pressure_is_a_share_of_the_time() -> None:
    found = PressureGauge().read()
    assert found.cpu is not None
    assert 0 <= found.cpu <= 1
    assert found.load is not None
    assert found.load >= 0


def test_a_kernel_without_pressure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pressure, "_stalled", lambda: None)
    assert PressureGauge().read().cpu is None
