from __future__ import annotations

from pathlib import Path

import pytest

from orun.core.serialization import replace
from orun.errors import StageCrashed, StageFailed, StageTimeout
from orun.executors import LocalExecutor
from orun.stages.contract import Spec
from tests.executors.support import Project, failure, log_of, outcomes, result, until_progress

CODE = """
import os, signal, subprocess, sys, time

def sleep(context):
    context.progress(os.getpid(), 0, "")
    time.sleep(600)

def stubborn(context):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    context.progress(os.getpid(), 0, "")
    time.sleep(600)

def orderly(context):
    def leave(*_):
        print("leaving", flush=True)
        os._exit(0)
    signal.signal(signal.SIGTERM, leave)
    context.progress(0, 0, "")
    time.sleep(600)

def hungry(context):
    kept = []
    while True:
        kept.append(b'x' * (1 << 20))

def hungry_child(context):
    subprocess.run([sys.executable, "-c", "kept = [b'x' * (1 << 20) for _ in iter(int, 1)]"], check=True)

def modest(context):
    kept = b'x' * (20 << 20)

def quick(context):
    pass
"""


@pytest.fixture
def project(project: Project) -> Project:
    project.write("pipelines/mine.py", CODE)
    return project


STOPPED = "{} was stopped\n  the run was interrupted"


@pytest.fixture
def brief(library: Path) -> Spec:
    """Kind whose servers give a stage only a moment between the request to stop and its death."""
    (library / "brief.py").write_text("from orun.executors.local import supervisor\nsupervisor.GRACE = 0.2\n")
    return Spec(output="metrics", preload=("brief",))


def test_a_stage_past_its_time_is_stopped(executor: LocalExecutor, project: Project) -> None:
    job = project.job("mine.py:sleep", timeout=0.25)
    error = failure(executor, job)
    assert isinstance(error, StageTimeout)
    assert str(error) == (
        "sleep ran past its time limit of 250 ms and was stopped\n"
        f"  hint: Give it longer (timeout: in {job.file}), or find in its log what it was doing\n"
        f"  hint: Its log: {job.log}\n"
        f"  hint: Run it alone: orun {job.file} --only sleep"
    )


def test_a_stage_that_will_not_stop_is_killed(own_executor: LocalExecutor, project: Project, brief: Spec) -> None:
    own_executor.start(project.job("mine.py:stubborn", spec=brief))
    until_progress(own_executor)
    own_executor.cancel("stubborn")
    assert str(outcomes(own_executor, 1)["stubborn"]) == STOPPED.format("stubborn")


def test_a_stage_is_asked_before_it_is_killed(executor: LocalExecutor, project: Project) -> None:
    job = project.job("mine.py:orderly")
    executor.start(job)
    until_progress(executor)
    executor.cancel("orderly")
    error = outcomes(executor, 1)["orderly"]
    assert isinstance(error, StageFailed)
    assert str(error) == STOPPED.format("orderly")
    assert log_of(job) == "leaving\n"


def test_a_stage_is_cancelled_before_it_has_started(own_executor: LocalExecutor, project: Project, brief: Spec) -> None:
    own_executor.start(project.job("mine.py:sleep", spec=brief))
    own_executor.cancel("sleep")
    own_executor.cancel("sleep")
    own_executor.cancel("no such stage")
    assert str(outcomes(own_executor, 1)["sleep"]) == STOPPED.format("sleep")


def test_cancelling_one_stage_leaves_the_other(executor: LocalExecutor, project: Project) -> None:
    executor.start(project.job("mine.py:sleep"))
    executor.start(project.job("mine.py:orderly"))
    until_progress(executor, 2)
    executor.cancel("orderly")
    assert list(outcomes(executor, 1)) == ["orderly"]
    result(executor, project.job("mine.py:quick"))
    executor.cancel("sleep")
    assert list(outcomes(executor, 1)) == ["sleep"]


def test_a_stage_that_holds_too_much_memory_is_stopped(executor: LocalExecutor, project: Project) -> None:
    job = project.job("mine.py:hungry", memory=100_000_000)
    error = failure(executor, job)
    assert isinstance(error, StageCrashed)
    assert str(error) == (
        "hungry held more than its memory limit of 100 MB and was stopped\n"
        f"  hint: Give it more (memory: in {job.file}), or less to do at a time\n"
        f"  hint: Its log: {job.log}\n"
        f"  hint: Run it alone: orun {job.file} --only hungry"
    )


def test_the_memory_of_what_a_stage_starts_counts(executor: LocalExecutor, project: Project) -> None:
    error = failure(executor, project.job("mine.py:hungry_child", memory=100_000_000))
    assert error.problem == "hungry_child held more than its memory limit of 100 MB and was stopped"


def test_a_stage_within_its_memory_is_left_alone(executor: LocalExecutor, project: Project) -> None:
    assert result(executor, project.job("mine.py:modest", memory=200_000_000)).peak_memory > 20_000_000


def test_a_job_that_changes_its_server_stays_cancelled(
    own_executor: LocalExecutor, project: Project, library: Path, brief: Spec
) -> None:
    (library / "crashing.py").write_text("import os\nos.abort()\n")
    own_executor.start(project.job("mine.py:sleep", spec=replace(brief, preload=("brief", "crashing"))))
    own_executor.cancel("sleep")
    assert str(outcomes(own_executor, 1)["sleep"]) == STOPPED.format("sleep")
