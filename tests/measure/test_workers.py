"""Workers: a session in a process of its own, whose errors and whose death are said."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from orun.core.targets import Provider, Target
from orun.errors import OrunError, UsageError
from orun.measure import workers
from orun.measure.benchmark_case import BenchmarkCase
from orun.measure.workers import WorkerProcess
from tests.measure.support import ONE_THREAD, case_of, save_model


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # profiles are written into the working folder
    return save_model(tmp_path / "model.onnx")


def test_a_session_is_opened_warmed_up_and_timed(model: Path) -> None:
    with WorkerProcess(case_of(model)) as worker:
        began = time.monotonic()
        opened = worker.open(0.2)  # of one inference alone, an interruption would look like another thread
        assert time.monotonic() - began >= 0.2
        times = worker.time(5)
    assert opened.load > 0
    assert opened.first > 0
    assert opened.each > 0
    assert opened.processor
    assert opened.work.alone
    assert times.wall.shape == (5,)


def test_nodes_are_profiled_after_the_warm_up(model: Path) -> None:
    with WorkerProcess(case_of(model)) as worker:
        worker.open(0.0)
        worker.profile(0.0)
        worker.time(3)
        nodes = worker.end_profile().times
    assert nodes.shape == (3, 2)
    assert (nodes >= 0).all()
    assert sorted(path.name for path in model.parent.iterdir()) == ["model.onnx"]


def test_what_runs_until_threads_have_parted_does_not_count(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wake together often find themselves on one core."""
    monkeypatch.setattr(workers, "RESUMED_SECONDS", 0.1)
    with WorkerProcess(case_of(model)) as worker:
        worker.open(0.0)
        worker.profile(0.0)
        worker.time(2)
        worker.rest()
        began = time.monotonic()
        assert worker.time(3).wall.shape == (3,)
        assert time.monotonic() - began >= 0.1
        profile = worker.end_profile()
    assert (profile.times.shape, profile.totals.shape) == ((5, 2), (5,))


def test_a_worker_that_rests_answers_and_ends(model: Path) -> None:
    with WorkerProcess(case_of(model)) as worker:
        worker.open(0.0)
        worker.rest()
        assert worker.time(3).wall.shape == (3,)
        worker.collapse()
    assert not worker.alive


def test_each_worker_ends_with_its_block(model: Path) -> None:
    first, second = WorkerProcess(case_of(model)), WorkerProcess(case_of(model))
    with first:
        first.open(0.0)
        with second:
            second.open(0.0)
            assert (first.alive, second.alive) == (True, True)
        assert (first.alive, second.alive) == (True, False)
    assert not first.alive


def test_inputs_that_do_not_fit(model: Path) -> None:
    wrong = BenchmarkCase(model, ONE_THREAD, {"x": np.ones((4, 7), dtype=np.float32)})
    with WorkerProcess(wrong) as worker, pytest.raises(UsageError) as caught:
        worker.open(0.0)
    assert caught.value.problem == "ONNX Runtime cannot run model.onnx on x [4, 7] float32"
    assert "Got invalid dimensions for input: x" in caught.value.why
    assert caught.value.hint == "set `shape`, or give `inputs` that fit"


def test_a_target_that_cannot_be(model: Path) -> None:
    target = Target("npu", (Provider("NonsenseExecutionProvider"),))
    with WorkerProcess(case_of(model, target)) as worker, pytest.raises(UsageError) as caught:
        worker.open(0.0)
    assert caught.value.problem == "target 'npu': NonsenseExecutionProvider is not in this build of ONNX Runtime"
    assert caught.value.hint == ("install the build of ONNX Runtime that has it, then look again: orun doctor")


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux lets us wait for the end of any process")
def test_a_worker_does_not_outlive_its_parent(model: Path) -> None:
    script = f"""
import sys
from pathlib import Path
from orun.measure.workers import WorkerProcess
from tests.measure.support import case_of

first, second = WorkerProcess(case_of(Path({str(model)!r}))), WorkerProcess(case_of(Path({str(model)!r})))
first.open(0.0)
second.open(0.0)
print(first.pid, second.pid, flush=True)
sys.stdin.read()
"""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [os.pidfd_open(int(pid)) for pid in parent.stdout.readline().split()]
        parent.kill()
    for worker in workers:
        ended, _, _ = select.select([worker], [], [], 60)
        os.close(worker)
        assert ended


def test_a_worker_that_dies_is_named(model: Path) -> None:
    with WorkerProcess(case_of(model)) as worker:
        worker.open(0.0)
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(OrunError) as caught:
            worker.time(1)
    assert str(caught.value) == "the process that runs model.onnx died\n  exit status -9 in request 'time'"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers are spawned")
def test_a_process_with_threads_is_not_forked() -> None:
    """A lock that another thread holds at that moment would be held for ever in the worker."""
    code = """
import threading
from orun.measure.workers import choose_context
print(choose_context().get_start_method())
threading.Thread(target=threading.Event().wait, daemon=True).start()
print(choose_context().get_start_method())
"""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # it starts its threads when it is imported
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert process.stdout == "fork\nforkserver\n"


def test_away_from_linux_a_process_is_spawned(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "sys", SimpleNamespace(platform="darwin"))
    assert workers.choose_context().get_start_method() == "spawn"
    with WorkerProcess(case_of(model)) as worker:
        assert worker.open(0.0).processor
        assert worker.time(2).cpu.shape == (2,)
