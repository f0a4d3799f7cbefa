"""Which processes of a launch are kept on a core."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from orun.measure import quads
from orun.measure.quads import Pace, launch
from orun.measure.workers import Worker
from tests.measure.support import save_model, subject

PACE = Pace(warmup=0.0, samples=6, alone=1.0, quads=0.0)


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
