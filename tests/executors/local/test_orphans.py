"""Whoever dies, nothing that a stage has started lives on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orun.core.serialization import encode
from orun.errors import StageCrashed
from orun.executors import JobResult, LocalExecutor
from orun.executors.local import executor as local
from orun.stages.contract import Spec
from tests.executors.support import PATIENCE, Project, outcomes, result, until_progress
from tests.thin import mostly_slow

CODE = """
import os, subprocess, time

# Each process holds the pipe open for writing: its reader sees the end of file when the last of them is gone.
def family(context, *, pipe, ready=True):
    held = os.open(pipe, os.O_WRONLY)
    os.set_inheritable(held, True)
    subprocess.Popen(["sleep", "120"], close_fds=False)
    subprocess.Popen(["sleep", "120"], close_fds=False, start_new_session=True)
    if os.fork() == 0:  # a daemon: its parent ends, and it has a session of its own
        os.setsid()
        if os.fork() == 0:
            time.sleep(120)
        os._exit(0)
    context.progress(os.getpid(), os.getppid(), "")
    if ready:
        time.sleep(120)

def runaway(context, *, pipe, ready=False):
    held = os.open(pipe, os.O_WRONLY)
    last = time.monotonic() + 30  # whatever becomes of the test, they end by themselves
    for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            while time.monotonic() < last and os.fork() == 0:  # each is the child of one that ends
                pass
            os._exit(0)
    if ready:
        context.progress(os.getpid(), os.getppid(), "")
        time.sleep(120)

def leaves_a_daemon(context, *, pipe):
    held = os.open(pipe, os.O_WRONLY)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(120)
        os._exit(0)

def quick(context):
    pass

def leaves(context, *, pipe):
    held = os.open(pipe, os.O_WRONLY)
    if os.fork() == 0:
        time.sleep(120)

def waits(context, *, sign):
    context.progress(1, 2, "")
    while not os.path.exists(sign):
        time.sleep(0.01)
"""

RUNNER = """
import json, sys
from orun.core.serialization import decode
from orun.executors import Finished, Job, LocalExecutor
with LocalExecutor() as executor:
    executor.start(decode(Job, json.load(sys.stdin)))
    while not any(isinstance(event, Finished) for event in (events := executor.wait())):
        for event in events:
            print(event.done, event.total, flush=True)
"""


class Pipe:
    """A named pipe that tells when every process that holds its other end is gone."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        os.mkfifo(path)
        self.path = str(path)
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def wait_until_nobody_holds_it(self) -> None:
        os.set_blocking(self._end, True)
        signal.alarm(int(PATIENCE))  # the default action ends the test run: better than hanging
        assert os.read(self._end, 1) == b""
        signal.alarm(0)


@pytest.fixture
def pipe(project: Project) -> Pipe:
    project.write("pipelines/mine.py", CODE)
    return Pipe(project.work / "pipe")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_runner_dies(project: Project, pipe: Pipe, number: signal.Signals) -> None:
    job = project.job("mine.py:family", params={"pipe": pipe.path})
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as runner:
        assert runner.stdin
        assert runner.stdout
        runner.stdin.write(json.dumps(encode(job)).encode())
        runner.stdin.close()
        runner.stdout.readline()
        runner.send_signal(number)
    pipe.wait_until_nobody_holds_it()


def test_a_stage_ends_and_leaves_processes_behind(executor: LocalExecutor, project: Project, pipe: Pipe) -> None:
    result(executor, project.job("mine.py:family", params={"pipe": pipe.path, "ready": False}))
    pipe.wait_until_nobody_holds_it()
    result(executor, project.job("mine.py:quick"))


def test_what_a_stage_leaves_behind_cannot_run_away(executor: LocalExecutor, project: Project, pipe: Pipe) -> None:
    """A process may fork between the moment in which it is seen and that in which it is killed."""
    result(executor, project.job("mine.py:runaway", params={"pipe": pipe.path}))
    pipe.wait_until_nobody_holds_it()


@pytest.mark.parametrize("function", ["family", "runaway"])
def test_servers_that_do_not_end_in_time(
    project: Project, pipe: Pipe, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """As on a machine that has far too much to do: they are killed, and what they would have ended had run on."""
    monkeypatch.setattr(local, "CLOSE_PATIENCE", 0.1)
    with LocalExecutor() as executor:
        executor.start(project.job(f"mine.py:{function}", params={"pipe": pipe.path, "ready": True}))
        server = until_progress(executor)[0].total
        os.killpg(os.getpgid(server), signal.SIGSTOP)
    pipe.wait_until_nobody_holds_it()


def test_a_stage_is_killed(executor: LocalExecutor, project: Project, pipe: Pipe) -> None:
    executor.start(project.job("mine.py:family", params={"pipe": pipe.path}))
    os.kill(until_progress(executor)[0].done, signal.SIGKILL)
    assert isinstance(outcomes(executor, 1)["family"], StageCrashed)
    pipe.wait_until_nobody_holds_it()


def test_a_stage_is_cancelled(executor: LocalExecutor, project: Project, pipe: Pipe) -> None:
    executor.start(project.job("mine.py:family", params={"pipe": pipe.path}))
    until_progress(executor)
    executor.cancel("family")
    outcomes(executor, 1)
    pipe.wait_until_nobody_holds_it()


def test_the_executor_is_closed(project: Project, pipe: Pipe) -> None:
    with LocalExecutor() as executor:
        executor.start(project.job("mine.py:family", params={"pipe": pipe.path}))
        until_progress(executor)
    pipe.wait_until_nobody_holds_it()


def _parent(process: int) -> int:
    stat = Path(f"/proc/{process}/stat").read_bytes()
    return int(stat.rpartition(b")")[2].split()[1])


@pytest.mark.parametrize("preload", [(), ("numpy",)], ids=["the first server", "a grown server"])
@pytest.mark.parametrize("above", mostly_slow([0, 1], 1), ids=["itself", "what it was forked from"])
def test_the_supervisor_is_killed(
    own_executor: LocalExecutor, project: Project, pipe: Pipe, preload: tuple[str, ...], above: int
) -> None:
    spec = Spec(output="metrics", preload=preload)
    job = project.job("mine.py:family", params={"pipe": pipe.path}, spec=spec)
    own_executor.start(job)
    killed = until_progress(own_executor)[0].total
    os.kill(_parent(killed) if above else killed, signal.SIGKILL)
    error = outcomes(own_executor, 1)["family"]
    pipe.wait_until_nobody_holds_it()
    assert isinstance(error, StageCrashed)
    assert str(error) == (
        "the process that supervises family died\n"
        "  it was killed from outside, or a library that it imports crashed it\n"
        f"  hint: Its log: {job.log}\n"
        f"  hint: Run it alone: orun {job.file} --only family"
    )
    assert isinstance(result(own_executor, project.job("mine.py:quick", spec=spec)), JobResult)


@pytest.mark.parametrize("leaves", ["leaves", "leaves_a_daemon"])
def test_what_a_stage_leaves_behind_ends_with_it_while_another_runs(
    executor: LocalExecutor, project: Project, leaves: str
) -> None:
    project.write("pipelines/mine.py", CODE)
    pipe, sign = Pipe(project.work / "pipe"), project.work / "sign"
    other = project.job("mine.py:waits", params={"sign": str(sign)})
    executor.start(other)
    until_progress(executor)
    executor.start(project.job(f"mine.py:{leaves}", params={"pipe": pipe.path}))
    assert list(outcomes(executor, 1)) == [leaves]
    pipe.wait_until_nobody_holds_it()
    sign.touch()
    assert list(outcomes(executor, 1)) == ["waits"]
