"""Processes of a launch: the order in which they start, pinning to a core, and rest."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Self

import pytest

from orun.measure.benchmark_case import BenchmarkCase
from orun.measure.latency import launch as module
from orun.measure.latency.cpu_time import Times
from orun.measure.latency.launch import Pace, run_launch
from orun.measure.workers import WorkerProcess
from tests.measure.support import case_of, case_on_two_threads, save_model

pytestmark = pytest.mark.usefixtures("short_blocks")

PACE = Pace(warmup=0.0, samples=6, alone=1.0, abba_seconds=0.0)


class Started(Exception):
    """Raised once both processes have started."""


class Noted(WorkerProcess):
    """A worker without a process that notes when it starts."""

    order: ClassVar[list[str]] = []

    def __init__(self, case: BenchmarkCase) -> None:
        self.order.append(case.model.stem)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def open(self, warmup: float, longest: float = 0.0) -> Any:
        if len(self.order) == 2:
            raise Started(warmup, longest)
        return None


def test_processes_start_in_random_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_quietest_core", lambda: None)
    cases = {name: case_of(Path(f"{name}.onnx")) for name in ("model", "baseline")}
    orders: Counter[tuple[str, ...]] = Counter()
    for seed in range(40):
        monkeypatch.setattr(Noted, "order", [])
        with pytest.raises(Started):
            run_launch(cases, PACE, Random(seed), Noted)
        orders[tuple(Noted.order)] += 1
    assert set(orders) == {("model", "baseline"), ("baseline", "model")}
    assert min(orders.values()) >= 10


def test_on_one_thread_each_is_kept_on_the_quietest_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = max(os.sched_getaffinity(0))
    kept: dict[int, set[int]] = {}
    pin = WorkerProcess.pin

    def noted(worker: WorkerProcess, chosen: int) -> None:
        pin(worker, chosen)
        kept[worker.pid] = os.sched_getaffinity(worker.pid)

    monkeypatch.setattr(module, "find_quietest_core", lambda: core)
    monkeypatch.setattr(WorkerProcess, "pin", noted)
    cases = {name: case_of(save_model(tmp_path / f"{name}.onnx")) for name in ("model", "baseline")}
    assert run_launch(cases, PACE, Random(0), WorkerProcess, "thread").core == core
    assert list(kept.values()) == [{core}, {core}]
    kept.clear()
    assert run_launch(cases, PACE, Random(0), WorkerProcess, "wall").core is None
    assert kept == {}


@pytest.mark.skipif(sys.platform != "linux", reason="states of processes are read from /proc")
def test_on_several_threads_a_model_rests_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that spin would take a core from the other model; a model on one thread has none."""
    path = save_model(tmp_path / "model.onnx")
    resting, pids = list[bool](), set[int]()
    timed = WorkerProcess.time

    def noted(worker: WorkerProcess, count: int, seconds: float = float("inf")) -> Times:
        pids.add(worker.pid)
        resting.extend(_rests(pid, patient) for pid in pids - {worker.pid})
        return timed(worker, count, seconds)

    monkeypatch.setattr(WorkerProcess, "time", noted)
    patient = True
    launch = run_launch(dict.fromkeys(("model", "baseline"), case_on_two_threads(path)), PACE, Random(0), WorkerProcess)
    assert (launch.method, launch.core) == ("threads", None)
    assert set(resting) == {True}
    resting.clear()
    pids.clear()
    patient = False
    run_launch(dict.fromkeys(("model", "baseline"), case_of(path)), PACE, Random(0), WorkerProcess)
    assert set(resting) == {False}


def _rests(pid: int, patient: bool) -> bool:
    """Return whether the kernel has stopped a process; the signal takes a moment to arrive."""
    end = time.monotonic() + 30.0 * patient
    while not (stopped := _state(pid) == "T") and time.monotonic() < end:
        time.sleep(0.001)
    return stopped


def _state(pid: int) -> str:
    """Return the letter of a process's state: T for stopped."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
