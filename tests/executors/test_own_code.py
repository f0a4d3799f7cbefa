"""Code of the user's: each stage runs what is on the disk, and says what Python says of it."""

from __future__ import annotations

import os

from orun.executors import LocalExecutor
from tests.executors.support import Project, failure, forked, log_of, result

pytestmark = forked


def test_an_edit_between_two_stages_is_run(executor: LocalExecutor, project: Project) -> None:
    for number in (1, 2, 2, 3):
        mine = project.write(
            "pipelines/mine.py", f"import helper\ndef value(context): return {{'x': helper.x() + {number}}}\n"
        )
        helper = project.write("pipelines/helper.py", f"def x(): return {number}\n")
        for path in (mine, helper):
            os.utime(path, (1_700_000_000, 1_700_000_000))  # and the same size: cached byte code would be stale
        assert result(executor, project.job("mine.py:value")).metrics["x"].value == 2 * number
    assert list(project.folder.rglob("__pycache__")) == []


def test_a_warning_of_the_compiler_is_in_the_log_of_every_stage(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", "def quick(context):\n    return {'x': 1 if (1 is 1) else 0}\n")
    logs = []
    for _ in range(3):
        job = project.job("mine.py:quick")
        result(executor, job)
        logs.append(log_of(job))
    assert logs[0].count('SyntaxWarning: "is" with ') == 1
    assert logs == [logs[0]] * 3


def test_a_file_that_is_not_python_any_more_fails_its_stage(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", "def quick(context): pass\n")
    result(executor, project.job("mine.py:quick"))
    project.write("pipelines/mine.py", "def quick(context) pass\n")
    error = failure(executor, project.job("mine.py:quick"))
    assert error.problem == "quick raised SyntaxError: expected ':'"
