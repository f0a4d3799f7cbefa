"""Servers that have imported libraries: what stages inherit, and what they must not."""

from __future__ import annotations

import errno
import os
import signal
from functools import partial
from itertools import chain
from pathlib import Path

import pytest

from orun.core.serialization import decode
from orun.errors import StageCrashed, StageFailed
from orun.executors import LocalExecutor
from orun.executors.local.channel import Channel
from orun.executors.local.messages import Ended, Trouble
from orun.executors.local.zygote import Zygote
from orun.executors.outcome import build_outcome
from orun.executors.tracing.observer import Observer
from orun.stages.contract import Spec
from tests.executors.support import Project, failure, forked, log_of, outcomes, result, until_progress

LOADED = """
import sys
def loaded(context, *, names):
    print(*[name for name in names if name in sys.modules])
"""


@forked
def test_a_stage_starts_with_what_its_kind_asks_for_and_with_nothing_else(
    executor: LocalExecutor, project: Project
) -> None:
    project.write("pipelines/mine.py", LOADED)
    names = {"names": ["numpy", "onnx", "onnxruntime"]}
    for preload, seen in ((("onnxruntime",), "numpy onnxruntime"), (("numpy",), "numpy"), ((), "")):
        job = project.job("mine.py:loaded", params=names, spec=Spec(output="metrics", preload=preload))
        result(executor, job)
        assert log_of(job) == f"{seen}\n"


def test_a_library_that_cannot_be_imported_is_the_stage_s_own_affair(
    own_executor: LocalExecutor, project: Project, library: Path
) -> None:
    (library / "halfway.py").write_text("raise RuntimeError('no device')\n")
    project.write("pipelines/mine.py", "def first(context):\n    import halfway\n")
    error = failure(own_executor, project.job("mine.py:first"))
    assert error.problem == "first raised RuntimeError: no device"
    project.write("pipelines/other.py", "def second(context): pass\n")
    result(
        own_executor, project.job("other.py:second", spec=Spec(output="metrics", preload=("halfway", "no_such_module")))
    )


def test_a_library_that_crashes_while_it_is_imported_crashes_the_stage_alone(
    own_executor: LocalExecutor, project: Project, library: Path
) -> None:
    (library / "crashing.py").write_text("import os\nos.abort()\n")
    (library / "zlater.py").write_text("")
    project.write("pipelines/mine.py", "def first(context):\n    import crashing, zlater\n")
    error = failure(own_executor, project.job("mine.py:first"))
    assert isinstance(error, StageCrashed)
    assert error.problem == "first crashed: SIGABRT (Aborted)"
    assert error.why == f"in native code, called at {project.root}/mine.py:2 in first"
    error = failure(own_executor, project.job("mine.py:first"))
    assert error.problem == "first crashed: SIGABRT (Aborted)"


@pytest.mark.slow
def test_a_library_that_starts_a_python_thread_gets_a_fresh_interpreter(
    own_executor: LocalExecutor, project: Project, library: Path
) -> None:
    (library / "threaded.py").write_text(
        "import threading\nlock = threading.Event()\nthreading.Thread(target=lock.wait, daemon=True).start()\n"
    )
    project.write(
        "pipelines/mine.py",
        """
import os, sys, threading
import threaded
def count(context, *, n):
    print(threading.active_count(), os.getpgid(0) == os.getpid())
    (context.output / "x").write_text("x")
    context.progress(1, 1, "")
    return {"n": n}
def boom(context):
    raise ValueError("bad")
""",
    )
    job = project.job("mine.py:count", params={"n": 4})
    job_result = result(own_executor, job)
    assert job_result.metrics["n"].value == 4
    assert log_of(job) == "2 True\n"
    assert f"{project.root}/mine.py" in job_result.reads
    error = failure(own_executor, project.job("mine.py:boom"))
    assert isinstance(error, StageFailed)
    assert error.problem == "boom raised ValueError: bad"


def test_a_server_that_is_killed_is_started_anew(own_executor: LocalExecutor, project: Project) -> None:
    project.write(
        "pipelines/mine.py",
        """
import os, time
def sleep(context):
    context.progress(os.getppid(), 0, "")
    time.sleep(600)
def quick(context): pass
""",
    )
    spec = Spec(output="metrics", preload=("numpy",))
    own_executor.start(project.job("mine.py:sleep", spec=spec))
    os.kill(until_progress(own_executor)[0].done, signal.SIGKILL)
    assert isinstance(outcomes(own_executor, 1)["sleep"], StageCrashed)
    result(own_executor, project.job("mine.py:quick", spec=spec))


def test_the_root_that_cannot_start_says_what_it_printed(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow" / "selectors.py").write_text("raise RuntimeError('shadowed')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "shadow"))
    project.write("pipelines/mine.py", "def quick(context): pass\n")
    with LocalExecutor() as executor:
        for preload in ((), ("numpy",)):
            error = failure(executor, project.job("mine.py:quick", spec=Spec(output="metrics", preload=preload)))
            assert error.problem == "the process that supervises quick died"
            assert error.why.splitlines()[-1] == "RuntimeError: shadowed"


@pytest.mark.slow
def test_the_order_of_sets_is_the_same_in_every_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    project.write("pipelines/mine.py", "def order(context): print(*set(map(str, range(50))))\n")
    logs = set()
    for _ in range(2):
        with LocalExecutor() as executor:
            job = project.job("mine.py:order")
            result(executor, job)
            logs.add(log_of(job))
    assert len(logs) == 1


@pytest.mark.slow
def test_a_hash_seed_of_the_user_s_is_kept(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "11")
    project.write("pipelines/mine.py", "import os\ndef seed(context): print(os.environ['PYTHONHASHSEED'])\n")
    with LocalExecutor() as executor:
        job = project.job("mine.py:seed")
        result(executor, job)
        assert log_of(job) == "11\n"


def test_a_stage_that_cannot_be_forked_fails_alone(project: Project) -> None:
    def fork() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    runner, control = Channel.open_pair()
    zygote = Zygote(control, Observer(), forks=True, fork=fork)
    job = project.job("mine.py:quick")
    zygote.run(job)
    trouble, ended = runner.receive_messages()
    outcome = build_outcome(job, decode(Trouble, trouble["trouble"]), {}, decode(Ended, ended["ended"]))
    assert str(outcome) == (
        "quick could not start\n"
        "  [Errno 11] Resource temporarily unavailable\n"
        f"  hint: Its log: {job.log}\n"
        f"  hint: Run it alone: orun {job.file} --only quick"
    )
    zygote.close()
    runner.close()


@pytest.mark.slow
def test_what_went_while_others_were_attended_to_is_left_alone() -> None:
    runner, control = Channel.open_pair()
    zygote = Zygote(control, Observer(), forks=True)
    ends = [Channel.open_pair() for _ in range(2)]
    attended: list[int] = []

    def end(place: int) -> None:
        """One stage's event, in which another stage is reaped."""
        attended.append(place)
        zygote.unwatch(ends[1 - place][0])
        ends[1 - place][0].close()

    for place, (ours, theirs) in enumerate(ends):
        zygote.watch(ours, partial(end, place))
        theirs.send({"stage": "ended"})
    zygote.handle_next()
    assert len(attended) == 1
    zygote.close()
    for channel in (runner, *chain.from_iterable(ends)):
        channel.close()
