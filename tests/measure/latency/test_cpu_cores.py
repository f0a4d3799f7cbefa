"""The quietest core, staying on it, and whether something else uses it; pressure while something is measured."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import numpy as np
import pytest

from orun.measure.latency import cpu_cores, pressure
from orun.measure.latency.cpu_cores import (
    AWAIT_SECONDS,
    REMEMBERED,
    CoreWatch,
    find_quietest_core,
    pin,
    read_yardstick,
    recall_reading,
    remember_reading,
)
from orun.measure.latency.pressure import PressureGauge
from tests.store.support import NOBODY, needs_root

pytestmark = pytest.mark.usefixtures("short_blocks")
linux = pytest.mark.skipif(sys.platform != "linux", reason="cores are chosen on Linux alone")


@linux
def test_the_core_that_was_read_idle_ticks_most_is_the_quietest(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = sorted(os.sched_getaffinity(0))
    readings = iter([dict.fromkeys(cores, 1000), {core: 1000 + place for place, core in enumerate(cores)}])
    monkeypatch.setattr(cpu_cores, "read_idle_ticks", lambda: next(readings))
    assert find_quietest_core() == cores[-1]


@linux
def test_of_equally_quiet_cores_it_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = os.sched_getaffinity(0)
    monkeypatch.setattr(cpu_cores, "read_idle_ticks", lambda: dict.fromkeys(cores, 1000))
    assert find_quietest_core() == max(cores)


@linux
def test_idle_ticks_of_every_core_are_read() -> None:
    assert set(cpu_cores.read_idle_ticks()) >= os.sched_getaffinity(0)


def test_a_system_that_cannot_pin_has_no_quietest_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    assert find_quietest_core() is None


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
    pressure = PressureGauge().read()
    assert pressure.cpu is not None
    assert 0 <= pressure.cpu <= 1
    assert pressure.load is not None
    assert pressure.load >= 0


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


def test_a_reading_that_is_misread_is_not_taken_for_that_of_a_core_alone() -> None:
    watch, readings = CoreWatch(), iter([*[1.5] * 30, 1.2, *[1.5] * 30])
    for _ in range(61):
        watch.read(lambda: next(readings))
    assert watch.least == 1.5


def test_a_block_waits_until_nothing_else_uses_the_core() -> None:
    watch, readings = CoreWatch(1.4), iter([2.3, 2.2, 1.41, 9.0])
    assert watch.await_core(lambda: next(readings)) == 1.41
    assert list(readings) == [9.0]


def test_a_block_does_not_wait_for_ever() -> None:
    watch, readings = CoreWatch(1.4), repeat(2.3)
    assert watch.await_core(lambda: next(readings)) == 2.3
    assert watch.waited >= AWAIT_SECONDS


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this machine, and no measurement yet."""
    monkeypatch.setenv("ORUN_LOCKS", str(tmp_path))
    return tmp_path


def test_earlier_measurements_tell_what_a_core_alone_reads(machine: Path) -> None:
    assert recall_reading() == math.inf
    for reading in (2.3, 1.4, 2.2, 1.5, 1.3, 2.1):
        remember_reading(reading)
    assert recall_reading() == 1.4  # a fifth of them read less
    assert [path.stat().st_mode & 0o777 for path in machine.iterdir()] == [0o600]


def test_the_last_measurements_count(machine: Path) -> None:
    del machine
    for reading in (0.5, *[1.4] * REMEMBERED):
        remember_reading(reading)
    assert recall_reading() == 1.4


def test_readings_of_another_processor_or_library_do_not_count(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del machine
    remember_reading(1.4)
    with monkeypatch.context() as patch:
        patch.setattr(np, "__version__", "9.9")
        assert recall_reading() == math.inf
        remember_reading(1.1)
        assert recall_reading() == 1.1
    assert recall_reading() == 1.4


@pytest.mark.parametrize("text", ["", "{", "[1.4]", '{"a": 1.4}', '{"a": ["b"]}'])
def test_a_file_of_readings_that_is_none_is_replaced(machine: Path, text: str) -> None:
    file = machine / f"orun-machine-cores-{os.getuid()}.json"
    file.write_text(text)
    assert recall_reading() == math.inf
    remember_reading(1.4)
    assert recall_reading() == 1.4


@needs_root
def test_readings_of_another_user_do_not_count(machine: Path) -> None:
    remember_reading(1.4)
    (file,) = machine.iterdir()
    os.chown(file, NOBODY, NOBODY)
    assert recall_reading() == math.inf
    remember_reading(1.3)
    assert "1.3" not in file.read_text()


def test_without_a_folder_nothing_is_remembered(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORUN_LOCKS", str(machine / "nowhere"))
    remember_reading(1.4)
    assert recall_reading() == math.inf
