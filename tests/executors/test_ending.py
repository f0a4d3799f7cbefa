"""What a stage has begun and not ended when its function returns: nothing of which the half is written is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.executors import JobResult, LocalExecutor
from orun.stages.contract import Spec
from tests.executors.support import Project, failure, outcomes, result, until_progress

CODE = """
import gc, logging, multiprocessing, os, subprocess, threading, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

KEPT = []


def later(path):
    with open(path, "w") as file:
        file.write("half, ")
        file.flush()
        time.sleep(0.2)
        file.write("whole")


def held(path):
    path.write_text("whole")
    while not path.with_name("done").exists():
        time.sleep(0.01)


class Around:
    def __init__(self, file):
        self.file, self.self = file, self


def log(path):
    handler = logging.FileHandler(path)
    logging.getLogger("mine").addHandler(handler)
    logging.getLogger("mine").warning("half, whole")


def f(context):
    path = context.output / "text"
    BEGIN
"""
ENDED = {
    "a thread": "threading.Thread(target=later, args=(path,)).start()",
    "a pool of threads": "ThreadPoolExecutor().submit(later, path)",
    "a pool of processes": "ProcessPoolExecutor(1, multiprocessing.get_context('fork')).submit(later, path)",
    "a process": "multiprocessing.get_context('fork').Process(target=later, args=(path,)).start()",
    "a file that is nobody's": "gc.disable(); Around(open(path, 'w')).file.write('half, whole')",
    "a log": "log(path)",
    "a file that is read": "path.write_text('half, whole'); KEPT.append(open(path))",
}
LEFT = {
    "a file": ("KEPT.append(open(path, 'w')); KEPT[0].write('whole')", "what is still in its buffer is not stored"),
    "a program": (
        "subprocess.Popen(['sleep', '60'], stdout=path.open('wb'))",
        "a process that it started writes to it",
    ),
}
FILES = Spec(output="files")


@pytest.mark.parametrize("begin", ENDED.values(), ids=ENDED)
def test_what_ends_with_a_program_is_waited_for(executor: LocalExecutor, project: Project, begin: str) -> None:
    project.write("pipelines/mine.py", CODE.replace("BEGIN", begin))
    job = project.job("mine.py:f", spec=FILES)
    result(executor, job)
    assert (Path(job.output) / "text").read_text().split() == ["half,", "whole"]


@pytest.mark.parametrize(
    ("begin", "left"),
    [
        ("threading.Thread(target=held, name='server', args=(path,)).start()", "server"),
        ("multiprocessing.get_context('fork').Process(target=held, name='job', args=(path,)).start()", "job"),
    ],
    ids=["a thread", "a process"],
)
def test_what_is_waited_for_is_told(executor: LocalExecutor, project: Project, begin: str, left: str) -> None:
    project.write("pipelines/mine.py", CODE.replace("BEGIN", begin))
    job = project.job("mine.py:f", spec=FILES)
    executor.start(job)
    assert [one.what for one in until_progress(executor)] == [f"it has returned, and left {left} running"]
    Path(job.output, "done").touch()
    assert isinstance(outcomes(executor, 1)[job.stage], JobResult)


@pytest.mark.parametrize(("begin", "why"), LEFT.values(), ids=LEFT)
def test_what_is_left_open_is_refused(executor: LocalExecutor, project: Project, begin: str, why: str) -> None:
    project.write("pipelines/mine.py", CODE.replace("BEGIN", begin))
    error = failure(executor, project.job("mine.py:f", spec=FILES))
    assert (error.what, error.why) == ("f left text open", why)
    assert error.hint.startswith("Close what is written to before the function returns")
