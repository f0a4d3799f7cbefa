"""The processes of a launch: in which order they start, and which are kept on a core."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import ClassVar, Self

import pytest

from orun.measure import quads
from orun.measure.quads import Pace, launch
from orun.measure.workers import Subject, Worker
from tests.measure.support import save_model, subject

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
    monkeypatch.setattr(quads, "quietest_core", lambda: None)
    monkeypatch.setattr(quads, "Worker", Noted)
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

    monkeypatch.setattr(quads, "quietest_core", lambda: core)
    monkeypatch.setattr(Worker, "pin", noted)
    subjects = {name: subject(save_model(tmp_path / f"{name}.onnx")) for name in ("model", "baseline")}
    assert launch(subjects, PACE, Random(0), "thread").core == core
    assert list(kept.values()) == [{core}, {core}]
    kept.clear()
    assert launch(subjects, PACE, Random(0), "wall").core is None
    assert kept == {}
