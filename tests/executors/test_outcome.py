"""End of a stage that said that it was done, as its supervisor saw it."""

from __future__ import annotations

import signal

import pytest

from orun.core.serialization import replace
from orun.errors import StageCrashed, StageError, StageFailed, StageTimeout
from orun.executors import JobResult
from orun.executors.local.messages import Ended, Stop
from orun.executors.outcome import build_outcome
from tests.executors.support import Project

WELL = Ended(status=0, seconds=2.0, cpu_seconds=1.0, peak_memory=100)


def test_one_that_ended_well(project: Project) -> None:
    result = build_outcome(project.job("mine.py:f"), JobResult(), {}, WELL)
    assert result == JobResult(seconds=2.0, cpu_seconds=1.0, peak_memory=100)


@pytest.mark.parametrize(
    ("status", "stopped", "error", "problem"),
    [
        (signal.SIGSEGV, "", StageCrashed, "f crashed: SIGSEGV (Segmentation fault)"),
        (3 << 8, "", StageFailed, "f ended its process with exit status 3 before its function returned"),
        (0, "timeout", StageTimeout, "f ran past its time limit of 1 s and was stopped"),
        (0, "cancelled", StageFailed, "f was stopped"),
        (0, "memory", StageCrashed, "f held more than its memory limit of 1 kB and was stopped"),
    ],
)
def test_one_whose_process_came_to_another_end(
    project: Project, status: int, stopped: Stop, error: type[StageError], problem: str
) -> None:
    """What it left is of a process that was not in order, or that was about to be ended."""
    job = project.job("mine.py:f", timeout=1.0, memory=1000)
    result = build_outcome(job, JobResult(), {}, replace(WELL, status=status, stopped=stopped))
    assert isinstance(result, error)
    assert result.problem == problem
