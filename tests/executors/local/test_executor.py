from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import onnx

from orun.core.metrics import Metric
from orun.core.serialization import replace
from orun.core.targets import Provider, Target
from orun.executors import Finished, JobResult, LocalExecutor, Progress
from orun.stages.contract import Port, Spec
from orun.stages.convert.onnx import SPEC as KIND
from tests.executors.models import affine
from tests.executors.support import PATIENCE, Project, log_of, outcomes, result, until_progress

CONTEXT = """
def report(context, *, count=1, names=()):
    lines = [
        context.stage, str(context.root), str(context.output), sorted(context.inputs), context.seed, context.timeout,
        context.provenance and context.provenance.read_text(), context.target and context.target.providers[0].name,
        context.inputs["model"].joinpath("x").read_text(), count, list(names),
    ]
    (context.output / "report.txt").write_text("\\n".join(map(str, lines)))
    return {"count": count}
"""


def test_a_stage_gets_its_context_and_returns_its_metrics(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", CONTEXT)
    model, provenance = project.work / "model", project.work / "provenance.json"
    model.mkdir(parents=True)
    (model / "x").write_text("weights")
    provenance.write_text("{}")
    job = project.job(
        "mine.py:report",
        spec=Spec(inputs={"model": Port(("files",), "a model")}, output="files"),
        params={"count": 3, "names": ["a", "b"]},
        inputs={"model": str(model)},
        target=Target("cpu", (Provider("CPUExecutionProvider"),)),
        seed=7,
        timeout=50.0,
        provenance=str(provenance),
    )
    job_result = result(executor, job)
    assert job_result.metrics == {"count": Metric(3.0)}
    assert Path(job.output, "report.txt").read_text().splitlines() == [
        "report", job.root, job.output, "['model']", "7", "50.0",
        "{}", "CPUExecutionProvider", "weights", "3", "['a', 'b']",
    ]  # fmt: skip
    assert job_result.cpu_seconds > 0
    assert job_result.seconds > 0
    assert job_result.peak_memory > 1_000_000


def test_a_stage_has_no_arguments(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", "import sys\nFOUND = sys.argv\ndef f(context):\n    assert FOUND == ['orun']\n")
    result(executor, project.job("mine.py:f"))


def test_a_built_in_kind_gets_its_parameters_as_their_class(executor: LocalExecutor, project: Project) -> None:
    model = project.root / "model.onnx"
    onnx.save(affine(), model)
    params = {"path": "model.onnx"}
    job = project.job("orun.stages.convert.onnx", origin="built-in", spec=KIND, params=params, stage="model")
    job_result = result(executor, job)
    assert job_result.metrics["nodes"] == Metric(1.0, better="lower")
    assert onnx.load(Path(job.output, "model.onnx")).graph.node[0].op_type == "Add"
    assert list(job_result.reads) == [str(model)]


def test_a_stage_runs_in_its_working_folder_with_nothing_to_read_from(
    executor: LocalExecutor, project: Project
) -> None:
    project.write(
        "pipelines/mine.py",
        """
import os, sys
def where(context):
    print(os.getcwd(), repr(sys.stdin.read()), os.getpgid(0) == os.getpid(), os.getsid(0) == os.getpid())
""",
    )
    job = project.job("mine.py:where")
    result(executor, job)
    assert log_of(job) == f"{job.work} '' True False\n"


def test_temporary_files_go_into_a_working_folder_whose_path_is_short(
    executor: LocalExecutor, project: Project
) -> None:
    project.write("pipelines/mine.py", "import tempfile\ndef where(context): print(tempfile.mkdtemp(prefix='a'))\n")
    job = project.job("mine.py:where")
    with contextlib.ExitStack() as stack:
        short = Path(f"/tmp/orun-{os.getpid()}")  # noqa: S108 - shorter than what pytest gives
        short.symlink_to(project.work)
        stack.callback(short.unlink)
        job = replace(job, work=str(short / Path(job.work).relative_to(project.work)))
        result(executor, job)
    assert log_of(job).startswith(f"{job.work}/a")


def test_everything_that_a_stage_prints_is_in_its_log(executor: LocalExecutor, project: Project) -> None:
    project.write(
        "pipelines/mine.py",
        r"""
import ctypes, logging, os, subprocess, sys
def chatter(context):
    print("python", "\udcff", flush=False)
    print("error", file=sys.stderr)
    libc = ctypes.CDLL(None)
    libc.printf(b"native\n")
    libc.fflush(None)
    os.write(1, b"\x00\xff\xfe garbage\x1b[31m\n")
    subprocess.run(["echo", "child"], check=True)
    context.log.info("logged %d", 1)
    libc.printf(b"unflushed\n")
""",
    )
    job = project.job("mine.py:chatter")
    result(executor, job)
    lines = Path(job.log).read_bytes().splitlines()
    assert lines[:5] == [b"python \\udcff", b"error", b"native", b"\x00\xff\xfe garbage\x1b[31m", b"child"]
    assert lines[5].endswith(b" INFO logged 1")
    assert lines[6:] == [b"unflushed"]


def test_progress_is_passed_on_and_the_last_of_it_always(executor: LocalExecutor, project: Project) -> None:
    project.write(
        "pipelines/mine.py",
        """
def steps(context):
    for done in range(1, 1001):
        context.progress(done, 1000, "calibrating")
""",
    )
    executor.start(project.job("mine.py:steps"))
    events: list[Progress | Finished] = []
    while not any(isinstance(event, Finished) for event in events):
        events += executor.wait(PATIENCE)
    shown = [event for event in events if isinstance(event, Progress)]
    assert shown[0] == Progress("steps", 1, 1000, "calibrating")
    assert shown[-1] == Progress("steps", 1000, 1000, "calibrating")
    assert len(shown) < 100


def test_two_stages_run_at_once(executor: LocalExecutor, project: Project) -> None:
    project.write(
        "pipelines/mine.py",
        """
def write(context, *, pipe):
    with open(pipe, "w") as there:  # a named pipe opens when both of its ends do
        there.write("met")
def read(context, *, pipe):
    with open(pipe) as here:
        assert here.read() == "met"
""",
    )
    project.work.mkdir()
    pipe = project.work / "pipe"
    os.mkfifo(pipe)
    executor.start(project.job("mine.py:read", params={"pipe": str(pipe)}))
    executor.start(project.job("mine.py:write", params={"pipe": str(pipe)}))
    assert {type(outcome) for outcome in outcomes(executor, 2).values()} == {JobResult}


def test_a_stage_sees_nothing_of_another(executor: LocalExecutor, project: Project) -> None:
    project.write(
        "pipelines/mine.py",
        """
import builtins, os, sys
def leave(context):
    builtins.left = os.environ["LEFT"] = "here"
    sys.modules["left"] = sys
def look(context):
    assert not hasattr(builtins, "left") and "LEFT" not in os.environ and "left" not in sys.modules
""",
    )
    result(executor, project.job("mine.py:leave"))
    result(executor, project.job("mine.py:look"))


def test_waiting_ends_when_its_time_is_up(executor: LocalExecutor, project: Project) -> None:
    project.write("pipelines/mine.py", SLEEPER)
    assert executor.wait() == []
    executor.start(project.job("mine.py:sleep"))
    until_progress(executor)
    assert executor.wait(0.01) == []
    assert executor.wait(0) == []
    executor.cancel("sleep")
    assert list(outcomes(executor, 1)) == ["sleep"]


SLEEPER = """
import time
def sleep(context):
    context.progress(0, 1, "sleeping")
    time.sleep(600)
"""


def test_an_executor_serves_again_after_it_was_closed(project: Project) -> None:
    project.write("pipelines/mine.py", "def nothing(context): pass\n")
    executor = LocalExecutor()
    for _ in range(2):
        result(executor, project.job("mine.py:nothing"))
        executor.close()
    executor.close()


def test_importing_the_executor_is_cheap() -> None:
    code = (
        "import sys, orun.executors; print(*sorted({'subprocess', 'socket', 'selectors', 'ctypes'} & set(sys.modules)))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split() == []
