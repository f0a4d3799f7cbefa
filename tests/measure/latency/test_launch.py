"""Real launches of a tiny model: what is measured, by which method, and when ABBA blocks end. No time is asserted."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from orun.core.targets import Target
from orun.environment.processor import count_usable_cores
from orun.measure.benchmark_case import SessionInfo
from orun.measure.latency import abba_blocks
from orun.measure.latency.abba_blocks import FEWEST_ABBA_BLOCKS, STEADY_ABBA_BLOCKS
from orun.measure.latency.cpu_time import Times
from orun.measure.latency.launch import Pace, run_launch
from orun.measure.workers import WorkerProcess
from tests.measure.support import case_of, case_on_two_threads, save_model

pytestmark = pytest.mark.usefixtures("short_blocks")

PACE = Pace(warmup=0.0, samples=6, alone=1.0, abba_seconds=0.0)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return save_model(tmp_path / "model.onnx")


def test_a_launch_compares_with_each_other_model(model: Path) -> None:
    slower = save_model(model.with_name("slower.onnx"), layers=8)
    cases = {"model": case_of(slower), "reference": case_of(model), "baseline": case_of(model)}
    launch = run_launch(cases, PACE, Random(1), WorkerProcess)
    assert launch.method == "thread"
    assert launch.watched
    assert set(launch.sessions) == set(launch.interleaved) == set(launch.inference_seconds) == set(cases)
    assert set(launch.log_ratios) == set(launch.pairs) == {"reference", "baseline"}
    for name, values in launch.pairs.items():
        assert len(values) == 2 * FEWEST_ABBA_BLOCKS
        assert launch.log_ratios[name] == np.median(values)
    assert launch.alone.wall.shape == (6,)
    assert launch.waiting is None or launch.waiting >= 0


def test_no_core_is_watched_where_the_model_computes_on_an_accelerator(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calling thread submits and waits."""
    opened = WorkerProcess.open

    def open_session(worker: WorkerProcess, warmup: float, longest: float = 0.0) -> SessionInfo:
        return replace(opened(worker, warmup, longest), processor=False)

    monkeypatch.setattr(WorkerProcess, "open", open_session)
    launch = run_launch(dict.fromkeys(("model", "reference"), case_of(model)), PACE, Random(1), WorkerProcess)
    assert launch.method == "thread"
    assert not launch.watched


@pytest.mark.parametrize("waits", [0.0, 0.5])
def test_a_launch_with_too_few_pairs_that_count_is_disturbed(
    model: Path, monkeypatch: pytest.MonkeyPatch, waits: float
) -> None:
    """Its figures are then of all pairs. Threads share cores, as the method says that is given."""
    measured = WorkerProcess.time

    def time(worker: WorkerProcess, count: int, seconds: float = math.inf) -> Times:
        times = measured(worker, count, seconds)
        return replace(times, waited=waits * float(times.wall.sum()))

    monkeypatch.setattr(WorkerProcess, "time", time)
    launch = run_launch(dict.fromkeys(("model", "baseline"), case_of(model)), PACE, Random(1), WorkerProcess, "threads")
    assert launch.method == "threads"
    assert launch.disturbed == (waits > 0)
    assert launch.waiting == pytest.approx(waits)
    assert len(launch.pairs["baseline"]) == 2 * FEWEST_ABBA_BLOCKS
    assert launch.log_ratios["baseline"] == np.median(launch.pairs["baseline"])


def test_timing_ends_when_the_time_is_up_however_well_the_median_is_known(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abba_blocks, "PATIENCE", 0.0)
    pace = replace(PACE, abba_seconds=1e6, error=0.0)
    launch = run_launch({"model": case_of(model), "baseline": case_of(model)}, pace, Random(1), WorkerProcess)
    assert len(launch.pairs["baseline"]) == 2 * FEWEST_ABBA_BLOCKS


def test_timing_ends_when_the_median_is_known_well_enough(model: Path) -> None:
    pace = replace(PACE, abba_seconds=1e6, error=100.0)
    launch = run_launch({"model": case_of(model), "baseline": case_of(model)}, pace, Random(1), WorkerProcess)
    assert len(launch.pairs["baseline"]) == 2 * STEADY_ABBA_BLOCKS


def test_a_model_alone(model: Path) -> None:
    launch = run_launch({"model": case_of(model)}, PACE, Random(1), WorkerProcess)
    assert launch.log_ratios == {}
    assert launch.pairs == {}
    assert launch.inference_seconds["model"] > 0


def test_more_threads_than_cores_are_timed_by_wall_time(model: Path) -> None:
    """They keep one another waiting, which is the model's own time."""
    many = Target("cpu", session={"intra_op_num_threads": count_usable_cores() + 2})
    launch = run_launch({"model": replace(case_on_two_threads(model), target=many)}, PACE, Random(1), WorkerProcess)
    assert launch.sessions["model"].work.busy > count_usable_cores()
    assert launch.method == "wall"
