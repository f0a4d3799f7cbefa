"""The processes of a launch: in which order they start, which are kept on a core, and which rest meanwhile."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import ClassVar, Self

import pytest

from orun.measure.benchmark_case import Subject
from orun.measure.latency import abba_blocks
from orun.measure.latency.abba_blocks import Pace, launch
from orun.measure.latency.cpu_time import Times
from orun.measure.workers import Worker
from tests.measure.support import save_model, shared, subject

PACE = Pace(warmup=0.0, samples=6, alone=1.0, quads=0.0)


class Started(Exception):
    """Both processes were."""


class Noted:
    """In the place of a process: notes when it starts."""

    order: ClassVar[list[str]] = []

    def __init__(self, one: Subject) -> None:
        self.order.append(one.model.stem)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def open(self, warmup: float, _longest: float) -> None:
        if len(self.order) == 2:
            raise Started(warmup)


def test_processes_start_in_random_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abba_blocks, "quietest_core", lambda: None)
    monkeypatch.setattr(abba_blocks, "Worker", Noted)
    subjects = {name: subject(Path(f"{name}.onnx")) for name in ("model", "baseline")}
    found: Counter[tuple[str, ...]] = Counter()
    for seed in range(40):
        monkeypatch.setattr(Noted, "order", [])
        with pytest.raises(Started):
            launch(subjects, PACE, Random(seed))
        found[tuple(Noted.order)] += 1
    assert set(found) == {("model", "baseline"), ("baseline", "model")}
    assert min(found.values()) >= 10


def test_on_one_thread_each_is_kept_on_the_quietest_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = max(os.sched_getaffinity(0))
    kept: dict[int, set[int]] = {}
    pin = Worker.pin

    def noted(worker: Worker, chosen: int) -> None:
        pin(worker, chosen)
        kept[worker.pid] = os.sched_getaffinity(worker.pid)

    monkeypatch.setattr(abba_blocks, "quietest_core", lambda: core)
    monkeypatch.setattr(Worker, "pin", noted)
    subjects = {name: subject(save_model(tmp_path / f"{name}.onnx")) for name in ("model", "baseline")}
    assert launch(subjects, PACE, Random(0), "thread").core == core
    assert list(kept.values()) == [{core}, {core}]
    kept.clear()
    assert launch(subjects, PACE, Random(0), "wall").core is None
    assert kept == {}


@pytest.mark.skipif(sys.platform != "linux", reason="states of processes are read from /proc")
def test_of_several_threads_what_is_not_timed_rests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that look for work would take a core from the other model; of one thread there are none."""
    path = save_model(tmp_path / "model.onnx")
    resting, pids = list[bool](), set[int]()
    timed = Worker.time

    def noted(worker: Worker, count: int, seconds: float = float("inf")) -> Times:
        pids.add(worker.pid)
        resting.extend(_rests(pid, patient) for pid in pids - {worker.pid})
        return timed(worker, count, seconds)

    monkeypatch.setattr(Worker, "time", noted)
    patient = True
    found = launch(dict.fromkeys(("model", "baseline"), shared(path)), PACE, Random(0))
    assert (found.method, found.core) == ("threads", None)
    assert set(resting) == {True}
    resting.clear()
    pids.clear()
    patient = False
    launch(dict.fromkeys(("model", "baseline"), subject(path)), PACE, Random(0))
    assert set(resting) == {False}


def _rests(pid: int, patient: bool) -> bool:
    """Whether the kernel has stopped a process; the signal takes a moment to arrive."""
    end = time.monotonic() + 30.0 * patient
    while not (stopped := _state(pid) == "T") and time.monotonic() < end:
        time.sleep(0.001)
    return stopped


def _state(pid: int) -> str:
    """The letter for what a process does: T where it is stopped."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
